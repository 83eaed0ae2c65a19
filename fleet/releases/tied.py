"""Releases of the hosts of one engine: they change together, start together, and are left out together."""

import hashlib
from collections.abc import Iterable, Mapping

from fleet.plan import Plan
from fleet.releases.difference import Change
from fleet.releases.release import Release

Key = tuple[str, str]


def _key(plan: Plan) -> Key:
    return plan.node.name, plan.service.name


def tie(plans: Iterable[Plan], releases: Mapping[Key, Release]) -> tuple[Plan, ...]:
    """The plans, those of an engine over several hosts with the digest of what all of its hosts are told."""
    return tuple(_with_digest(plan, releases) for plan in plans)


def _with_digest(plan: Plan, releases: Mapping[Key, Release]) -> Plan:
    if plan.span is None:
        return plan
    parts = [releases.get((node, plan.service.name)) for node in plan.span.nodes]
    text = " ".join(part.id if part else "unknown" for part in parts)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return plan.model_copy(update={"span": plan.span.model_copy(update={"digest": digest})})


def as_one(changes: Iterable[Change], plans: Iterable[Plan]) -> tuple[Change, ...]:
    """The changes, where one host of an engine starts anew all others do too: they would wait for one another."""
    found = {(change.node, change.service): change for change in changes}
    for plan in plans:
        if plan.span is None or _key(plan) not in found:
            continue
        anew = [node for node in plan.nodes if (there := found.get((node, plan.service.name))) and there.restarts]
        own = found[_key(plan)]
        if anew and not own.restarts:
            words = (*own.words, f"{', '.join(anew)} of the same engine changes")
            found[_key(plan)] = own.model_copy(update={"kind": "rejoin", "words": words})
    return tuple(found.values())


def with_hosts_of(nodes: frozenset[str], plans: Iterable[Plan]) -> frozenset[str]:
    """The nodes, and all that run an engine together with one of them."""
    together = [frozenset(plan.nodes) for plan in plans if plan.span is not None]
    while True:
        more = nodes.union(*(one for one in together if one & nodes))
        if more == nodes:
            return nodes
        nodes = more
