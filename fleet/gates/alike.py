"""Are the replicas of a service alike, and enough of them?"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from fleet.gate import FleetView, PlacedFinding, gate
from fleet.gates.shapes import max_num_seqs
from fleet.plan import Plan


def _replicas(fleet: FleetView) -> dict[str, list[Plan]]:
    """Service -> its plans, in node order."""
    found: defaultdict[str, list[Plan]] = defaultdict(list)
    for plan in sorted(fleet.plans, key=lambda one: one.node.name):
        found[plan.service.name].append(plan)
    return dict(found)


def _unlike(
    fleet: FleetView, what: str, value: Callable[[Plan], str | None], near: Callable[[str, str], bool] | None = None
) -> list[PlacedFinding]:
    """A finding for each replica that is not like most of its service, unless policy.mixed allows it.

    `near`: which two values are so alike that the difference is a warning.
    """
    findings = []
    for service, plans in _replicas(fleet).items():
        told = [(plan, found) for plan in plans if (found := value(plan)) is not None]
        values = [found for _, found in told]
        if len(set(values)) < 2 or any(what in plan.service.policy.mixed for plan in plans):
            continue
        usual = max(dict.fromkeys(values), key=values.count)  # of as many each, the first
        like = next(plan.node.name for plan, found in told if found == usual)
        findings += [
            PlacedFinding(
                node=plan.node.name,
                service=service,
                want=f"{what} {usual} as on {like}",
                got=found,
                warning=near is not None and near(usual, found),
            )
            for plan, found in told
            if found != usual
        ]
    return findings


@gate(
    "replicas-image",
    reads="image of each replica",
    remedy="give every replica of {service} one image, or declare policy.mixed: [image]",
)
def replicas_image(fleet: FleetView) -> list[PlacedFinding]:
    """All replicas of a service run one engine image, unless policy.mixed says that they need not."""
    return _unlike(fleet, "image", _image)


def _image(plan: Plan) -> str:
    return f"{plan.service.image.engine} ({plan.service.image.digest[:19]})"


@gate(
    "replicas-gpus",
    reads="gpus of the inventory",
    severity="warn",
    remedy="place {service} on nodes of one kind, or declare policy.mixed: [gpus]",
)
def replicas_gpus(fleet: FleetView) -> list[PlacedFinding]:
    """All replicas of a service run on one kind of GPU, unless policy.mixed says that they need not."""
    return _unlike(fleet, "gpus", _gpus, near=lambda usual, found: True)


def _gpus(plan: Plan) -> str:
    return f"{plan.node.gpus.model} {plan.node.gpus.memory_mib} MiB"


@gate(
    "replicas-driver",
    reads="nvidia-smi of each node of the run",
    severity="fail or warn",
    remedy="bring {node} to the others' driver, or declare policy.mixed: [driver] while they differ",
    needs_facts=True,
)
def replicas_driver(fleet: FleetView) -> list[PlacedFinding]:
    """All replicas of a service have one driver; another release of the same branch is a warning."""
    return _unlike(fleet, "driver", _driver, near=lambda usual, found: _branch(usual) == _branch(found))


def _driver(plan: Plan) -> str | None:
    return plan.facts.nvidia.driver if plan.facts else None


def _branch(version: str) -> str:
    return version.partition(".")[0]


def _serving_nodes(fleet: FleetView, service: str, plans: Iterable[Plan]) -> set[str]:
    """Nodes of the fleet on which an engine of the service answers: one engine over several hosts is one replica."""
    placed = {node for node, name in fleet.placed if name == service}
    return placed | {plan.node.name for plan in plans if plan.serves}


@gate(
    "replicas",
    reads="policy.replicas, placement of the service on all nodes of the fleet",
    remedy="place {service} on more nodes, or lower its policy.replicas",
)
def replicas(fleet: FleetView) -> list[PlacedFinding]:
    """A service is placed on as many different nodes as policy.replicas says."""
    findings = []
    for service, plans in _replicas(fleet).items():
        least = max(plan.service.policy.replicas for plan in plans)
        nodes = _serving_nodes(fleet, service, plans)
        if len(nodes) < least:
            got = f"{len(nodes)} ({', '.join(sorted(nodes))})"
            node = plans[0].node.name
            findings.append(PlacedFinding(node=node, service=service, want=f"{least} nodes", got=got))
    return findings


@gate(
    "concurrency",
    reads="target_concurrency, --max-num-seqs, layout, placement",
    severity="warn",
    remedy="lower --max-num-seqs of {service}, or raise its target_concurrency: unused room costs memory and latency",
)
def concurrency(fleet: FleetView) -> list[PlacedFinding]:
    """What all replicas may run at once does not pass the target_concurrency of the service."""
    findings = []
    for service, plans in _replicas(fleet).items():
        target = max((plan.service.target_concurrency or 0 for plan in plans), default=0)
        each = [(plan, seqs) for plan in plans if (seqs := max_num_seqs(plan)) is not None]
        if not target or len(each) < len(plans):
            continue
        nodes = len(_serving_nodes(fleet, service, plans))
        most = max(seqs * (plan.layout.dp if plan.layout else 1) for plan, seqs in each)
        if most * nodes > target:
            findings.append(
                PlacedFinding(
                    node=plans[0].node.name,
                    service=service,
                    want=f"at most {target} requests at once",
                    got=f"{most} on each of {nodes} nodes = {most * nodes}",
                    warning=True,
                )
            )
    return findings
