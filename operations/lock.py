"""Who may change the nodes: all of them or none, in name order, with a lease that is renewed while the run lives."""

import datetime
import getpass
import os
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import gevent
from gevent.pool import Pool

from facts.shell import Output, run
from operations.node_script import node_script

if TYPE_CHECKING:
    from pyinfra.api.host import Host


class LockError(RuntimeError):
    """A node is held by somebody else, or did not answer. Nothing is held by this run any more."""


def holder() -> str:
    """Who runs this, for other people's eyes: user, machine, process."""
    return f"{getpass.getuser()}@{socket.gethostname()} pid {os.getpid()}"


def _why(node: str, output: Output) -> str:
    who = output.value("held")
    if who is None:
        return f"lock: want {node} to be free, found no answer: {output.reason}"
    since, until = (
        datetime.datetime.fromtimestamp(int(output.value(name) or 0)).astimezone() for name in ("since", "expires")
    )
    return (
        f"lock: want {node} to be free, found it held by {who} since {since:%Y-%m-%d %H:%M:%S %Z}; "
        f"wait for that run to end (if it died, its lease runs out at {until:%H:%M:%S})"
    )


class Locks:
    """The locks of one run. `lost` is told where a lease could not be renewed: no turn may start after that."""

    def __init__(self, hosts: dict[str, "Host"], run_id: str, lost: Callable[[str], None]) -> None:
        self.hosts = hosts
        self.run_id = run_id
        self.lost = lost
        self.held: set[str] = set()

    def _node(self, name: str, verb: str, *words: str) -> Output:
        """Call a verb without relying on what is installed there: the first rollout has nothing installed."""
        return run(self.hosts[name], ("bash", "-s", "--", verb, *words), stdin=node_script(), timeout_s=60)

    def acquire(self, lease_s: int) -> None:
        """Lock every node in name order. Raises LockError after giving back what was taken."""
        for name in sorted(self.hosts):
            output = self._node(name, "lock", holder(), self.run_id, str(lease_s))
            if output.reason is not None:
                self.release()
                raise LockError(_why(name, output))
            self.held.add(name)
        gevent.spawn(self._keep, lease_s)

    def release(self, names: Iterable[str] | None = None) -> None:
        """Give locks back, all of them by default. A silent node keeps its lock until the lease runs out."""

        def one(name: str) -> None:
            self._node(name, "unlock", self.run_id)
            self.held.discard(name)

        for _ in Pool(256).imap_unordered(one, sorted(self.held if names is None else self.held & set(names))):
            pass

    def _keep(self, lease_s: int) -> None:
        while True:
            gevent.sleep(lease_s / 3)
            if not self.held:
                return
            jobs = {name: gevent.spawn(self._node, name, "renew", self.run_id, str(lease_s)) for name in self.held}
            for name, job in jobs.items():
                reason = job.get().reason
                if reason is not None and name in self.held:
                    self.lost(f"the lock of {name} could not be renewed: {reason}")
