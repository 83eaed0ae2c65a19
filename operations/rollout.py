"""The story of a rollout, in the parts that deploy.py and rollback.py tell: begin, lock, stage, turn, finish.

pyinfra runs the verbs' files once a host; what concerns all hosts is done by the first that comes, the others wait.
"""

import atexit
import os
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import gevent
from gevent.lock import RLock
from pyinfra.api import operation
from pyinfra.api.output import set_echo

from declare.quiet import leave_the_end_to_us
from facts.shell import without_results
from fleet.gate import EVERYWHERE
from fleet.releases.current import current_document
from fleet.releases.difference import Change
from operations import interrupt
from operations.lock import LockError
from operations.run import Ready, Run
from operations.show import console, print_outcome, unread
from operations.steps import Step
from operations.survey import Survey

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State
    from rich.console import Console

_guard = RLock()
_begun: list[Run | Exception] = []


def begin(prepare: Callable[[], Run]) -> Run:
    """The one run of this process: prepared by the first host, shared by all. Every host gets the same refusal."""
    with _guard:
        if not _begun:
            set_echo(without_results(click.echo))
            # pyinfra's own handler exits with 0, in the middle of whatever there is.
            interrupt.listen(lambda: next((run for run in _begun if isinstance(run, Run)), None))
            try:
                rollout = prepare()
                _begun.append(rollout)
                atexit.register(_report, rollout)
                leave_the_end_to_us()
            except Exception as error:
                _begun.append(error)
        if isinstance(_begun[0], Exception):
            raise _begun[0]
        return _begun[0]


def _say_stop(rollout: Run) -> bool:
    console(rollout.json).print(f"stopped: {rollout.stopped}", style="bold red", markup=False, soft_wrap=True)
    return False


def lock_nodes(state: "State", host: "Host", rollout: Run, lease_s: int) -> bool:
    """Lock all nodes, then look at them again: they must be as they were when the gates judged them."""

    def work() -> str | None:
        looking = gevent.spawn(_look, rollout, rollout.locks.wait)  # each node once it is locked, while others wait
        try:
            rollout.locks.acquire(lease_s)
        except LockError as error:
            looking.kill()
            return str(error)
        changed = _moved(rollout.survey, looking.get(), frozenset(rollout.hosts))
        if changed:
            rollout.locks.release()
        return changed

    why = rollout.once("lock", work)
    if why:
        rollout.stop(why)
        return bool(rollout.once("say", lambda: _say_stop(rollout)))
    return True


def _look(rollout: Run, ready: Ready | None = None) -> Survey:
    """All nodes once more, also those without a turn: whether a replica is the last one is seen on the others."""
    rollout.looked = time.monotonic()
    return rollout.again(ready)


def _moved(before: Survey, after: Survey, nodes: frozenset[str]) -> str | None:
    """What differs on these nodes between the survey that was judged and the one of now, or None."""
    for node in sorted(nodes & (after.unread.keys() - before.unread.keys())):
        return f"{node} answered to the gates and is silent now: {after.unread[node]}; run again"
    old, new = ({(c.node, c.service): c for c in survey.changes if c.node in nodes} for survey in (before, after))
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            found = _words(old.get(key), new.get(key))
            return f"{'/'.join(key)} changed after the gates had judged it: {found}; run again"
    worse = [v for v in after.verdicts if v.stops and v.node in {*nodes, EVERYWHERE} and v.node not in before.failing]
    return f"a gate that passed fails now: {worse[0]}" if worse else None


def _words(old: Change | None, new: Change | None) -> str:
    """What one look found that the other did not."""
    kinds = f"{old.kind if old else 'absent'} -> {new.kind if new else 'absent'}"
    files = [
        diff.path
        for diff in (*(old.files if old else ()), *(new.files if new else ()))
        if diff not in (old.files if old else ()) or diff not in (new.files if new else ())
    ]
    words = [word for word in (new.words if new else ()) if old is None or word not in old.words]
    return "; ".join(dict.fromkeys([*([] if old and new and old.kind == new.kind else [kinds]), *words, *files]))


def stage(state: "State", host: "Host", rollout: Run) -> bool:
    """Everything in place and verified while the old release still serves. Nothing is activated where this fails."""
    if rollout.stopped:
        return True
    why = rollout.apply(rollout, host)
    if why is None:
        for service in rollout.tidies.get(host.name, []):
            rollout.keep(rollout.row((host.name, service), "tidied", proof="its files were put right; not restarted"))
        return True
    rollout.stop(f"{host.name} could not be staged, so nothing was activated anywhere: {why}")
    told = f"not staged, nothing was activated: {why}"
    for step in rollout.steps.get(host.name, []):
        rollout.keep(rollout.row((step.node, step.service), "failed", proof=told))
    rollout.locks.release([host.name])
    return False


