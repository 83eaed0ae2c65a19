"""What is fuzzed: every parser of what a node or a tool prints, with seeds of real outputs and with what must hold."""

from tests.fuzz import machine, service
from tests.fuzz.frame import ROOT, TARGETS, seeds

__all__ = ["ROOT", "TARGETS", "machine", "seeds", "service"]
