"""A node's GPUs, as a fact."""

from typing import Any

from facts.parse.frames import Section
from facts.parse.probe import read_gpus
from facts.section import SectionFact


class Gpus(SectionFact):
    """gpus, driver, and `error` with what nvidia-smi said besides."""

    sections = ("gpus",)

    def read(self, frames: dict[str, Section]) -> dict[str, Any]:
        """The fields of fleet.nodes.nvidia.Nvidia."""
        return read_gpus(frames["gpus"]).model_dump(mode="json")