def turn(state: "State", host: "Host", rollout: Run, probes: list[Path]) -> bool:
    """One host's turn: every service of it that changes. A failure stops the rollout and gives the lock back."""
    from operations.cycle import LockLost  # an HTTP client comes with it, which a look alone does not need

    try:
        if rollout.stopped:
            return True
        why = _moved_since(rollout, host.name)
        if why:
            return _failed(rollout, host, why)
        # First: what comes may want the port and the GPUs of what goes.
        if not _remove(rollout, host):
            return False
        for step in rollout.steps.get(host.name, []):
            if rollout.stopped:
                return True
            done = _roll(state, rollout, host, probes, step)
            if done is None and rollout.stopped:
                return True
            if not done:
                return _failed(rollout, host, f"{step.node}/{step.service} did not get its new release")
        return True
    except LockLost as error:
        return _failed(rollout, host, f"{host.name}: {error}")
    except Exception as error:
        # pyinfra would print it and give the next host its turn. What is pending here the node undoes by itself.
        _failed(rollout, host, f"{host.name}: {type(error).__name__}: {error}")
        raise
    finally:
        rollout.meetings.leave(host.name)


def _roll(state: "State", rollout: Run, host: "Host", probes: list[Path], step: Step) -> bool | None:
    """One step: alone, or with the other hosts of the engine. None: one of these does not come."""
    from operations.cycle import Turn, roll
    from operations.together import Part, roll_together

    if len(step.nodes) < 2:
        return roll(Turn(rollout=rollout, host=host, probes=probes), step)
    steps = {name: rollout.step(name, step.service) for name in step.nodes}
    absent = [name for name in step.nodes if steps[name] is None or rollout.hosts.get(name) in state.failed_hosts]
    if absent:
        rollout.stop(f"{step.node}/{step.service}: want {', '.join(absent)} beside it, which take no part in this run")
        return None
    parts = [
        Part(Turn(rollout=rollout, host=rollout.hosts[name], probes=probes), there)
        for name, there in steps.items()
        if there is not None
    ]
    return rollout.meetings.hold(step.service, frozenset(step.nodes), host.name, lambda: roll_together(parts))


def _moved_since(rollout: Run, node: str) -> str | None:
    """Facts of late batches are stale: the first host of a batch looks again, for all of them."""
    number = next(n for n, batch in enumerate(rollout.batches) if node in batch)

    def look() -> Survey | None:
        fresh = time.monotonic() - rollout.looked < rollout.survey.fleet.rollout.look_again_s
        return None if fresh else _look(rollout)

    now = rollout.once(f"look before batch {number}", look)
    return None if now is None else _moved(rollout.survey, now, frozenset({node}))


def _failed(rollout: Run, host: "Host", why: str) -> bool:
    rollout.stop(why)
    rollout.locks.release([host.name])
    return False


def _remove(rollout: Run, host: "Host") -> bool:
    """Services that are no longer declared, where the owner said prune."""
    from operations.cycle import Turn, cut_off
    from operations.drain import running_at_removal

    for service in rollout.removes.get(host.name, []):
        facts, node = rollout.survey.facts(host.name), rollout.survey.fleet.placement(host.name).node
        lies = current_document(facts.installed(service) if facts else None) or {}
        grace = (lies.get("policy") or {}).get("stop_grace_s", 60)
        running = running_at_removal(host, node, service, lies, host.log)
        done = Turn(rollout=rollout, host=host, probes=[]).node("drop", service, timeout_s=grace + 120)
        told = (done.reason or "") + cut_off(running)
        row = rollout.row(
            (host.name, service), "failed" if done.reason else "removed", proof=told.removeprefix("; ") or "-"
        )
        rollout.keep(row)
        if done.reason:
            return _failed(rollout, host, f"{host.name}/{service} could not be removed: {done.reason}")
    return True


@operation(is_idempotent=False)
def barrier() -> Generator[str, None, None]:
    """Every host passes here between batches, so that the turns of one batch come before those of the next."""
    yield from ()


def finish(state: "State", host: "Host", rollout: Run) -> bool:
    """Give the locks back, all at once. Fails where no host did: a lost lease."""
    rollout.once("unlock", rollout.locks.release)
    return rollout.stopped is None or bool(state.failed_hosts)


def _report(rollout: Run) -> None:
    """The result, written and printed as the process ends, whatever way it ends and whoever reads it."""
    out, unwritten = console(rollout.json), None
    try:
        rollout.write_report()
    except OSError as error:
        unwritten = f"the report could not be written: {error}"
    with unread():
        if not rollout.dry:
            _print_result(rollout, out)
        if unwritten:
            out.print(unwritten, style="bold red", markup=False)
    if unwritten:
        with unread():
            sys.stdout.flush()
        os._exit(1)  # the exit code of a process that ends cannot be changed in any other way


def _print_result(rollout: Run, out: "Console") -> None:
    """One row a service, and why the run stopped."""
    titles = {"deploy": "Result", "rollback": "Result of the rollback"}
    out.print()
    print_outcome(out, rollout.rows, titles.get(rollout.verb, "Result"))
    if rollout.stopped:
        out.print(f"stopped: {rollout.stopped}", style="bold red", markup=False, soft_wrap=True)
