"""`fleet facts`: what a node says of one of its parts, with an exit code that can be relied on.

`pyinfra inventory.py fact NAME` prints the same and exits with 0 whatever happened.
"""

import importlib
import json
import os
import pkgutil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.machine import fail, json_option

if TYPE_CHECKING:
    from facts.section import SectionFact

FleetName = Annotated[
    str | None, typer.Option("--fleet", envvar="FLEET", help="A folder under inventory/, or any path; default: lab.")
]


def facts(
    fact: Annotated[str | None, typer.Argument(help="Topology, Gpus, ...; none: list them.")] = None,
    node: Annotated[str | None, typer.Argument(help="Only this node; every node by default.")] = None,
    fleet: FleetName = None,
    as_json: Annotated[bool, json_option("One object for machines: node -> value.")] = False,
) -> None:
    """Ask every node for one fact. Exit 1 where a node does not answer or cannot tell."""
    from cli.session import connected, placed
    from declare.invocation import for_command
    from declare.problem import DeclarationError

    known = catalogue()
    if fact is None:
        _list(known, as_json)
        return
    name = fact.rpartition(".")[2].lower()
    if name not in known:
        fail(f"fact: want one of {', '.join(sorted(kind.__name__ for kind in known.values()))}, found {fact!r}")
    try:
        invocation = for_command(os.environ.get("FLEET") if fleet is None else fleet)
    except DeclarationError as error:
        fail(str(error))
    with connected(invocation, placed(invocation.fleet, None, node)) as session:
        told = {
            each: {"error": "no connection (the reason is printed above)"}
            for each in placed(invocation.fleet, None, node)
        }
        told |= _asked(session.hosts, known[name])
    if as_json:
        typer.echo(json.dumps(told, indent=1, ensure_ascii=False))
    else:
        for each, value in told.items():
            typer.echo(f"{each}\n{_readable(value)}")
    if any(value.get("error") for value in told.values()):
        raise typer.Exit(1)


def catalogue() -> "dict[str, type[SectionFact]]":
    """Every fact of a part of a node, by its name in small letters."""
    import facts as room
    from facts.section import SectionFact

    for found in pkgutil.iter_modules(room.__path__):
        if not found.ispkg:
            importlib.import_module(f"facts.{found.name}")
    return {
        kind.__name__.lower(): kind for kind in SectionFact.__subclasses__() if kind.__module__.startswith("facts.")
    }


def _list(known: "dict[str, type[SectionFact]]", as_json: bool) -> None:
    rows = {kind.__name__: (kind.__doc__ or "").partition("\n")[0] for _, kind in sorted(known.items())}
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    for name, summary in rows.items():
        typer.echo(f"{name:12} {summary}")


def _asked(hosts: dict[str, Any], kind: "type[SectionFact]") -> dict[str, dict[str, Any]]:
    """Node -> its value, all nodes at once; `error` where there is none."""
    from gevent.pool import Pool
    from pyinfra.api.exceptions import FactProcessError

    from facts.shell import run

    def one(name: str) -> tuple[str, dict[str, Any]]:
        fact = kind()
        fact.command()
        output = run(hosts[name], ("bash", "-s"), stdin=fact.script.text)
        if output.reason is not None:
            return name, {"error": output.reason}
        try:
            return name, fact.process(output.stdout.splitlines())
        except FactProcessError as error:
            return name, {"error": str(error)}

    return dict(sorted(Pool(256).imap_unordered(one, list(hosts))))


def _readable(value: dict[str, Any]) -> str:
    """One line a field; a list of values one line an entry."""
    lines = []
    for field, inner in value.items():
        if isinstance(inner, list) and inner:
            lines += [f"  {field}:", *(f"    {_line(entry)}" for entry in inner)]
        else:
            lines.append(f"  {field}: {_line(inner)}")
    return "\n".join(lines)


def _line(entry: Any) -> str:
    if entry is None:
        return "-"
    if isinstance(entry, dict):
        return ", ".join(f"{name} {_line(value)}" for name, value in entry.items() if value not in (None, [], {}))
    return json.dumps(entry, ensure_ascii=False) if isinstance(entry, list) else str(entry)
