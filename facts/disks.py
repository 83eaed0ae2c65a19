"""Room where releases and images lie, as a fact."""

from typing import Any

from facts.parse.frames import Section
from facts.parse.runtime import parse_disks
from facts.section import SectionFact


class Disks(SectionFact):
    """disks: path, total_bytes, free_bytes, error."""

    sections = ("disks",)

    def read(self, frames: dict[str, Section]) -> dict[str, Any]:
        """The fields of fleet.nodes.node.Disk."""
        return {"disks": [disk.model_dump(mode="json") for disk in parse_disks(frames["disks"])]}
