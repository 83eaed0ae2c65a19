"""Who listens on a node, as a fact."""

from typing import Any

from facts.parse.frames import Section
from facts.parse.runtime import parse_ports
from facts.section import SectionFact


class Ports(SectionFact):
    """ports (number, process, pid, unit), and `error` where ss cannot be read."""

    sections = ("ports",)

    def read(self, frames: dict[str, Section]) -> dict[str, Any]:
        """The fields of fleet.nodes.node.Port, in order of port."""
        ports, error = parse_ports(frames["ports"])
        return {"ports": [port.model_dump(mode="json") for port in ports], "error": error}
