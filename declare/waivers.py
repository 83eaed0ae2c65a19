"""Waivers: of all.yaml as they stand there, those of a group for the nodes of that group only."""

from collections.abc import Iterable, Iterator

from declare.groups import EVERYONE, GroupFile
from declare.located import Located
from declare.nodes import NodeFile
from declare.problem import unknown
from declare.validate import build
from fleet.declaration import Waiver


def read_waivers(
    nodes: dict[str, NodeFile], groups: dict[str, GroupFile], services: set[str], problems: list[str]
) -> tuple[Waiver, ...]:
    """All declared waivers. A node or service that a waiver names must be there; gates are `fleet/`'s to know."""
    waivers = []
    for name, group in groups.items():
        everyone = name == EVERYONE
        mine = [node.name for node in nodes.values() if everyone or name in node.declaration.groups]
        for entry in _entries(group.section("waivers")):
            waiver = build(Waiver, entry, problems)
            if waiver is None:
                continue
            problems.extend(_strangers(entry, "nodes", waiver.nodes, mine, "node" if everyone else f"node of {name}"))
            problems.extend(_strangers(entry, "services", waiver.services, services, "service"))
            if everyone:
                waivers.append(waiver)
            elif mine:  # in a group without nodes, "no nodes" would mean every node
                waivers.append(waiver.model_copy(update={"nodes": waiver.nodes or tuple(mine)}))
    return tuple(waivers)


def _entries(section: Located | None) -> Iterator[Located]:
    return iter(section.value if section and isinstance(section.value, list) else ())


def _strangers(entry: Located, field: str, names: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    origin = (entry.get(field) or entry).origin
    choice = list(known)
    return [unknown(origin, name, choice, what) for name in names if name not in choice]
