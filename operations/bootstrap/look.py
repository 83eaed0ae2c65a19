"""What each machine is now, and what it still needs: every one at once, and nothing is changed."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gevent.lock import RLock
from gevent.pool import Pool

from declare.host import read_keys
from declare.invocation import Invocation
from facts.parse.bare import SECTIONS, parse_bare
from facts.parse.frames import ProbeError
from facts.script import sections_script
from facts.shell import READ_WHOLE, run
from fleet.declaration import Placement
from fleet.nodes.bare import MachineFacts
from fleet.nodes.bootstrap import decide, managed_paths, sysctl_settings, wanted_files
from fleet.nodes.driver import CDI_UNIT
from fleet.nodes.request import ProbeRequest
from fleet.nodes.step import Bootstrap, Step
from operations.lock import Locks
from operations.node_script import support_files

if TYPE_CHECKING:
    from pyinfra.api.host import Host

PROJECT = Path(__file__).resolve().parents[2]


@dataclass
class Bootstrapping:
    """One run."""

    invocation: Invocation
    hosts: dict[str, "Host"]
    found: dict[str, Bootstrap] = field(default_factory=dict)
    busy: dict[str, tuple[str, ...]] = field(default_factory=dict)
    packaging: dict[str, str] = field(default_factory=dict)
    """Node -> the program that works with packages there, which ends by itself and is no reason to stop."""
    unread: dict[str, str] = field(default_factory=dict)
    locks: Locks = field(init=False, repr=False)
    locked: str | bool | None = None
    """Why the machines could not be locked; True once they are; None before."""
    failed: str | None = None
    """The first machine on which something failed: none is rebooted after that."""
    stopped: str | None = None
    """Why the run was refused or ended early."""
    interrupted: str | None = None
    """The signal that asked for an end."""
    conforming: set[str] = field(default_factory=set)
    """Machines that were changed, looked at again, and are as declared."""
    guard: Any = field(default_factory=RLock, repr=False)

    def steps(self, node: str) -> list[Step]:
        """What is done on this node now; a reboot comes later, one node at a time."""
        return [step for step in self.found[node].steps if step.kind != "reboot"]

    def changes(self, node: str) -> bool:
        """Is anything done on this node in this run?"""
        return bool(self.steps(node)) or node in self.rebooting

    @property
    def rebooting(self) -> list[str]:
        """Nodes that are rebooted in this run, one after the other: only where the owner said so."""
        due = [name for name, found in sorted(self.found.items()) if any(s.kind == "reboot" for s in found.steps)]
        return [name for name in due if name in self.hosts] if self.invocation.overrides.reboot else []

    def status(self, node: str) -> str:
        """as-declared, open (nothing was done yet), done, failed, refused or unreachable."""
        if node in self.unread:
            return "unreachable"
        if self.found[node].refused or node not in self.hosts:
            return "refused"
        if node in self.conforming or not self.found[node].steps:
            return "done" if self.found[node].steps else "as-declared"
        begun = self.locked is True and self.changes(node)
        return "failed" if begun else "open"

    def document(self) -> dict[str, Any]:
        """The whole run for machines."""
        rows = []
        for node in sorted({*self.found, *self.unread}):
            found = self.found.get(node)
            row = {"node": node, "status": self.status(node), "reason": self.unread.get(node)}
            for name in ("refused", "notes"):
                row[name] = list(getattr(found, name)) if found else []
            row["steps"] = [{"kind": step.kind, "name": step.name} for step in found.steps] if found else []
            rows.append(row)
        return {"verb": "bootstrap", "stopped": self.stopped, "nodes": rows}


def look_at(host: "Host", placement: Placement) -> MachineFacts | str:
    keys = read_keys(placement.host)
    wanted = wanted_files(placement.host, keys, support_files())
    request = ProbeRequest(
        sysctls=tuple(sorted(sysctl_settings(placement.host))),
        users=(placement.host.user,) if placement.host.user else (),
        managed=managed_paths(placement.host, wanted),
    )
    script = sections_script(SECTIONS, request)
    output = run(host, READ_WHOLE, stdin=script.text, timeout_s=90)
    if output.reason:
        return output.reason
    try:
        return parse_bare(output.stdout, script)
    except ProbeError as error:
        return f"{error}{output.tail()}"


def decided(placement: Placement, facts: MachineFacts) -> Bootstrap:
    units = {CDI_UNIT: (PROJECT / "templates/vllm-fleet-cdi.service").read_text(encoding="utf-8")}
    return decide(placement.node, placement.host, facts, read_keys(placement.host), support_files(), units)


def look(run: Bootstrapping) -> None:
    """Every node at once: what it still needs."""

    def one(name: str) -> None:
        placement = run.invocation.fleet.placement(name)
        facts = look_at(run.hosts[name], placement)
        if isinstance(facts, str):
            run.unread[name] = facts
            return
        run.busy[name] = facts.busy
        if facts.packaging is not None:
            run.packaging[name] = facts.packaging
        run.found[name] = decided(placement, facts)

    Pool(256).map(one, sorted(run.hosts))
