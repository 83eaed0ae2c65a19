"""`fleet probe NAME --url URL --model MODEL`: one probe against any engine, without a fleet."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.machine import fail, json_option

KEY = "VLLM_API_KEY"


def probe(
    name: Annotated[
        str, typer.Argument(help="smoke, tools, needle, degeneration, quality, speed, ... or a file's name.")
    ],
    url: Annotated[str, typer.Option("--url", help="http://HOST:PORT of the engine.")],
    model: Annotated[str, typer.Option("--model", help="The name that it is served under.")],
    trials: Annotated[int | None, typer.Option("--trials", help="How often is asked, where the probe counts.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Nothing goes on after so long.")] = 1800,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="Of one answer.")] = None,
    concurrency: Annotated[str, typer.Option("--concurrency", help="Requests at once: 8, or 1,4,8,16.")] = "",
    lengths: Annotated[str, typer.Option("--lengths", help="Prompt lengths in tokens: 300000,500000.")] = "",
    rate: Annotated[float | None, typer.Option("--rate", help="speed: requests a second, an open loop.")] = None,
    arrivals: Annotated[
        str, typer.Option("--arrivals", help="Of --rate: poisson, as independent clients come, or even.")
    ] = "poisson",
    seed: Annotated[int, typer.Option("--seed", help="Of --arrivals poisson: the same moments each time.")] = 0,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="What --json printed for a good engine.")] = None,
    folder: Annotated[Path | None, typer.Option("--probes", help="A folder with probes of your own.")] = None,
    as_json: Annotated[bool, json_option("For machines; progress goes to stderr.")] = False,
) -> None:
    """Ask a running engine. Exit 0: passed, 1: failed, 2: degraded. Its key is read from VLLM_API_KEY."""
    from pydantic import ValidationError

    from probes.asking.load import ProbeNotLoaded, load
    from probes.evidence import Endpoint, Limits

    try:
        endpoint = Endpoint.model_validate({"url": url, "model": model, "api_key": os.environ.get(KEY) or None})
        limits = Limits.model_validate(
            {
                "total_s": seconds,
                "max_tokens": max_tokens,
                "trials": trials,
                "concurrency": _numbers("--concurrency", concurrency),
                "lengths": _numbers("--lengths", lengths),
                "rate": rate,
                "arrivals": arrivals,
                "seed": seed,
                "before": _evidence(baseline) if baseline else None,
            }
        )
        ask = load(name, [folder] if folder else [])
    except ValidationError as error:
        wrong = error.errors()[0]
        said = wrong["msg"].removeprefix("Value error, ")
        found = "" if ", found " in said else f", found {wrong['input']!r:.80}"  # words of ours say it
        fail(f"{'.'.join(map(str, wrong['loc']))}: {said}{found}")
    except ProbeNotLoaded as error:
        fail(str(error))
    evidence = ask(endpoint, limits, lambda line: typer.echo(line, err=True))
    typer.echo(evidence.model_dump_json(indent=1) if as_json else str(evidence))
    if not evidence.passed:
        raise typer.Exit(2 if evidence.degraded else 1)


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        fail(f"{option}: want whole numbers with commas between them, found {text!r}")


def _evidence(path: Path) -> Any:
    """The document of an earlier run; its fields are checked with the others."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        fail(f"--baseline: want JSON as `fleet probe --json` prints it in {path}, found {error}")
