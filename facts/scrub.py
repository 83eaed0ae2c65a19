"""What a recording must not hold: secrets, serial numbers, identifiers of devices and of a boot.

Everything is replaced by text of the same length, so that sizes which the probe tells still fit.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable

from facts.parse.frames import with_nonce
from fleet.frozen import Frozen
from fleet.nodes.request import ProbeRequest

NONCE = "0123456789abcdef"
_BEGIN = re.compile(r"==[0-9a-f]{16} ([a-z]+) begin")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{2,}={0,2}")
_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_SERIAL = re.compile(r"(?i)(serial(?: number)?\s*[:=]\s*)(\S+)")
_BOOT = re.compile(r"^boot_id=.*\n", re.MULTILINE)
_VARIABLE = re.compile(rb'^([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"$', re.MULTILINE)
_REQUEST = "request "


class RecordingError(ValueError):
    """A file is no recording, or not one that tells what was asked."""


class Recording(Frozen):
    """What a node answered, and to which request."""

    request: ProbeRequest
    text: str


def scrubbed(answer: str, secrets: Iterable[str] = ()) -> str:
    """A probe's answer under a fixed nonce, without secrets, serial numbers, identifiers and the boot's id."""
    values = sorted({value for value in secrets if value}, key=len, reverse=True)
    section, lines = "", []
    for line in _BOOT.sub("", answer).split("\n"):
        if match := _BEGIN.fullmatch(line):
            section = match[1]
        lines.append(_line(section, line, values))
    return with_nonce("\n".join(lines), NONCE).rstrip("\n") + "\n"


def _line(section: str, line: str, values: list[str]) -> str:
    if _BASE64.fullmatch(line):
        try:
            content = base64.b64decode(line, validate=True)
        except binascii.Error:
            content = b""
        clean = _content(section, content, values)
        if clean != content:  # a word that only looks like base64 stays as it is
            return base64.b64encode(clean).decode()
    for value in values:
        line = line.replace(value, "*" * len(value))
    line = _UUID.sub(lambda match: f"{match[1]}-{'*' * (len(match[0]) - 4)}", line)
    return _SERIAL.sub(lambda match: match[1] + "*" * len(match[2]), line)


def _content(section: str, content: bytes, values: list[str]) -> bytes:
    for value in values:
        content = content.replace(value.encode(), b"*" * len(value.encode()))
    if section != "files":
        return content
    files = content.split(b"\0")
    known = {name for file in files for name in _planned(file)}
    return b"\0".join(_VARIABLE.sub(_starred(known), file) for file in files)


def _planned(file: bytes) -> set[str]:
    """Names of the variables of a plan.json; none of another file. A variable of no plan may be anything."""
    try:
        document = json.loads(file)
    except ValueError:
        return set()
    env = document.get("env") if isinstance(document, dict) else None
    return set(env) if isinstance(env, dict) else set()


def _starred(known: set[str]) -> Callable[[re.Match[bytes]], bytes]:
    def star(match: re.Match[bytes]) -> bytes:
        return match[0] if match[1].decode() in known else match[1] + b'="' + b"*" * len(match[2]) + b'"'

    return star


def recorded(answer: str, request: ProbeRequest, secrets: Iterable[str] = ()) -> str:
    """The text of a recording: what was asked, without the key of that run, and the scrubbed answer."""
    asked = request.model_copy(update={"secret_key": ""}).model_dump_json()
    return f"{_REQUEST}{asked}\n{scrubbed(answer, secrets)}"


def read_recording(text: str) -> Recording:
    """A recording's parts. Raises RecordingError."""
    first, _, rest = text.partition("\n")
    try:
        request = ProbeRequest.model_validate_json(first.removeprefix(_REQUEST))
    except ValueError:
        raise RecordingError(f"want a recording that begins with its request, found {first[:80]!r}") from None
    return Recording(request=request, text=rest)
