"""The services that lie on a node, as a fact."""

from typing import Any

from facts.parse.frames import Section
from facts.parse.services import parse_services
from facts.section import SectionFact


class Services(SectionFact):
    """services (releases, marks, files, unit, proof), and `error` where they cannot be read."""

    sections = ("services", "files", "units", "secrets")

    def read(self, frames: dict[str, Section]) -> dict[str, Any]:
        """The fields of fleet.nodes.node.Installed, in name order."""
        services, error = parse_services(frames, ())
        return {"services": [service.model_dump(mode="json") for service in services], "error": error}
