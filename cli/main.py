"""`fleet`: the daily verbs. Rollouts themselves are pyinfra's: `pyinfra inventory.py deploy.py`."""

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.ab import app as ab
from cli.capacity import capacity
from cli.capture import app as capture
from cli.check_argv import check_argv
from cli.compare import compare
from cli.degenerate import degenerate
from cli.engine import app as engine
from cli.facts import facts
from cli.lab import app as lab
from cli.machine import Json, fail, tell
from cli.manifest import manifest
from cli.patch import app as patch
from cli.plan import plan
from cli.pool import pool
from cli.probe import probe
from cli.topology import topology
from cli.upgrade import upgrade
from declare.encoding import escape_the_rest

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Daily verbs of vllm-fleet. Exit 0: as wanted; 1: refused or failed; 2: drift or degraded.",
)

Service = Annotated[str, typer.Argument(help="A service of group_data.")]
Node = Annotated[str | None, typer.Argument(help="Only this node; every node of the service by default.")]
FleetName = Annotated[
    str | None, typer.Option("--fleet", envvar="FLEET", help="A folder under inventory/, or any path; default: lab.")
]
Data = Annotated[
    list[str] | None, typer.Option("--data", help="Override for this run: key=value, as pyinfra's --data.")
]


def _invocation(fleet: str | None, data: list[str] | None, about: str | None = None) -> Any:
    """The declared fleet with overrides, `about` one service or all; exit 1 with file, line, field of a mistake."""
    from declare.invocation import for_command
    from declare.problem import DeclarationError

    if fleet is None:  # typer takes an empty variable for none, and another fleet than was meant would be acted on
        fleet = os.environ.get("FLEET")
    try:
        return for_command(fleet, data or [], about)
    except DeclarationError as error:
        fail(str(error))


@app.command("cmd")
def cmd(
    service: Service,
    node: Node = None,
    check: Annotated[
        Path | None,
        typer.Option("--check", help="Compare with this recorded command, without contact; exit 2 on drift."),
    ] = None,
    fleet: FleetName = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Print the exact command and env of a service, after all gates. Starts nothing."""
    from cli import command

    invocation = _invocation(fleet, data, service)
    if check is not None:
        command.check(invocation, service, node, check, as_json)
    else:
        command.preview(invocation, service, node, as_json)


@app.command()
def start(
    service: Service, node: Node = None, fleet: FleetName = None, data: Data = None, as_json: Json = False
) -> None:
    """Start the release that lies on the nodes, after all gates."""
    from cli import service as services

    services.start(_invocation(fleet, data, service), service, node, as_json)


@app.command()
def stop(service: Service, node: Node = None, fleet: FleetName = None, as_json: Json = False) -> None:
    """Stop a service on its nodes, also one that is no longer declared. Its release stays."""
    from cli import service as services

    services.stop(_invocation(fleet, None), service, node, as_json)


@app.command()
def unlock(
    node: Annotated[str, typer.Argument(help="The node that a dead run holds.")],
    yes: Annotated[bool, typer.Option("--yes", help="That run is dead: take its lock away.")] = False,
    holder: Annotated[str | None, typer.Option("--holder", help="Leave the lock of anybody else alone.")] = None,
    fleet: FleetName = None,
    as_json: Json = False,
) -> None:
    """Tell who holds a node, and with --yes take the lock of a dead run away before its lease ends."""
    from cli import service as services

    services.unlock(_invocation(fleet, None), node, yes, holder, as_json)


@app.command()
def wait(service: Service, node: Node = None, fleet: FleetName = None, as_json: Json = False) -> None:
    """Wait until a service answers a real completion on every node."""
    from cli import service as services

    services.wait(_invocation(fleet, None), service, node, as_json)


@app.command()
def status(
    service: Annotated[str | None, typer.Argument(help="Only this service.")] = None,
    node: Node = None,
    fleet: FleetName = None,
    as_json: Json = False,
) -> None:
    """What runs where, and whether it is proven. Exit 2 where something does not run or is not proven."""
    from cli import status as statuses

    statuses.status(_invocation(fleet, None), service, node, as_json)


app.command("topology")(topology)
app.command("manifest")(manifest)
app.command("plan")(plan)
app.command("compare")(compare)
app.command("pool")(pool)
app.command("capacity")(capacity)
app.add_typer(ab, name="ab")
app.command("degenerate")(degenerate)
app.command("check-argv")(check_argv)
app.command("upgrade")(upgrade)
app.add_typer(engine, name="engine", help="What each engine version accepts and can do.")
app.add_typer(patch, name="patch")
app.command("probe")(probe)
app.add_typer(capture, name="capture")
app.command("facts")(facts)
app.add_typer(lab, name="lab", help="Real systemd hosts on this machine to try everything on.")


@app.command()
def gates(as_json: Json = False) -> None:
    """List the gates: what each reads, how severe it is, and its remedy."""
    from cli.gates import show

    show(as_json)


def main() -> None:
    """Entry point of the `fleet` command. A wrong call exits 1: 2 means drift or degraded."""
    escape_the_rest()
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        typer.echo(f"the answer cannot be written: {error.strerror}", err=True)
    except Exception as error:
        show = getattr(error, "show", None)  # what click's errors have, whichever click typer brings along
        if show is None:
            raise
        show()
        if "--json" in sys.argv:  # its words were not read to the end, so what they ask for is not known otherwise
            tell({"error": error.format_message()})
    sys.exit(1)


if __name__ == "__main__":
    main()
