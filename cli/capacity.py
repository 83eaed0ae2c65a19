"""`fleet capacity FILE.json --load N`: the replicas that a load needs, by P99 of a measured speed run."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.machine import Json, fail


def capacity(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Of `fleet probe speed --json`, or kept by verify.py.")],
    load: Annotated[float, typer.Option("--load", help="Requests a second that all replicas together shall answer.")],
    ttft: Annotated[float | None, typer.Option("--ttft-p99", help="Seconds to the first token, at most.")] = None,
    tpot: Annotated[float | None, typer.Option("--tpot-p99", help="Seconds a token after it, at most.")] = None,
    head_room: Annotated[float, typer.Option("--head-room", help="Share of a replica that is kept free.")] = 0.3,
    spare: Annotated[int, typer.Option("--spare", help="Replicas more than needed, for one that is rolled.")] = 1,
    node: Annotated[str | None, typer.Option("--node", help="Of several nodes in the file, this one.")] = None,
    as_json: Json = False,
) -> None:
    """Say how many replicas a load needs. Exit 2 where no measured level keeps the limits at P99."""
    from pydantic import ValidationError

    from fleet.proof.speed import Measured, Objective
    from fleet.proof.speed import capacity as counted

    try:
        objective = Objective(ttft_s=ttft, tpot_s=tpot, load=load, head_room=head_room, spare=spare)
        levels = [Measured.model_validate(each) for each in _levels(file, node)]
    except ValidationError as error:
        wrong = error.errors()[0]
        fail(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}, found {wrong['input']!r:.80}")
    found = counted(levels, objective)
    if as_json:
        typer.echo(found.model_dump_json(indent=1))
    else:
        for line in found.rejected:
            typer.echo(f"not counted: {line}")
        if found.replicas is None:
            typer.echo("no level keeps the limits at P99: no number of replicas does")
        else:
            typer.echo(
                f"{found.replicas} replicas for {load:g} requests/s ({spare} of them spare): "
                f"{found.requests_per_s:.3g} requests/s each, as at {found.level} less {head_room:.0%} head room"
            )
    if found.replicas is None:
        raise typer.Exit(2)


def _levels(file: Path, node: str | None) -> list[Any]:
    """Levels of the speed run in a file: an Evidence, or the results of verify.py. Exits 1 where there is not one."""
    try:
        document = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        fail(f"{file}: want JSON of a speed run, found {error}")
    runs = [item for item in _evidence(document, node) if isinstance(item, dict) and item.get("probe") == "speed"]
    if len(runs) != 1:
        fail(f"{file}: want one speed run, found {len(runs)}; of several nodes choose one with --node")
    details = runs[0].get("details")
    levels = details.get("levels") if isinstance(details, dict) else None
    if not isinstance(levels, list) or not levels:
        fail(f"{file}: want levels in the speed run, found none")
    return levels


def _evidence(document: object, node: str | None) -> list[Any]:
    if not isinstance(document, dict):
        return []
    if "results" not in document:
        return [document]
    rows = [row for row in document["results"] if isinstance(row, dict) and node in (None, row.get("node"))]
    return [item for row in rows for item in row.get("evidence") or []]
