"""The rollout's lock over a bootstrap, and what is looked at again while it is held."""

import secrets
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

import gevent
from pyinfra.api.state import BaseStateCallback

from declare import leave
from facts.connection import watch
from facts.shell import run as shell
from operations.bootstrap.look import Bootstrapping, decided, look, look_at
from operations.bootstrap.perform import perform
from operations.lock import LockError, Locks
from operations.show import console, unread

REBOOT_S = 900
"""That a machine may take to come back."""

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State


class _GiveBack(BaseStateCallback):
    """A machine whose step failed gets no later operation, so its lock is given back here; all of them after Ctrl-C."""

    def __init__(self, run: Bootstrapping) -> None:
        self.run = run

    def operation_start(self, state: "State", op_hash: str) -> None:  # type: ignore[override]
        if self.run.interrupted is None:
            return
        if self.run.locked is True:
            self.run.locks.release()
        again = "between two steps, and the locks were given back; run it again, which goes on"
        _say(self.run, f"interrupted by {self.run.interrupted} {again}")
        sys.exit(1)

    def operation_host_error(self, state: "State", host: "Host", op_hash: str, *words: int) -> None:  # type: ignore[override]
        self.run.failed = self.run.failed or host.name
        self.run.stopped = self.run.stopped or f"a step failed on {host.name}"
        if self.run.locked is True:
            self.run.locks.release([host.name])


def _say(run: Bootstrapping, why: str) -> None:
    """Why the run ends, for people now and for machines at its end; for these the first reason stays."""
    run.stopped = run.stopped or why
    with unread():
        console(run.invocation.json).print(f"stopped: {why}", style="bold red", markup=False, soft_wrap=True)


def _listen(run: Bootstrapping, names: str) -> None:
    """What ends a run: the first lets the step that has begun end on every machine, the second leaves at once."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if run.interrupted is not None:
            _say(run, f"left by {name} in a step; the lock of {names} runs out by itself, or: fleet unlock NODE --yes")
            leave.at_once()
        run.interrupted = name
        told = "the step that has begun is ended, no other begins; once more to leave at once"
        with unread():
            console(run.invocation.json).print(f"\n{name}: {told}", style="bold yellow", markup=False, soft_wrap=True)

    for number in leave.signals():
        signal.signal(number, on_signal)


def lock(state: "State", host: "Host", run: Bootstrapping) -> bool:
    """Take the rollout's lock of every machine that changes, and look again: each must need what was shown."""
    with run.guard:
        if run.locked is None:
            names = ", ".join(sorted(name for name in run.hosts if run.changes(name)))
            _listen(run, names)
            state.add_callback_handler(_GiveBack(run))
            run.locked = _lock(state, run)
            if run.locked is not True:
                _say(run, f"{run.locked}; nothing was changed")
    return run.locked is True


def _lock(state: "State", run: Bootstrapping) -> str | bool:
    def lost(why: str) -> None:
        _say(run, why)
        state.fail_hosts(set(state.active_hosts))

    hosts = {name: host for name, host in run.hosts.items() if run.changes(name)}
    run.locks = Locks(hosts, secrets.token_hex(8), lost)
    try:
        run.locks.acquire(run.invocation.fleet.rollout.lock_lease_s)
    except LockError as error:
        return str(error)
    now = Bootstrapping(invocation=run.invocation, hosts=hosts)
    look(now)
    for name in sorted(hosts):
        if name in now.unread:
            why = f"{name} answered and is silent now: {now.unread[name]}"
        elif (now.found[name], now.busy[name]) != (run.found[name], run.busy[name]):
            why = f"{name} needs something else than was shown, for it was changed meanwhile; run again"
        else:
            continue
        run.locks.release()
        return why
    return True


def park(state: "State", host: "Host", run: Bootstrapping) -> bool:
    """Hold the machine's lock while it reboots and can renew nothing."""
    if run.failed is not None:
        host.log(f"it is not rebooted, for {run.failed} failed before")
        return False
    why = run.locks.park(host.name, REBOOT_S + run.invocation.fleet.rollout.lock_lease_s)
    if why is not None:
        host.log(f"it is not rebooted, for its lock cannot be held: {why}")
    return why is None


def reboot(state: "State", host: "Host", run: Bootstrapping) -> bool:
    """Reboot it and wait until it is back: its kernel names another boot. pyinfra's own way looks at the uptime."""
    facts = look_at(host, run.invocation.fleet.placement(host.name))
    why = facts if isinstance(facts, str) else f"{', '.join(facts.busy)} runs there now" if facts.busy else None
    if why is not None:
        host.log(f"it is not rebooted: {why}")
        return False
    before = _boot(host)
    told = shell(host, "( sleep 1; exec systemctl reboot ) </dev/null >/dev/null 2>&1 &")
    if before is None or told.reason is not None:
        host.log(f"it could not be rebooted: {told.reason or 'it does not tell its boot_id'}")
        return False
    deadline = time.monotonic() + REBOOT_S
    while time.monotonic() < deadline:
        gevent.sleep(3)
        host.disconnect()
        host.connect(reason="after its reboot", show_errors=False)
        if host.connected and _boot(host) not in (None, before):
            watch(host)
            return True
    host.log(f"it did not come back within {REBOOT_S} s; look at its console")
    return False


def _boot(host: "Host") -> str | None:
    told = shell(host, ("/bin/cat", "/proc/sys/kernel/random/boot_id"), timeout_s=10)
    return told.stdout.strip() or None


def after_reboot(state: "State", host: "Host", run: Bootstrapping) -> bool:
    """What only the new driver makes possible, such as its CDI specification; then the machine must be as declared."""
    facts = look_at(host, placement := run.invocation.fleet.placement(host.name))
    if isinstance(facts, str):
        host.log(f"it could not be looked at after the reboot: {facts}")
        return False
    left = decided(placement, facts)
    if due := [step.name for step in left.steps if step.kind == "reboot"]:
        host.log(f"still to do after the reboot: {due[0]}; {'; '.join(left.notes)}")
        return False
    for step in left.steps:
        perform(step)
    return check(state, host, run)


def unlock(state: "State", host: "Host", run: Bootstrapping) -> bool:
    """Give the machine's lock back."""
    run.locks.release([host.name])
    return True


def check(state: "State", host: "Host", run: Bootstrapping) -> bool:
    """After all steps the machine must be as declared: what is left is told, and is a failure."""
    placement = run.invocation.fleet.placement(host.name)
    facts = look_at(host, placement)
    if isinstance(facts, str):
        host.log(f"it could not be looked at again: {facts}")
        return False
    left = decided(placement, facts)
    for refusal in left.refused:
        host.log(f"still: {refusal}")
    open_steps = [step for step in left.steps if step.kind != "reboot"]
    for step in open_steps:
        host.log(f"still to do after all steps: {step.name}")
    if open_steps or left.refused:
        return False
    run.conforming.add(host.name)
    return True
