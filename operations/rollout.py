"""The story of a rollout, in the parts that deploy.py and rollback.py tell: begin, lock, stage, turn, finish.

pyinfra runs the verbs' files once a host; what concerns all hosts is done by the first that comes, the others wait.
"""

import atexit
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

from gevent.lock import RLock
from pyinfra.api import operation

from operations.cycle import Turn, roll
from operations.lock import LockError
from operations.run import Run
from operations.show import console, result_table
from operations.survey import Survey

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

STALE_S = 60
"""Facts older than this are looked at again when a host's turn comes."""

_guard = RLock()
_begun: list[Run | Exception] = []


def begin(prepare: Callable[[], Run]) -> Run:
    """The one run of this process: prepared by the first host, shared by all. Every host gets the same refusal."""
    with _guard:
        if not _begun:
            try:
                rollout = prepare()
                _begun.append(rollout)
                atexit.register(_report, rollout)
            except Exception as error:
                _begun.append(error)
        if isinstance(_begun[0], Exception):
            raise _begun[0]
        return _begun[0]


def _say_stop(rollout: Run) -> bool:
    console().print(f"[bold red]stopped[/]: {rollout.stopped}", markup=True)
    return False


def lock_nodes(state: "State", host: "Host", rollout: Run, lease_s: int) -> bool:
    """Lock all nodes, then look at them again: they must be as they were when the gates judged them."""

    def work() -> str | None:
        try:
            rollout.locks.acquire(lease_s)
        except LockError as error:
            return str(error)
        changed = _moved(rollout.survey, rollout.again(rollout, list(rollout.hosts.values())))
        if changed:
            rollout.locks.release()
        return changed

    why = rollout.once("lock", work)
    if why:
        rollout.stop(why)
        return bool(rollout.once("say", lambda: _say_stop(rollout)))
    return True


def _moved(before: Survey, after: Survey) -> str | None:
    """What differs between the survey that was judged and the one of now, or None."""
    if before.unread.keys() != after.unread.keys():
        return f"nodes that answer: want as before, found {sorted(after.unread) or 'all'} silent; run again"
    old = {(c.node, c.service): c for c in before.changes}
    for change in after.changes:
        if old.get((change.node, change.service)) != change:
            return (
                f"{change.node}/{change.service} changed between the gates and the lock: now {change.kind}; run again"
            )
    worse = after.failing - before.failing
    if worse:
        verdict = next(v for v in after.verdicts if v.stops and v.node in worse)
        return f"a gate that passed fails now: {verdict}; run again"
    return None


def stage(state: "State", host: "Host", rollout: Run) -> bool:
    """Everything in place and verified while the old release still serves. Nothing is activated where this fails."""
    why = rollout.apply(rollout, host)
    if why is None:
        return True
    rollout.stop(f"{host.name} could not be staged, so nothing was activated anywhere: {why}")
    for step in rollout.steps.get(host.name, []):
        rollout.keep(rollout.row((step.node, step.service), "failed", proof=f"not staged, still serving: {why}"))
    rollout.locks.release([host.name])
    return False


def turn(state: "State", host: "Host", rollout: Run, probes: list[Path], looked: float) -> bool:
    """One host's turn: every service of it that changes. A failure stops the rollout and gives the lock back."""
    if rollout.stopped:
        return True
    if time.monotonic() - looked > STALE_S:
        why = _moved_here(rollout, host)
        if why:
            return _failed(rollout, host, why)
    for step in rollout.steps.get(host.name, []):
        if rollout.stopped:
            return True
        if not roll(Turn(rollout=rollout, host=host, probes=probes), step):
            return _failed(rollout, host, f"{step.node}/{step.service} did not get its new release")
    return _remove(rollout, host)


def _moved_here(rollout: Run, host: "Host") -> str | None:
    """Gate facts of late batches are stale: look at this one host again."""
    now = rollout.again(rollout, [host])
    bad = [v for v in now.verdicts if v.stops and v.node == host.name]
    return f"a gate that passed fails now: {bad[0]}" if bad else None


def _failed(rollout: Run, host: "Host", why: str) -> bool:
    rollout.stop(why)
    rollout.locks.release([host.name])
    return False


def _remove(rollout: Run, host: "Host") -> bool:
    """Services that are no longer declared, where the owner said prune."""
    for service in rollout.removes.get(host.name, []):
        done = Turn(rollout=rollout, host=host, probes=[]).node("drop", service, timeout_s=300)
        row = rollout.row((host.name, service), "failed" if done.reason else "removed", proof=done.reason or "-")
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
    """The result, printed as the process ends, whatever way it ends."""
    if rollout.report is not None:
        rollout.write_report(rollout.report)
    if rollout.dry:
        return
    out = console()
    titles = {"deploy": "Result", "rollback": "Result of the rollback"}
    rows = [
        {
            "node": row.node,
            "service": row.service,
            "layout": row.layout,
            "partition": row.partition,
            "release": row.release,
            "endpoint": row.endpoint,
            "status": row.status,
            "proof": row.proof,
        }
        for row in rollout.rows
    ]
    out.print()
    out.print(result_table(rows, titles.get(rollout.verb, "Result")))
    if rollout.stopped:
        out.print(f"stopped: {rollout.stopped}", style="bold red", markup=False)
