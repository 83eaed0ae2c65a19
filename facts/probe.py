"""The one fact of a rollout: everything about a node, from one command."""

from typing import Any

from pyinfra.api import FactBase, StringCommand
from pyinfra.api.exceptions import FactProcessError

from facts.parse.probe import ProbeError, parse_probe
from facts.script import ProbeScript, probe_script
from facts.section import bash
from fleet.nodes.request import ProbeRequest

__all__ = ["Probe", "ProbeScript", "probe_script"]


class Probe(FactBase[dict[str, Any]]):
    """The fields of fleet.nodes.node.NodeFacts. The command stands in an argv on the node: no secret in the request."""

    script: ProbeScript

    def command(self, request: ProbeRequest | None = None) -> StringCommand:
        """The whole probe; without a request it looks at no declared service."""
        self.script = probe_script(request or ProbeRequest())
        return bash(self.script)

    def process(self, output: list[str]) -> dict[str, Any]:
        """FactProcessError, which fails this host alone, where the answer is not whole."""
        try:
            return parse_probe("\n".join(output), self.script).model_dump(mode="json")
        except ProbeError as error:
            raise FactProcessError(str(error)) from error
