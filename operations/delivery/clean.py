"""What deliveries left on a node and nothing needs: shown first, taken away only where `--data clean=true` says so."""

import posixpath
from typing import TYPE_CHECKING

from operations.delivery.swarming import Delivery
from operations.delivery.turn import NodeFailed, Turn

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from rich.console import Console


def doomed(run: Delivery, node: str) -> list[str]:
    """Gatherings of contents that are no longer declared, and folders that a delivery replaced."""
    look, declared = run.found.looks[node], {item.staging for item in run.found.items.values()}
    gone = []
    for folder in look.folders:
        parent, name = posixpath.split(folder.path)
        for other in folder.beside:
            path = f"{parent}/{other}"
            ours = other.startswith(f".{name}.replaced.") or (
                other.startswith(f".{name}.") and other.endswith(".delivery")
            )
            if ours and path not in declared:
                gone.append(path)
    return sorted(set(gone))


def show(out: "Console", run: Delivery) -> list[str]:
    """Say what goes; the same list for the report."""
    lines = [f"{node}:{path}" for node in sorted(run.hosts) for path in doomed(run, node)]
    for line in lines:
        out.print(f"clean  {line}", markup=False, soft_wrap=True)
    if not lines:
        out.print("clean: nothing that deliveries left is there")
    return lines


def clean(run: Delivery, host: "Host") -> None:
    """Take it away."""
    gone = doomed(run, host.name)
    if not gone:
        return
    turn = Turn(run, host)
    try:
        turn.must("begin", stagings=[], secret="")
        turn.must("clean", doomed=gone)
    except NodeFailed as error:
        run.stop(f"{host.name}: {error}")
    finally:
        turn.end()
