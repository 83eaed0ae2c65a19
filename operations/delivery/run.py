"""One run of a delivery: what was found, what is wanted, what came of it."""

import secrets as random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gevent.event import Event
from gevent.lock import RLock

from fleet.declaration import Fleet
from fleet.delivery.delivery import MIB, Item, Need, bundles
from fleet.delivery.manifest import ManifestFile
from fleet.delivery.swarm import Bundle, Swarm
from operations.delivery.look import Found
from operations.holder import holder
from operations.report_file import hand_over

if TYPE_CHECKING:
    from pyinfra.api.host import Host

CONTROLLER = "the controller"
FromUrl = "URL of "


@dataclass(frozen=True)
class Outcome:
    """What became of one item on one node."""

    node: str
    item: str
    path: str
    status: str
    """delivered, verified, unchanged; failed, refused, unreachable, untouched."""
    bytes: int = 0
    """That arrived."""
    seconds: float = 0.0
    sources: tuple[str, ...] = ()
    reason: str = ""

    @property
    def good(self) -> bool:
        """Is this what the owner wanted?"""
        return self.status in ("delivered", "verified", "unchanged")


@dataclass
class Delivery:
    """One run. Mutable on purpose: it is what changes while bytes move."""

    fleet: Fleet
    found: Found
    hosts: dict[str, "Host"]
    dry: bool = False
    json: bool = False
    clean: bool = False
    report: Path | None = None
    id: str = field(default_factory=lambda: random.token_hex(8))
    secret: str = field(default_factory=lambda: random.token_hex(16), repr=False)
    outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    stopped: str | None = None
    troubles: dict[Bundle, str] = field(default_factory=dict)
    """The last reason why a bundle did not arrive."""
    doomed: dict[str, Any] = field(default_factory=dict)
    """Node -> what `--data clean=true` takes away there, or why that is not known."""
    cleaned: list[str] = field(default_factory=list)
    swarm: Swarm = field(init=False, repr=False)
    pending: set[str] = field(init=False)
    """Nodes that have not begun yet: what they can give is not known."""
    shared: dict[str, Any] = field(default_factory=dict, repr=False)
    guard: Any = field(default_factory=RLock, repr=False)
    _changed: Event = field(default_factory=Event, repr=False)

    def __post_init__(self) -> None:
        policy = self.fleet.delivery
        want = {node: self.wanted(needs) for node, needs in self.found.needs.items() if node in self.hosts}
        origins: dict[str, list[Bundle]] = {}
        for item in self.found.items.values():
            if item.origin.folder is not None:
                origins.setdefault(CONTROLLER, []).extend(self.bundles_of(item))
            elif item.origin.url is not None:
                origins[FromUrl + item.name] = self.bundles_of(item)
        self.swarm = Swarm(want, {}, origins, policy.serves, policy.parallel)
        self.pending = set(self.taking_part)

    @property
    def taking_part(self) -> list[str]:
        """Nodes that take or can give something that moves."""
        moving = {need.item for needs in self.found.needs.values() for need in needs if need.action != "none"}
        nodes = {node for node, needs in self.found.needs.items() for need in needs if need.action != "none"}
        nodes |= {node for node, key in self.found.sources if key in moving}
        return sorted(node for node in nodes if node in self.hosts)

    @property
    def active(self) -> bool:
        """Is there anything to do?"""
        return bool(self.clean or any(n.action != "none" for needs in self.found.needs.values() for n in needs))

    @property
    def as_declared(self) -> int:
        """Items that lie where they are declared, over all nodes."""
        return sum(need.action == "none" for needs in self.found.needs.values() for need in needs)

    def groups(self, item: Item) -> tuple[tuple[ManifestFile, ...], ...]:
        """The files of each bundle of an item."""
        return bundles(item.manifest, self.fleet.delivery.bundle_mib * MIB)

    def bundles_of(self, item: Item) -> list[Bundle]:
        """All bundles of an item."""
        return [Bundle(item.key, number) for number in range(len(self.groups(item)))]

    def files(self, bundle: Bundle) -> tuple[ManifestFile, ...]:
        """What travels in a bundle."""
        return self.groups(self.found.items[bundle.item])[bundle.number]

    def wanted(self, needs: list[Need]) -> list[Bundle]:
        """Bundles of what a node lacks, also where it may turn out to have them."""
        items = self.found.items
        return [one for need in needs if need.action != "none" for one in self.bundles_of(items[need.item])]

    def once(self, name: str, work: Callable[[], Any]) -> Any:
        """The first host that comes does the work; the others wait and get the same answer."""
        with self.guard:
            if name not in self.shared:
                self.shared[name] = work()
            return self.shared[name]

    def changed(self) -> None:
        """Something moved: whoever waits for a source looks again."""
        event, self._changed = self._changed, Event()
        event.set()

    def wait(self) -> None:
        """Until something moved, or a second passed."""
        self._changed.wait(1.0)

    def holder(self) -> str:
        """Who runs this, as the lease says it."""
        return holder()

    def keep(self, outcome: Outcome) -> None:
        """Remember what became of an item on a node."""
        self.outcomes[outcome.node, outcome.item] = outcome

    def stop(self, reason: str) -> None:
        """The first reason stays."""
        self.stopped = self.stopped or reason

    @property
    def rows(self) -> list[Outcome]:
        """Every item of every node in order; what had no turn is untouched, refused or unchanged."""
        rows = dict(self.outcomes)
        for node, needs in self.found.needs.items():
            for need in needs:
                item = self.found.items[need.item]
                status = "refused" if need.refused else "unchanged" if need.action == "none" else "untouched"
                row = Outcome(node, need.item, item.path, status, reason=need.refused or "")
                rows.setdefault((node, need.item), row)
        for node, reason in self.found.unread.items():
            rows[node, ""] = Outcome(node, "-", "-", "unreachable", reason=reason)
        return [rows[key] for key in sorted(rows)]

    def write_report(self) -> None:
        """The whole run for machines, where it was asked for. OSError where it cannot be written."""
        hand_over(self.document, self.report)

    def document(self) -> dict[str, Any]:
        """The whole run for machines."""
        names = {key: item.name for key, item in self.found.items.items()}
        return {
            "verb": "deliver",
            "run": self.id,
            "dry": self.dry,
            "stopped": self.stopped,
            "problems": [{"where": where, "found": why} for where, why in self.found.problems],
            "cleaned": self.cleaned,
            "results": [{**asdict(row), "item": names.get(row.item, row.item), "good": row.good} for row in self.rows],
        }
