"""The story of `deliver.py` in the parts that it tells: begin, bring, finish. Refusals come before anything moves."""

import atexit
import os
from typing import TYPE_CHECKING

import click
from gevent.lock import RLock
from pyinfra.api.exceptions import DeployError

from declare import leave
from declare.invocation import Invocation
from declare.quiet import leave_the_end_to_us
from operations.delivery.look import survey, totals
from operations.delivery.run import Delivery
from operations.hosts import reached
from operations.report_file import report_path

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

_LEFT = "left while bytes moved; what arrived is kept, and the next run goes on from there"
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
    hosts, silent = reached(state)
    found = survey(fleet, hosts, invocation.overrides.service, invocation.overrides.rehash)
    found.unread |= silent
    run = Delivery(
        fleet=fleet,
        found=found,
        hosts={name: host for name, host in hosts.items() if name not in found.unread},
        dry=invocation.dry,
        json=invocation.json,
        clean=invocation.overrides.clean,
        report=report_path(invocation),
    )
    atexit.register(_end, run)
    if run.active or found.problems or found.unread or invocation.dry:
        from operations.delivery.show import show  # what prints tables costs more than a look that finds nothing to do

        show(state, run, _refuse)
    else:
        told = (
            f"{totals(found)} to move, {run.as_declared} as declared\n\nNothing to deliver: every checkpoint and image"
        )
        click.echo(f"{told} is where it is declared, and verified.", err=run.json)
    return run


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
        click.echo(f"left out: {', '.join(sorted(host.name for host in leaving))}", err=run.json)
        state.fail_hosts(leaving)


def bring(state: "State", host: "Host", run: Delivery) -> bool:
    """Every node at once, whatever number pyinfra runs at a time: they wait for each other's bytes."""
    leave_the_end_to_us()
    from operations.delivery.swarming import deliver

    def work() -> None:
        leave.say(_LEFT)
        deliver(run)

    run.once("deliver", work)
    return all(row.good for row in run.rows if row.node == host.name)


def beforehand(state: "State", invocation: Invocation) -> None:
    """The delivery of a rollout that was asked to deliver first. DeployError where a node did not get everything."""
    run = _prepare(state, invocation)
    if run.dry or not any(need.action != "none" for needs in run.found.needs.values() for need in needs):
        run.report = None  # the rollout writes it
        return
    from operations.delivery.swarming import deliver

    with leave.saying(_LEFT):
        deliver(run)
    taking = run.hosts  # others were left out by policy
    bad = sorted({row.node for row in run.rows if not row.good and row.node in taking})
    if bad:
        raise DeployError(f"not delivered to {', '.join(bad)}; nothing was staged or activated: {run.stopped}")
    run.report = None


def clean_up(state: "State", host: "Host", run: Delivery) -> bool:
    """Take away what was shown, where `--data clean=true` asked for it."""
    from operations.delivery import clean

    run.once("clean", lambda: clean.clean(run))
    return run.stopped is None


def _end(run: Delivery) -> None:
    """The result, printed as the process ends, whatever way it ends."""
    if run.stopped or (not run.dry and run.outcomes):
        from operations.delivery.show import show_result

        show_result(run)
    try:
        run.write_report()
    except OSError as error:
        click.echo(f"the report could not be written: {error}", err=True)
        os._exit(1)
