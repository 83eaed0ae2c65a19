"""The one fact of a rollout: everything about a node, from one command."""

from pyinfra.api import FactBase, StringCommand
from pyinfra.api.exceptions import FactProcessError

from facts.parse.probe import ProbeError, parse_probe
from facts.script import ProbeScript, probe_script
from facts.section import bash
from fleet.node import NodeFacts, ProbeRequest

__all__ = ["Probe", "ProbeScript", "probe_script"]


class Probe(FactBase[NodeFacts]):
    """NodeFacts of a node. The command stands in an argv there: give a request without a secret key."""

    script: ProbeScript

    def command(self, request: ProbeRequest | None = None) -> StringCommand:
        """The whole probe; without a request it looks at no declared service."""
        self.script = probe_script(request or ProbeRequest())
        return bash(self.script)

    def process(self, output: list[str]) -> NodeFacts:
        """FactProcessError, which fails this host alone, where the answer is not whole."""
        try:
            return parse_probe("\n".join(output), self.script)
        except ProbeError as error:
            raise FactProcessError(str(error)) from error
