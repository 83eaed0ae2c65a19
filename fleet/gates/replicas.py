"""Does the service go on being served while this run changes it?"""

from fleet.gate import FleetView, PlacedFinding, gate
from fleet.plan import NodeView, Plan


def proves(view: NodeView, service: str) -> bool | None:
    """Does this node serve a proven release of the service? None: the node did not tell."""
    if view.facts is None or view.facts.services_error is not None:
        return None
    installed = view.facts.installed(service)
    if installed is None:
        return False
    if installed.error is not None or (installed.unit is None and installed.current is not None):
        return None
    proven = installed.current is not None and installed.proven == installed.current
    return proven and installed.unit is not None and installed.unit.active == "active"


def _keeps(plan: Plan) -> bool:
    return plan.service.policy.last_replica == "keep"


def _proving(fleet: FleetView) -> dict[str, frozenset[str]]:
    """Service -> the nodes of the run that serve a proven release of it."""
    services = {plan.service.name for plan in fleet.plans}
    return {service: frozenset(view.node.name for view in fleet.views if proves(view, service)) for service in services}


@gate(
    "last-replica",
    reads="releases and units of all nodes of the run",
    remedy="prove {service} on another node first, or set policy.last_replica: take",
)
def last_replica(fleet: FleetView) -> list[PlacedFinding]:
    """The run does not change the only proven replica of a service, unless policy.last_replica is take."""
    views = {view.node.name: view for view in fleet.views}
    proving = _proving(fleet)
    findings = []
    for plan in fleet.plans:
        node, service = plan.node.name, plan.service.name
        if (node, service) not in fleet.changing or not _keeps(plan) or not plan.serves:
            continue
        here = proves(views[node], service) if node in views else None
        elsewhere = proving[service] - set(plan.nodes)
        if elsewhere or here is False:
            continue
        got = (
            "none but this one among the nodes of this run"
            if here
            else "none, and whether this one serves could not be read"
        )
        findings.append(PlacedFinding(node=node, service=service, want="a proven replica on another node", got=got))
    return findings
