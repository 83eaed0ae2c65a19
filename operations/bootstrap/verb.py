"""The story of `bootstrap.py` up to its first step: look, decide, show; refusals come before anything changes."""

import atexit
import os
from pathlib import Path
from typing import TYPE_CHECKING

from gevent.lock import RLock
from pyinfra.api.exceptions import DeployError

from declare.host import read_keys
from declare.invocation import Invocation
from declare.problem import DeclarationError
from operations.bootstrap.look import Bootstrapping, look
from operations.bootstrap.perform import PATIENCE_S
from operations.hosts import reached
from operations.report_file import hand_over, report_path
from operations.show import console

if TYPE_CHECKING:
    from pyinfra.api.state import State

_guard = RLock()
_begun: list[Bootstrapping | Exception] = []


def begin(state: "State", invocation: Invocation) -> Bootstrapping:
    """The one run of this process: looked at and shown by the first host. DeployError where a node is refused."""
    with _guard:
        if not _begun:
            try:
                _begun.append(_prepare(state, invocation))
            except DeclarationError as error:
                _begun.append(DeployError(str(error)))
            except Exception as error:
                _begun.append(error)
        if isinstance(_begun[0], Exception):
            raise _begun[0]
        return _begun[0]


def _prepare(state: "State", invocation: Invocation) -> Bootstrapping:
    for placement in invocation.fleet.placements:
        read_keys(placement.host)  # told once and first, where one is no key
    hosts, silent = reached(state)
    run = Bootstrapping(invocation=invocation, hosts=hosts)
    look(run)
    run.unread |= silent
    atexit.register(_end, run, report_path(invocation))
    out = console(invocation.json)
    for name, found in sorted(run.found.items()):
        state_of = f"{len(found.steps)} steps" if found.steps else "refused" if found.refused else "as declared"
        out.print(f"[bold]{name}[/]: {state_of}")
        for step in found.steps:
            told = (
                " (only with --data reboot=true)" if step.kind == "reboot" and not invocation.overrides.reboot else ""
            )
            out.print(f"    {step.name}{told}", markup=False, soft_wrap=True)
        for note in found.notes:
            out.print(f"    note: {note}", markup=False, soft_wrap=True)
        if name in run.packaging and any(step.kind in ("update", "install", "hold") for step in found.steps):
            told = f"{run.packaging[name]} works with packages there; its end is waited for, at most {PATIENCE_S} s"
            out.print(f"    note: {told}", markup=False, soft_wrap=True)
        for refusal in found.refused:
            out.print(f"refused  {name}: {refusal}", style="bold red", markup=False, soft_wrap=True)
    for name, reason in sorted(run.unread.items()):
        out.print(f"silent  {name}: {reason}", style="bold red", markup=False, soft_wrap=True)
    try:
        _refuse(state, run)
    except DeployError as error:
        run.stopped = str(error)
        raise
    if not any(found.steps for found in run.found.values()):
        out.print("\n[green]Nothing to do[/]: every machine is as declared.")
    return run


def _end(run: Bootstrapping, report: Path | None) -> None:
    """The run for machines, as the process ends, whatever way it ends."""
    try:
        hand_over(run.document, report)
    except OSError as error:
        console(True).print(f"the report could not be written: {error}", style="bold red", markup=False)
        os._exit(1)  # the exit code of a process that ends cannot be changed in any other way


def _refuse(state: "State", run: Bootstrapping) -> None:
    policy = run.invocation.fleet.rollout
    refused = {name: found.refused[0] for name, found in run.found.items() if found.refused}
    reboots = {
        name: f"a reboot is due, and {', '.join(run.busy[name])} runs there; stop it first"
        for name in run.rebooting
        if run.busy.get(name)
    }
    if (refused or reboots) and policy.on_failed_gate == "stop":
        told = "; ".join(f"{name}: {why}" for name, why in [*refused.items(), *reboots.items()])
        raise DeployError(f"refused, nothing was changed: {told}")
    if run.unread and policy.on_unreachable == "stop":
        raise DeployError(f"refused, nothing was changed: no answer of {', '.join(sorted(run.unread))}")
    gone = {*refused, *reboots, *run.unread}
    for name in gone:
        run.hosts.pop(name, None)
    if not run.hosts:
        raise DeployError("refused: no node is left; nothing was changed")
    leaving = {host for host in state.active_hosts if host.name in gone}
    if leaving:
        state.fail_hosts(leaving)
