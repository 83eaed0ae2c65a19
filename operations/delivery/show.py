"""What an operator reads of a delivery: what would move, from where, what is refused, and what came of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console

from fleet.delivery.delivery import Need
from fleet.delivery.swarm import rounds
from operations.delivery import clean
from operations.delivery.look import Found, totals
from operations.delivery.run import Delivery
from operations.show import console, print_table

if TYPE_CHECKING:
    from pyinfra.api.state import State

GIB = 1 << 30


def show(state: "State", run: Delivery, refuse: Callable[["State", Delivery], None]) -> None:
    """What was found; then `refuse` may raise; then what goes, where it is to be cleaned."""
    out = console(run.json)
    _show_needs(out, run)
    refuse(state, run)
    if run.clean:
        clean.show(out, run)
    if run.dry:
        out.print("\n[bold]Dry run[/]: nothing was moved.")


def _show_needs(out: Console, run: Delivery) -> None:
    """What would move, from where, and for how long in rounds."""
    found = run.found
    cells = [
        (node, found.items[need.item].name, found.items[need.item].path, *_words(found, need))
        for node, needs in sorted(found.needs.items())
        for need in needs
        if need.action != "none"
    ]
    if cells:
        print_table(out, "Delivery", ("node", "item", "at", "what", "from"), cells)
        for key, item in sorted(found.items.items()):
            targets = len(found.fetching(key))
            if targets > 1:
                holders = sum(held == key for _, held in found.sources) + bool(item.origin.folder or item.origin.url)
                count = rounds(targets, max(holders, 1), run.fleet.delivery.serves)
                serves = run.fleet.delivery.serves
                out.print(
                    f"{item.name}: {targets} nodes, each gives to {serves} more: {count} rounds instead of {targets}"
                )
    out.print(f"{totals(found)} to move, {run.as_declared} as declared")
    for node, holder in sorted(held(run).items()):
        out.print(f"waits  {node}: another delivery runs there: {holder}", markup=False, soft_wrap=True)
    for where, why in found.problems:
        out.print(f"refused  {where}: {why}", style="bold red", markup=False, soft_wrap=True)
    for node, reason in sorted(found.unread.items()):
        out.print(f"silent  {node}: {reason}", style="bold red", markup=False, soft_wrap=True)


def held(run: Delivery) -> dict[str, str]:
    """Nodes that another delivery held when they were looked at, and who runs that."""
    holders = {}
    for node, look in run.found.looks.items():
        lease = (look.lease or "").split(" ", 2)
        if len(lease) == 3 and lease[1].isdigit() and look.now < int(lease[1]):
            holders[node] = lease[2]
    return holders


def _words(found: Found, need: Need) -> tuple[str, str]:
    if need.refused:
        return "refused", "-"
    if need.action == "verify":
        return f"read and compare {need.bytes / GIB:.2f} GiB", "-"
    holders = sorted(node for node, key in found.sources if key == need.item)
    peers = f"{', '.join(holders[:3])}{f' and {len(holders) - 3} more' if len(holders) > 3 else ''}"
    origin = found.items[need.item].origin
    return f"{need.bytes / GIB:.2f} GiB{f'; {need.note}' if need.note else ''}", peers or str(origin)


def show_result(run: Delivery) -> None:
    """What became of every item on every node, and why the run stopped."""
    out = console(run.json)
    if not run.dry and run.outcomes:
        out.print()
        names = ("node", "item", "status", "GiB", "seconds", "from", "reason")
        items = run.found.items
        cells = [
            (
                row.node,
                items[row.item].name if row.item in items else "-",
                row.status,
                f"{row.bytes / GIB:.2f}",
                f"{row.seconds:.1f}",
                ", ".join(row.sources[:3]) + (f" and {len(row.sources) - 3} more" if len(row.sources) > 3 else ""),
                row.reason or "-",
            )
            for row in run.rows
        ]
        print_table(out, "Result of the delivery", names, cells)
    if run.stopped:
        out.print(f"stopped: {run.stopped}", style="bold red", markup=False, soft_wrap=True)
