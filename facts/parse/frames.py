"""The frames around a probe's sections: `==NONCE NAME begin`, `==NONCE NAME end rc=N`, `==NONCE done` at the very end.

The nonce is random and new in each run, so nothing that a node prints can end a section or forge one.
"""

import re

from facts.parse.refusal import quoted
from fleet.frozen import Frozen
from fleet.nodes.node import NOT_IN_TIME

TIMED_OUT = 124
_MARK = re.compile(r"(done)|([a-z]+) begin|([a-z]+) end rc=([0-9]+)")


class ProbeError(ValueError):
    """The answer of a node is not whole, or does not say what every node must."""


class Section(Frozen):
    """What one section printed. `code` None: it had not ended when the probe's time was over."""

    text: str
    code: int | None

    @property
    def failure(self) -> str | None:
        """Why this section cannot be trusted, with what it printed; None where it ended with exit code 0."""
        if self.code == 0:
            return None
        ended = NOT_IN_TIME if self.code in (None, TIMED_OUT) else f"ended with exit code {self.code}"
        return f"{ended}: {quoted(self.text)}" if self.text.strip() else ended


def parse_frames(text: str, nonce: str) -> dict[str, Section]:
    """Section name -> what it printed. ProbeError where the output was cut off or a frame is out of place."""
    prefix = f"=={nonce} "
    sections: dict[str, Section] = {}
    name, lines, done = None, list[str](), False
    for line in text.split("\n"):
        match = _MARK.fullmatch(line, len(prefix)) if line.startswith(prefix) else None
        if match is None:
            lines.append(line)
            continue
        began, ended = match[2], match[3]
        if done or (ended and ended != name) or began in sections:
            raise ProbeError(f"the probe's frames are out of place at {quoted(line)}")
        if name is not None:
            code = int(match[4]) if ended else None
            sections[name] = Section(text="\n".join(lines), code=code)
        name, lines, done = began, [], bool(match[1])
    if not done:
        found = f"found {quoted(text[-200:])} at its end" if text.strip() else "found nothing"
        raise ProbeError(f"the probe's output was cut off: want its last line, {found}")
    return sections


def with_nonce(recording: str, nonce: str) -> str:
    """A recorded output under another run's nonce, so that it answers that run's script."""
    match = re.search(r"^==([0-9a-f]{16}) [a-z]+ begin$", recording, re.MULTILINE)
    if not match:
        raise ProbeError(f"want a recorded probe, found {quoted(recording)}")
    return re.sub(rf"^=={match[1]}(?= )", f"=={nonce}", recording, flags=re.MULTILINE)
