"""Facts of a node's parts: each asks for the same sections as the probe, alone, for audits and for the command line.

A part that cannot be read is a value that says so (`error`); only an answer that is not whole fails its host.
"""

from typing import Any

from pyinfra.api import FactBase, QuoteString, StringCommand
from pyinfra.api.exceptions import FactProcessError

from facts.parse.frames import ProbeError, Section, parse_frames
from facts.script import ProbeScript, sections_script
from fleet.nodes.request import ProbeRequest


class SectionFact(FactBase[dict[str, Any]]):
    """What `sections` tell, as plain values that pyinfra can print as JSON."""

    abstract = True
    sections: tuple[str, ...] = ()
    script: ProbeScript

    def ask(self, request: ProbeRequest) -> StringCommand:
        """The command that prints the sections. It stands in an argv on the node: no secret key in the request."""
        self.script = sections_script(self.sections, request)
        return bash(self.script)

    def command(self) -> StringCommand:
        """Without parameters; a fact that has some overrides this."""
        return self.ask(ProbeRequest())

    def process(self, output: list[str]) -> dict[str, Any]:
        """The value of this fact. FactProcessError, which fails this host alone, where the answer is not whole."""
        try:
            frames = parse_frames("\n".join(output), self.script.nonce)
            missing = [name for name in self.sections if name not in frames]
            if missing:
                raise ProbeError(f"want sections {', '.join(self.sections)}, found none of {', '.join(missing)}")
            return self.read(frames)
        except ProbeError as error:
            raise FactProcessError(str(error)) from error

    def read(self, frames: dict[str, Section]) -> dict[str, Any]:
        """The value, from the sections."""
        raise NotImplementedError


def bash(script: ProbeScript) -> StringCommand:
    """The script as one command line."""
    return StringCommand("bash", "-c", QuoteString(script.text))
