"""Record what every node answers, so that the fleet can be planned, judged and compared without contact.

A capture is a folder: NODE.probe of each node, and capture.yaml, which names the fleet. FLEET=FOLDER runs every verb
on it.
"""

import datetime
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.machine import Json, fail

if TYPE_CHECKING:
    from declare.invocation import Invocation
    from fleet.nodes.node import NodeFacts

app = typer.Typer(help=__doc__, invoke_without_command=True)

FleetName = Annotated[
    str | None, typer.Option("--fleet", envvar="FLEET", help="A folder under inventory/, or any path; default: lab.")
]


@app.callback()
def capture(
    context: typer.Context,
    to: Annotated[Path | None, typer.Option("--to", help="Folder; default: captures/FLEET-TIME here.")] = None,
    node: Annotated[list[str] | None, typer.Option("--node", help="Only this node; may be given again.")] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Show what NODE.yaml would say of the hardware; exit 2 where it differs.")
    ] = False,
    new: Annotated[
        str | None, typer.Option("--new", metavar="NAME=ADDRESS", help="A node without a NODE.yaml; see --like.")
    ] = None,
    like: Annotated[str | None, typer.Option("--like", help="With --new: the node that it is written like.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --refresh or --new: write NODE.yaml.")] = False,
    fleet: FleetName = None,
    as_json: Json = False,
) -> None:
    """Record every node; with --refresh or --new tell what NODE.yaml should say, and with --yes write it."""
    if context.invoked_subcommand is not None:
        return
    from cli.capturing import Wish, record

    invocation = _invocation(fleet)
    record(invocation, Wish(to=to, nodes=tuple(node or ()), refresh=refresh, new=new, like=like, yes=yes), as_json)


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(help="A capture.")],
    after: Annotated[Path, typer.Argument(help="A later one.")],
    as_json: Json = False,
) -> None:
    """What changed on which node between two captures. Exit 2 where something did, 1 where one cannot be read."""
    from fleet.nodes.facts_difference import facts_difference

    old, new = (_nodes(folder) for folder in (before, after))
    rows: dict[str, Any] = {}
    for name in sorted(old.keys() | new.keys()):
        if name in old and name in new:
            rows[name] = [difference.model_dump() for difference in facts_difference(old[name], new[name])]
        else:
            said = "is only in the later one" if name in new else "is only in the earlier one"
            rows[name] = [{"field": "node", "before": "", "after": said, "diff": []}]
    changed = {name: found for name, found in rows.items() if found}
    if as_json:
        typer.echo(json.dumps({"before": str(before), "after": str(after), "changed": changed}, indent=1))
    else:
        _show(changed, len(rows))
    if changed:
        raise typer.Exit(2)


def _show(changed: dict[str, list[dict[str, Any]]], nodes: int) -> None:
    for name, found in changed.items():
        typer.echo(name)
        for one in found:
            if one["diff"]:
                typer.echo("\n".join((f"  {one['field']}", *(f"    {line}" for line in one["diff"]))))
            elif one["before"]:
                typer.echo(f"  {one['field']}: {one['before']} -> {one['after']}")
            else:
                typer.echo(f"  {one['after']}")
    typer.echo(f"{len(changed)} of {nodes} nodes changed" if changed else f"nothing changed on {nodes} nodes")


def _nodes(folder: Path) -> "dict[str, NodeFacts]":
    """The facts of every node of a capture; exit 1 where it is none or one cannot be read."""
    from facts.parse.frames import ProbeError
    from facts.parse.probe import parse_probe
    from facts.script import ProbeScript
    from facts.scrub import NONCE, RecordingError, read_recording

    found = {}
    for path in sorted(folder.glob("*.probe")):
        try:
            recording = read_recording(path.read_text())
            script = ProbeScript(text="", nonce=NONCE, request=recording.request)
            found[path.stem] = parse_probe(recording.text, script)
        except (OSError, UnicodeDecodeError, RecordingError, ProbeError) as error:
            fail(f"{path}: {error}")
    if not found:
        fail(f"{folder}: want a folder that `fleet capture` wrote, found no NODE.probe in it")
    return found


def _invocation(fleet: str | None) -> "Invocation":
    from declare.invocation import for_command
    from declare.problem import DeclarationError

    try:
        return for_command(os.environ.get("FLEET") if fleet is None else fleet)
    except DeclarationError as error:
        fail(str(error))


def default_folder(fleet: str, now: datetime.datetime) -> Path:
    """captures/FLEET-TIME, below the working directory."""
    return Path("captures") / f"{fleet.replace(' ', '-')}-{now:%Y%m%dT%H%M%SZ}"
