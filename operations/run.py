"""One rollout as a whole: what is known, who holds which lock, what came of it. All hosts of a run share it."""

import secrets as random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gevent.lock import RLock

from operations.lock import Locks
from operations.meeting import Meetings
from operations.proof import stored_proof
from operations.report_file import hand_over
from operations.steps import Step
from operations.survey import Survey

if TYPE_CHECKING:
    from pyinfra.api.host import Host

Ready = Callable[[str], None]
"""Returns when the node of this name may be looked at."""
STATUS_STYLE = {"proven": "green", "unchanged": "green", "tidied": "green", "removed": "green"}
NOT_ACTIVATED = ("untouched", "refused", "restored")
"""After these what serves is what served before."""


@dataclass(frozen=True)
class Result:
    """What became of one service on one node."""

    node: str
    service: str
    status: str
    """proven, unchanged, tidied, removed; restored, failed, untouched, unproven, refused, unreachable."""
    layout: str = "-"
    partition: str = "-"
    release: str = "-"
    """What serves now; where nothing is known to serve, what was to."""
    endpoint: str = "-"
    proof: str = "-"
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Is this what the owner wanted?"""
        return self.status in STATUS_STYLE


@dataclass
class Run:
    """The state of one rollout. Mutable on purpose: it is what changes while hosts take their turns."""

    verb: str
    survey: Survey
    hosts: dict[str, "Host"]
    steps: dict[str, list[Step]]
    batches: list[list[str]]
    apply: Callable[["Run", "Host"], str | None]
    """Stages what a host needs; gives the reason where it could not."""
    again: Callable[[Ready | None], Survey]
    """Looks at all nodes once more, those included that have no turn: each when it is ready, or all at once."""
    dry: bool = False
    json: bool = False
    """Is stdout for machines?"""
    report: Path | None = None
    """Where the result goes for machines."""
    removes: dict[str, list[str]] = field(default_factory=dict)
    tidies: dict[str, list[str]] = field(default_factory=dict)
    """Node -> services whose files are put right in staging, without a turn."""
    id: str = field(default_factory=lambda: random.token_hex(8))
    results: dict[tuple[str, str], Result] = field(default_factory=dict)
    stopped: str | None = None
    interrupted: bool = False
    """Did somebody ask for an end?"""
    looked: float = field(default_factory=time.monotonic)
    """When the nodes were last looked at, by the monotonic clock."""
    guard: Any = field(default_factory=RLock, repr=False)
    shared: dict[str, Any] = field(default_factory=dict, repr=False)
    meetings: Meetings = field(default_factory=Meetings, repr=False)
    locks: Locks = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.locks = Locks(self.hosts, self.id, self.stop)

    @property
    def active(self) -> bool:
        """Is there anything to do?"""
        return bool(self.steps or self.removes or self.tidies or self.survey.support)

    def once(self, name: str, work: Callable[[], Any]) -> Any:
        """The first host that comes does the work; the others wait and get the same answer."""
        with self.guard:
            if name not in self.shared:
                self.shared[name] = work()
            return self.shared[name]

    def step(self, node: str, service: str) -> Step | None:
        """What this run does to a service on a node; None where it does nothing."""
        return next((step for step in self.steps.get(node, []) if step.service == service), None)

    def stop(self, reason: str) -> None:
        """No host starts its turn after this; the first reason stays."""
        self.stopped = self.stopped or reason

    def keep(self, result: Result) -> None:
        """Remember what became of a service."""
        self.results[result.node, result.service] = result

    @property
    def rows(self) -> list[Result]:
        """Every service of the run in name order; what had no turn is untouched or unchanged."""
        rows = dict(self.results)
        kinds = {(change.node, change.service): change.kind for change in self.survey.changes}
        for plan in self.survey.plans:
            key = (plan.node.name, plan.service.name)
            if key in rows:
                continue
            # A rollback is not about what is declared: what it was to bring back and did not is untouched.
            waits = self.step(*key) is not None if self.verb == "rollback" else kinds.get(key) != "none"
            status = "refused" if key[0] in self.survey.failing else "untouched" if waits else "unchanged"
            rows[key] = self.row(key, status)
        for node, reason in self.survey.unread.items():
            for service in self.survey.fleet.placement(node).services:
                rows[node, service.name] = Result(node, service.name, "unreachable", proof=reason)
        return [rows[key] for key in sorted(rows)]

    def row(self, key: tuple[str, str], status: str, **more: Any) -> Result:
        """A result with the plan's layout and release filled in."""
        plan = self.survey.planned(*key)
        if plan is None or plan.layout is None:
            return Result(node=key[0], service=key[1], status=status, **more)
        serves = plan.installed.current if plan.installed else None
        filled = {
            "layout": str(plan.layout),
            "partition": plan.layout.partition_text,
            "release": (serves or "-") if status in NOT_ACTIVATED else self.survey.releases[key].id,
            "endpoint": plan.url,
        }
        if status == "unchanged" and plan.installed and plan.installed.proof:
            filled["proof"] = stored_proof(plan.installed.proof)
        return Result(node=key[0], service=key[1], status=status, **{**filled, **more})

    def write_report(self) -> None:
        """The whole run for machines, where it was asked for. OSError where it cannot be written."""
        hand_over(self.document, self.report)

    def document(self) -> dict[str, Any]:
        """The whole run for machines: verdicts, changes, results. No secret is in them."""
        return {
            "verb": self.verb,
            "run": self.id,
            "stopped": self.stopped,
            "verdicts": [v.model_dump() for v in self.survey.verdicts],
            "not_asked": list(self.survey.not_asked),
            "changes": [c.model_dump(exclude={"files"}) for c in self.survey.changes],
            "results": [asdict(row) for row in self.rows],
        }
