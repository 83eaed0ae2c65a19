"""Who may change the nodes: all of them or none, in name order, with a lease that is renewed while the run lives."""

import datetime
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event
from gevent.pool import Pool

from facts.shell import Output, run
from operations.holder import holder
from operations.node_script import lock_call

if TYPE_CHECKING:
    from pyinfra.api.host import Host


class LockError(RuntimeError):
    """A node is held by somebody else, or did not answer. Nothing is held by this run any more."""


def _why(node: str, output: Output) -> str:
    who = output.value("held")
    if who is None:
        return f"lock: want {node} to take a lock, found {output.reason}"
    since, until = (
        datetime.datetime.fromtimestamp(int(output.value(name) or 0)).astimezone() for name in ("since", "expires")
    )
    return (
        f"lock: want {node} to be free, found it held by {who} since {since:%Y-%m-%d %H:%M:%S %Z}; "
        f"wait for that run to end; if it died, its lease runs out at {until:%Y-%m-%d %H:%M:%S}, "
        f"or take it away with: fleet unlock {node} --yes"
    )


class Locks:
    """The locks of one run. `lost` is told where a lease could not be renewed: no turn may start after that."""

    def __init__(self, hosts: dict[str, "Host"], run_id: str, lost: Callable[[str], None]) -> None:
        self.hosts = hosts
        self.run_id = run_id
        self.lost = lost
        self.held: set[str] = set()
        self.parked: set[str] = set()
        self._taken = {name: Event() for name in hosts}

    def _node(self, name: str, verb: str, *words: str, timeout_s: float = 60) -> Output:
        """Call a verb without relying on what is installed there: the first rollout has nothing installed."""
        call = lock_call((verb, *words))
        return run(self.hosts[name], call.command, stdin=call.stdin, timeout_s=timeout_s)

    def acquire(self, lease_s: int) -> None:
        """Lock every node in name order. Raises LockError after giving back what was taken.

        One after the other: so, of runs whose nodes overlap, one always gets all of its own.
        """
        for name in sorted(self.hosts):
            asked = time.monotonic()
            self.held.add(name)  # first: who is ended while the node answers gives this one back as well
            output = self._node(name, "lock", holder(), self.run_id, str(lease_s))
            if output.reason is not None:
                self.held.discard(name)
                self.release()
                raise LockError(_why(name, output))
            self._taken[name].set()
            gevent.spawn(self._keep, name, lease_s, asked)

    def park(self, name: str, lease_s: int) -> str | None:
        """Hold a node that is about to be silent for so long, as while it reboots: one long lease, renewed by nobody.

        The reason where that cannot be done.
        """
        output = self._node(name, "renew", self.run_id, str(lease_s))
        if output.reason is None:
            self.held.discard(name)
            self.parked.add(name)
        return output.reason

    def wait(self, name: str) -> None:
        """Return when the lock of this node was taken; at once for a node that this run does not lock."""
        if name in self._taken:
            self._taken[name].wait()

    def release(self, names: Iterable[str] | None = None) -> None:
        """Give locks back, all of them by default. A silent node keeps its lock until the lease runs out."""

        def one(name: str) -> None:
            self.held.discard(name)  # first: a renewal that comes after the unlock is no loss
            self.parked.discard(name)
            self._node(name, "unlock", self.run_id)

        mine = self.held | self.parked
        for _ in Pool(256).imap_unordered(one, sorted(mine if names is None else mine & set(names))):
            pass

    def _keep(self, name: str, lease_s: int, renewed: float) -> None:
        """Renew the lease of one node while it is held. A node that is silent has until the lease is over."""
        while True:
            gevent.sleep(lease_s / 3)
            if name not in self.held:
                return
            asked = time.monotonic()
            output = self._node(name, "renew", self.run_id, str(lease_s), timeout_s=max(lease_s / 3, 2))
            if output.reason is None:
                renewed = asked
            elif name in self.held and (output.value("held") is not None or time.monotonic() - renewed >= lease_s):
                self.lost(f"the lock of {name} is lost: {output.reason}")
                return
