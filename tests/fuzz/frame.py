"""What makes a function a target of the fuzzer, and the real outputs that it begins with.

A target takes any text. It may raise only the error that its parser names; it must end; and what it did not understand
must be told, never passed over.
"""

import re
from collections.abc import Callable
from pathlib import Path

from facts.parse.frames import Section
from facts.script import ProbeScript
from fleet.nodes.request import ProbeRequest, ServiceRequest

ROOT = Path(__file__).resolve().parents[2]
ANSWER = ROOT / "tests" / "facts" / "answers" / "a1.txt"
NONCE = "0123456789abcdef"
MODEL = "/srv/models/glm-dsa-78"
ASKED = ServiceRequest(name="chat", model=MODEL, image="localhost/vllm@sha256:" + "ab" * 32, port=8000)
SCRIPT = ProbeScript(text="", nonce=NONCE, request=ProbeRequest(services=(ASKED,), secret_key="key", deep=True))

Check = Callable[[str], None]
TARGETS: dict[str, tuple[Check, tuple[str, ...], tuple[str, ...]]] = {}
"""Name -> the check, the sections of a real answer that seed it, and further texts that do."""


def target(*sections: str, texts: tuple[str, ...] = ()) -> Callable[[Check], Check]:
    """Make a function a target, by its own name."""

    def enter(check: Check) -> Check:
        TARGETS[check.__name__] = (check, sections, texts)
        return check

    return enter


def seeds(name: str) -> list[str]:
    """Real texts for a target: its sections in the answers of recorded nodes, whole answers where it names none."""
    texts = [ANSWER.read_text(), *(path.read_text() for path in sorted(ROOT.glob("inventory/recorded/*.probe")))]
    _, sections, own = TARGETS[name]
    if not sections:
        return list(own) or texts
    pattern = re.compile(rf"==({NONCE}) ([a-z]+) begin\n(.*?)\n==\1 \2 end rc=[0-9]+\n", re.DOTALL)
    return [*own, *(match[3] for text in texts for match in pattern.finditer(text) if match[2] in sections)]


def section(text: str, code: int | None = 0) -> Section:
    """A section that ended well unless the text begins with `!`: then it failed."""
    return Section(text=text[1:], code=1) if text.startswith("!") else Section(text=text, code=code)


def told(error: str | None, text: str, found: object) -> None:
    """A section that failed, or told nothing of what it is for, says why."""
    assert error or (found and not text.startswith("!")), f"nothing was found and nothing is said about {text[:80]!r}"
