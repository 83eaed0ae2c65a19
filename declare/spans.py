"""Services that several nodes run together: what only the whole fleet can tell about their `nodes`."""

from collections.abc import Iterable, Mapping, Sequence

from declare.located import Located, Origin
from declare.problem import choice, line
from fleet.declaration import Placement, ServiceDeclaration

Origins = dict[tuple[str, str], tuple[Origin, tuple[str, ...]]]
"""(node, service) -> the `nodes` that are declared for it there, and where; also on a node that is none of them."""


def known_nodes(service: Located, nodes: frozenset[str]) -> list[str]:
    """A problem for each name in `nodes` that the inventory does not have."""
    declared = service.get("nodes")
    names = declared.value if declared is not None and isinstance(declared.value, list) else []
    return [
        line(entry.origin, *choice(entry.value, sorted(nodes), "node of the inventory"))
        for entry in names
        if isinstance(entry.value, str) and entry.value not in nodes
    ]


def wrong_spans(placements: Sequence[Placement], origins: Origins, nodes: frozenset[str]) -> list[str]:
    """A problem for each node that does not have a service together with those that have it with the node."""
    placed = {(p.node.name, service.name): service for p in placements for service in p.services}
    problems = []
    for (_, name), (origin, together) in origins.items():
        for node in together:
            there = placed.get((node, name))
            if node in nodes and (there is None or there.nodes != together):
                want = f"{node} to have {name} with nodes: {_shown(together)}"
                problems.append(line(origin, want, _instead(node, name, there)))
    return problems


def _instead(node: str, name: str, there: ServiceDeclaration | None) -> str:
    if there is None:
        return f"no {name} on {node}; put it into a group whose file declares {name}"
    if there.nodes is None:
        return f"{name} alone on {node}; a node serves a service alone or together with others"
    return f"nodes: {_shown(there.nodes)} there"


def _shown(nodes: Iterable[str] | None) -> str:
    return f"[{', '.join(nodes or ())}]"


def with_peers(placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """The placements, each with the addresses of the nodes that it runs an engine with."""
    found = tuple(placements)
    addresses = {placement.node.name: placement.node.address for placement in found}
    return tuple(_with_peers(placement, addresses) for placement in found)


def _with_peers(placement: Placement, addresses: Mapping[str, str]) -> Placement:
    names = {name for service in placement.services for name in service.nodes or ()} - {placement.node.name}
    peers = {name: addresses[name] for name in sorted(names) if name in addresses}
    return placement.model_copy(update={"peers": peers}) if peers else placement


def cut_spans(placements: Iterable[Placement], selected: Iterable[str]) -> list[str]:
    """A problem for each engine of which `--limit` or `--exclude` leaves some nodes and not all."""
    left = set(selected)
    found = {
        (service.name, service.nodes)
        for placement in placements
        for service in placement.services
        if service.nodes is not None and 0 < len(left & set(service.nodes)) < len(service.nodes)
    }
    return [
        f"--limit: want all of {', '.join(nodes)}, which run {name} together, or none of them, "
        f"found {', '.join(node for node in nodes if node in left)} alone"
        for name, nodes in sorted(found)
    ]
