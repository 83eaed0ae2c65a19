"""A node's NUMA nodes, as a fact."""

from typing import Any

from facts.parse.frames import Section
from facts.parse.probe import read_numa
from facts.section import SectionFact


class Numa(SectionFact):
    """nodes (id and CPU list each), and `error` where the kernel's files cannot be read."""

    sections = ("numa",)

    def read(self, frames: dict[str, Section]) -> dict[str, Any]:
        """The fields of fleet.nodes.node.NumaNode, in order of id."""
        nodes, error = read_numa(frames["numa"])
        return {"nodes": [node.model_dump(mode="json") for node in nodes], "error": error}
