"""What a machine is told: under --json stdout has one JSON document, also where a verb fails; people read stderr."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from fleet.verdict import Verdict

_asks = [False]


def _remember(value: bool) -> bool:
    _asks[0] = value
    return value


def json_option(about: str = "For machines.") -> Any:
    """The option of every verb. What it said is remembered, so that a refusal from anywhere is a document as well."""
    return typer.Option("--json", callback=_remember, help=about)


Json = Annotated[bool, json_option()]


def tell(document: object) -> None:
    """The one document of a verb."""
    typer.echo(json.dumps(document, indent=1, ensure_ascii=False))


def refused(text: str, **more: object) -> None:
    """`{"error": ...}` on stdout where a machine asked; nothing where people read, who are told on stderr."""
    if _asks[0]:
        tell({"error": text, **more})


def refused_by(verdicts: "Sequence[Verdict]") -> NoReturn:
    """Leave with 1 where gates fail, of which people were shown the table; `verdicts`: every one that was asked."""
    failing = sorted({verdict.gate for verdict in verdicts if verdict.stops})
    refused(f"refused by {', '.join(failing)}", verdicts=[verdict.model_dump() for verdict in verdicts])
    raise typer.Exit(1)


def fail(text: str, **more: object) -> NoReturn:
    """Say why on stderr, and under --json on stdout as well, with `more` beside it; leave with 1."""
    typer.echo(text, err=True)
    refused(text, **more)
    raise typer.Exit(1)
