"""The story of `deliver.py` in the parts that it tells: begin, bring, finish. Refusals come before anything moves."""

import atexit
import os
import sys
from typing import TYPE_CHECKING

from gevent.lock import RLock
from pyinfra.api.exceptions import DeployError

from declare.invocation import Invocation
from fleet.delivery.delivery import Need
from fleet.delivery.swarm import rounds
from operations.delivery import clean
from operations.delivery.look import Found, survey, totals
from operations.delivery.swarming import Delivery, deliver
from operations.prepare import hosts_of, report_path
from operations.show import console, print_table

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State
    from rich.console import Console

GIB = 1 << 30
_guard = RLock()
_begun: list[Delivery | Exception] = []


def begin(state: "State", invocation: Invocation) -> Delivery:
    """The one delivery of this process: looked at, decided and shown by the first host, shared by all."""
    with _guard:
        if not _begun:
            try:
                _begun.append(_prepare(state, invocation))
            except Exception as error:
                _begun.append(error)
        if isinstance(_begun[0], Exception):
            raise _begun[0]
        return _begun[0]


def _prepare(state: "State", invocation: Invocation) -> Delivery:
    fleet = invocation.fleet
    if invocation.overrides.clean and invocation.overrides.service is not None:
        raise DeployError("--data clean: want the whole declaration, found service as well; leave that away")
    hosts, silent = hosts_of(state)
    found = survey(fleet, hosts, invocation.overrides.service, invocation.overrides.rehash)
    found.unread |= {name: answer.reason or "no answer" for name, answer in silent.items()}
    run = Delivery(
        fleet=fleet,
        found=found,
        hosts={name: host for name, host in hosts.items() if name not in found.unread},
        dry=invocation.dry,
        json=invocation.json,
        clean=invocation.overrides.clean,
        report=report_path(invocation),
    )
    out = console(invocation.json)
    atexit.register(_end, run, out)
    _show(out, run)
    _refuse(state, run)
    if run.clean:
        clean.show(out, run)
    if invocation.dry:
        out.print("\n[bold]Dry run[/]: nothing was moved.")
    elif not run.active:
        out.print("\n[green]Nothing to deliver[/]: every checkpoint and image is where it is declared, and verified.")
    return run


def _show(out: "Console", run: Delivery) -> None:
    """What would move, from where, and for how long in rounds."""
    found = run.found
    cells = [
        (node, found.items[need.item].name, found.items[need.item].path, *_words(found, need))
        for node, needs in sorted(found.needs.items())
        for need in needs
        if need.action != "none"
    ]
    kept = sum(need.action == "none" for needs in found.needs.values() for need in needs)
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
    out.print(f"{totals(found)} to move, {kept} as declared")
    for where, why in found.problems:
        out.print(f"refused  {where}: {why}", style="bold red", markup=False, soft_wrap=True)
    for node, reason in sorted(found.unread.items()):
        out.print(f"silent  {node}: {reason}", style="bold red", markup=False, soft_wrap=True)


def _words(found: Found, need: Need) -> tuple[str, str]:
    if need.refused:
        return "refused", "-"
    if need.action == "verify":
        return f"read and compare {need.bytes / GIB:.2f} GiB", "-"
    holders = sorted(node for node, key in found.sources if key == need.item)
    peers = f"{', '.join(holders[:3])}{f' and {len(holders) - 3} more' if len(holders) > 3 else ''}"
    origin = found.items[need.item].origin
    return f"{need.bytes / GIB:.2f} GiB{f'; {need.note}' if need.note else ''}", peers or str(origin)


def _refuse(state: "State", run: Delivery) -> None:
    """By policy a refused or silent node stops everything, or is left out. DeployError, after the report."""
    found, policy = run.found, run.fleet.rollout
    refused = {node for node, needs in found.needs.items() if any(need.refused for need in needs)}
    about_items = [(where, why) for where, why in found.problems if where not in found.looks]
    everywhere = bool(about_items) or (refused and policy.on_failed_gate == "stop")
    if everywhere or (found.problems and not refused):
        run.stop(f"refused, nothing was moved: {'; '.join(f'{where}: {why}' for where, why in found.problems[:3])}")
    elif found.unread and policy.on_unreachable == "stop":
        run.stop(f"refused, nothing was moved: no answer of {', '.join(sorted(found.unread))}")
    elif not set(run.hosts) - refused:
        run.stop("refused: no node is left to deliver to; nothing was moved")
    if run.stopped:
        raise DeployError(run.stopped)
    for node in refused:
        found.needs[node] = [need for need in found.needs[node] if need.refused]
        del run.hosts[node]
    leaving = {host for host in state.active_hosts if host.name in refused | set(found.unread)}
    if leaving:
        console(run.json).print(f"left out: {', '.join(sorted(host.name for host in leaving))}", style="bold red")
        state.fail_hosts(leaving)


def bring(state: "State", host: "Host", run: Delivery) -> bool:
    """Every node at once, whatever number pyinfra runs at a time: they wait for each other's bytes."""
    run.once("deliver", lambda: deliver(run))
    return all(row.good for row in run.rows if row.node == host.name)


def beforehand(state: "State", invocation: Invocation) -> None:
    """The delivery of a rollout that was asked to deliver first. DeployError where a node did not get everything."""
    run = _prepare(state, invocation)
    if run.dry or not any(need.action != "none" for needs in run.found.needs.values() for need in needs):
        return
    deliver(run)
    bad = sorted({row.node for row in run.rows if not row.good})
    if bad:
        raise DeployError(f"not delivered to {', '.join(bad)}; nothing was staged or activated: {run.stopped}")


def clean_up(state: "State", host: "Host", run: Delivery) -> bool:
    """Take away what was shown, where `--data clean=true` asked for it."""
    run.once("clean", lambda: clean.clean(run))
    return run.stopped is None


def _end(run: Delivery, out: "Console") -> None:
    """The result, printed as the process ends, whatever way it ends."""
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
    try:
        run.write_report()
    except OSError as error:
        out.print(f"the report could not be written: {error}", style="bold red", markup=False)
        sys.stdout.flush()
        os._exit(1)
