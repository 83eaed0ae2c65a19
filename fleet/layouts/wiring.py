"""How far apart the GPUs of one node are: from its link matrix where it told one, else from what the owner declares."""

import re
from functools import cached_property
from typing import Literal

from fleet.declaration import NodeDeclaration
from fleet.frozen import Frozen
from fleet.nodes.topology import DIRECT_LINK, Topology

LinkClass = Literal["nvlink", "switch", "host", "socket"]
LINK_CLASSES: tuple[LinkClass, ...] = ("nvlink", "switch", "host", "socket")
"""From fast to slow: NVLink (or the vendor's own), one or more PCIe switches, the processor, across processors."""

_CLASS: dict[str, LinkClass] = {
    "PIX": "switch",
    "PSB": "switch",
    "PXB": "switch",
    "PHB": "host",
    "PCIE": "host",
    "NODE": "host",
    "SYS": "socket",
    "SOC": "socket",
}
_DISTANCE = {"PIX": 100, "PSB": 101, "PXB": 102, "PHB": 200, "PCIE": 201, "NODE": 202, "SYS": 300, "SOC": 301}
_MOST_NVLINKS = 18


def link_class(label: str) -> LinkClass:
    """The class of a label of `nvidia-smi topo -m` (or of its AMD and Ascend counterparts)."""
    return "nvlink" if DIRECT_LINK.fullmatch(label) else _CLASS[label]


def distance(label: str) -> int:
    """A label as a number that grows from fast to slow; it ranks and measures nothing. NV12 is nearer than NV1."""
    if label in _DISTANCE:
        return _DISTANCE[label]
    bond = re.fullmatch(r"NV(\d+)", label)
    return _MOST_NVLINKS - min(int(bond[1]), _MOST_NVLINKS) if bond else 0


class Wiring(Frozen):
    """The links between the GPUs of one node: `links[i][j]` is a label (`X` for i == j); `numa[i]` None is unknown."""

    links: tuple[tuple[str, ...], ...]
    numa: tuple[int | None, ...]

    @property
    def gpus(self) -> int:
        """GPUs of the node."""
        return len(self.links)

    @cached_property
    def distances(self) -> tuple[tuple[int, ...], ...]:
        """`distance` of every pair; 0 on the diagonal."""
        return tuple(
            tuple(0 if i == j else distance(label) for j, label in enumerate(row)) for i, row in enumerate(self.links)
        )

    @cached_property
    def classes(self) -> tuple[tuple[int, ...], ...]:
        """Index in `LINK_CLASSES` of every pair; 0 on the diagonal."""
        return tuple(
            tuple(0 if i == j else LINK_CLASSES.index(link_class(label)) for j, label in enumerate(row))
            for i, row in enumerate(self.links)
        )

    def slowest(self, gpus: tuple[int, ...]) -> LinkClass | None:
        """The slowest class between any two of these GPUs; None for a single one."""
        pairs = [self.classes[a][b] for i, a in enumerate(gpus) for b in gpus[i + 1 :]]
        return LINK_CLASSES[max(pairs)] if pairs else None

    def between(self, one: tuple[int, ...], other: tuple[int, ...]) -> LinkClass:
        """The slowest class from a rank of one stage to the same rank of the next."""
        return LINK_CLASSES[max(self.classes[a][b] for a, b in zip(one, other, strict=True))]

    def fits(self, gpus: tuple[int, ...]) -> bool:
        """Does the node have all of these GPUs?"""
        return all(0 <= gpu < self.gpus for gpu in gpus)


def declared_links(node: NodeDeclaration) -> tuple[tuple[str, ...], ...]:
    """The matrix that follows from a declaration: NVLink inside an island, else NODE in one NUMA node, else SYS.

    A NUMA node that is not told is nobody's neighbour.
    """
    island = {gpu: number for number, group in enumerate(node.nvlink_islands) for gpu in group}
    numa = node.numa or (None,) * node.gpus.count

    def label(i: int, j: int) -> str:
        if i == j:
            return "X"
        if i in island and island[i] == island.get(j):
            return "NV1"
        return "NODE" if numa[i] is not None and numa[i] == numa[j] else "SYS"

    return tuple(tuple(label(i, j) for j in range(node.gpus.count)) for i in range(node.gpus.count))


def wiring_of(node: NodeDeclaration, topology: Topology | None = None) -> Wiring:
    """The node's own matrix where it is one of the declared GPUs; else the declared islands and NUMA nodes.

    Declared NUMA nodes win over those that the node tells; a gate compares the two.
    """
    told = topology if topology is not None and topology.gpus == node.gpus.count else None
    numa = node.numa or (told.numa if told else (None,) * node.gpus.count)
    return Wiring(links=told.links if told else declared_links(node), numa=numa)


def wiring_of_topology(topology: Topology) -> Wiring:
    """The wiring of a node of which only its topology is known."""
    return Wiring(links=topology.links, numa=topology.numa)
