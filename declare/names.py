"""Host names of other machines that a node is sent to: where its checkpoints and images come from."""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from fleet.declaration import Placement, ServiceDeclaration

MOST_PEERS = 16
"""A node takes a checkpoint from some of those that have it; of a large fleet not every name is asked about."""


def with_names(placements: tuple[Placement, ...]) -> tuple[Placement, ...]:
    """Each placement with the names that its node must resolve, in order; addresses need no resolving."""
    addresses = {placement.node.name: placement.node.address for placement in placements}
    serving: dict[str, list[str]] = {}
    for placement in placements:
        for service in placement.services:
            serving.setdefault(service.name, []).append(placement.node.name)
    named = []
    for placement in placements:
        found = {name for service in placement.services for name in _of(service, placement, addresses, serving)}
        named.append(placement.model_copy(update={"names": tuple(sorted(found))}) if found else placement)
    return tuple(named)


def _of(
    service: ServiceDeclaration, placement: Placement, addresses: dict[str, str], serving: dict[str, list[str]]
) -> Iterable[str]:
    checkpoint, archive = service.checkpoint, service.image.archive
    hosts = [urlsplit(url).hostname for url in (checkpoint and checkpoint.url, archive and archive.url) if url]
    if checkpoint is not None:
        peers = [checkpoint.peer] if checkpoint.peer else []
        peers += [node for node in serving[service.name] if node != placement.node.name][:MOST_PEERS]
        hosts += [addresses.get(peer) for peer in peers]
    return (host for host in hosts if host and not _literal(host))


def _literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    return True
