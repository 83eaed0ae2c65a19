"""One engine over several hosts: which node is which part of it, and what each is told of the others.

Read in vLLM 0.28 to 0.33 (`MultiprocExecutor`, `ParallelConfig.local_world_size`): ranks are dealt to the nodes in
equal runs, TP innermost, so whole stages lie on each node where PP is a multiple of the nodes. Rank 0 listens on the
master port; only its node serves HTTP, the others run headless.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fleet.frozen import Frozen
from fleet.nodes.node import Peer
from fleet.nodes.request import PeerRequest

if TYPE_CHECKING:
    from fleet.declaration import Placement, ServiceDeclaration


class Span(Frozen):
    """A node's place in an engine that several nodes run together. `nodes`: all of them, the head first."""

    nodes: tuple[str, ...]
    rank: int
    """0: the head, which serves; others run headless."""
    head: str
    """Address of the head, as this node reaches it."""
    port: int
    """The master port, where the head's rank 0 listens for the others."""
    address: str
    """This node's own address, as it speaks to the others."""
    interface: str | None = None
    """The network interface that has this address; None where the node did not tell."""
    peers: tuple[str, ...] = ()
    """Addresses of the others, as this node knows them."""
    digest: str = ""
    """Of what all nodes of the engine are told; filled in when all are known."""

    @property
    def others(self) -> tuple[str, ...]:
        """Every node but this one."""
        return tuple(name for place, name in enumerate(self.nodes) if place != self.rank)

    def __str__(self) -> str:
        return f"host {self.rank} of {', '.join(self.nodes)}"


def span_of(placement: "Placement", service: "ServiceDeclaration", told: Iterable[Peer] | None) -> Span | None:
    """The place of this node in a service's engine; None where that is a node's own.

    `told`: what the node knows of its peers. What it did not tell stays as it is declared, for gates to judge.
    """
    if service.nodes is None or placement.node.name not in service.nodes:
        return None
    peers = {peer.name: peer for peer in told or () if peer.name in service.nodes}
    own = next((peer for peer in peers.values() if peer.source), None)
    address = own.source if own and own.source else placement.node.address
    rank, first = service.nodes.index(placement.node.name), service.nodes[0]
    head = address
    if rank:
        known = peers.get(first)
        head = (known.resolved if known else None) or placement.peers.get(first, first)
    others = [name for name in service.nodes if name != placement.node.name]
    known_as = {name: peer.resolved for name, peer in peers.items()}
    return Span(
        nodes=service.nodes,
        rank=rank,
        head=head,
        port=service.master_port,
        address=address,
        interface=own.interface if own else None,
        peers=tuple(known_as.get(name) or placement.peers.get(name, name) for name in others),
    )


def peer_requests(placement: "Placement") -> tuple[PeerRequest, ...]:
    """The nodes that this one must look for: every other one of each engine that it is a part of."""
    found = {
        (name, service.master_port): PeerRequest(name=name, address=placement.peers[name], port=service.master_port)
        for service in placement.services
        for name in service.nodes or ()
        if name in placement.peers
    }
    return tuple(found[key] for key in sorted(found))


class StoredSpan(Frozen):
    """The same as a plan.json keeps it."""

    nodes: tuple[str, ...]
    rank: int
    digest: str


def span_in(document: Mapping[str, Any] | None) -> StoredSpan | None:
    """The span of a plan.json; None where that release is one node's own, or the document cannot be read."""
    try:
        return StoredSpan.model_validate((document or {}).get("span"))
    except ValidationError:
        return None


def serves(document: Mapping[str, Any] | None) -> bool:
    """Does the engine of this plan.json answer over HTTP on its node? A headless one does not."""
    span = span_in(document)
    return span is None or span.rank == 0
