"""The links between a node's GPUs, as a fact: `pyinfra inventory.py fact facts.topology.Topology`."""

from typing import Any

from facts.parse.frames import Section
from facts.parse.probe import read_topology
from facts.section import SectionFact


class Topology(SectionFact):
    """gpus, links (a line a GPU), islands, components, numa; or `error` with the reason."""

    sections = ("topology",)

    def read(self, frames: dict[str, Section]) -> dict[str, Any]:
        """The summary of the topology."""
        topology, error = read_topology(frames["topology"])
        if topology is None:
            return {"error": error}
        return {**topology.summary(), "links": [" ".join(f"{cell:4}" for cell in row) for row in topology.links]}
