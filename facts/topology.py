"""The links between a node's GPUs, as a fact: `pyinfra inventory.py fact facts.topology.Topology`."""

from collections.abc import Iterable
from typing import Any

from facts.parse.frames import Section
from facts.parse.probe import read_topology
from facts.section import SectionFact
from fleet.nodes.topology import Topology as Links


class Topology(SectionFact):
    """gpus, links (a labelled line a GPU), islands, components, numa; or `error` with the reason."""

    sections = ("topology",)

    def read(self, frames: dict[str, Section]) -> dict[str, Any]:
        """The topology as people read it: pyinfra prints each entry of a list on a line of its own."""
        topology, error = read_topology(frames["topology"])
        if topology is None:
            return {"error": error}
        names = [f"GPU{gpu}" for gpu in range(topology.gpus)]
        rows = [["", *names], *([name, *row] for name, row in zip(names, topology.links, strict=True))]
        width = max(len(cell) for row in rows for cell in row)
        return {
            "gpus": topology.gpus,
            "links": [" ".join(f"{cell:{width}}" for cell in row).rstrip() for row in rows],
            "islands": [_gpus(island) for island in topology.islands],
            "components": len(topology.components),
            "numa": [
                f"{_gpus(gpus)}: {'not told' if node is None else f'node {node}'}" for node, gpus in _by_numa(topology)
            ],
        }


def _gpus(gpus: Iterable[int]) -> str:
    return f"GPU {', '.join(map(str, gpus))}"


def _by_numa(topology: Links) -> list[tuple[int | None, list[int]]]:
    groups: dict[int | None, list[int]] = {}
    for gpu, node in enumerate(topology.numa):
        groups.setdefault(node, []).append(gpu)
    return list(groups.items())
