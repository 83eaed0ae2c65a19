"""What machine a node is, as a fact."""

from typing import Any

from facts.parse.frames import Section
from facts.parse.host import read_host
from facts.section import SectionFact


class Machine(SectionFact):
    """hostname, clock, boot id, system, kernel, CPUs, memory, and who holds the lock."""

    sections = ("host",)

    def read(self, frames: dict[str, Section]) -> dict[str, Any]:
        """Plain fields; `lock` is null or the fields of fleet.nodes.node.Lock."""
        told = read_host(frames["host"])
        return {**told, "lock": told["lock"].model_dump(mode="json") if told["lock"] else None}
