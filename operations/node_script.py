"""The node's own script: its text, its digest, and the one text that brings files and calls to a node over stdin.

Nothing that is sent here stands in an argv on the node: `Apply.command` is always the same, all else goes over stdin.
"""

import hashlib
import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from pydantic import Field

from fleet.frozen import Frozen
from fleet.nodes.node import NodeFacts
from fleet.releases.places import NODE_SCRIPT

_HERE = Path(__file__).parent
_TEMPLATES = _HERE.parent / "templates"
_UNITS = (
    "vllm-fleet-undo@.service",
    "vllm-fleet-undo@.timer",
    "vllm-fleet-boot.service",
    "vllm-fleet-heartbeat@.service",
    "vllm-fleet-heartbeat@.timer",
    "vllm-fleet-follow@.service",
)
_END = "# the end, whole"

Files = Mapping[str, tuple[str, str]]
"""Path or name -> (mode in octal as `stat -c %a` prints it, text)."""


class Call(Frozen):
    """One verb of the node script with its arguments, and what the verb reads from stdin."""

    words: tuple[str, ...] = Field(min_length=1)
    stdin: str = Field(default="", repr=False)

    def held_by(self, run: str) -> "Call":
        """The same call, refused where the lock of the node is not that run's."""
        return self.model_copy(update={"words": ("holding", run, *self.words)})


class Apply(Frozen):
    """What is run on a node: a fixed command without any data, and the text that it reads and carries out."""

    command: str
    stdin: str = Field(repr=False)


class Reply(Frozen):
    """What one call answered. `code` is None where the answer was cut off: the connection broke, or the node died."""

    words: tuple[str, ...] = ()
    code: int | None = None
    values: dict[str, str] = {}
    """The `key=value` lines; of a key that came twice, the last."""
    notes: tuple[str, ...] = ()
    """How it went, for an operator."""
    journal: tuple[str, ...] = ()
    """The engine's last lines, where it failed."""
    other: tuple[str, ...] = ()

    @property
    def error(self) -> str | None:
        """Why it failed, in words; None where it did not."""
        if self.code == 0:
            return None
        cut = "the answer was cut off" if self.code is None else f"exit code {self.code}"
        return self.values.get("error") or " ".join((cut, *self.other))


@cache
def node_script() -> str:
    """The bash text of /usr/local/lib/vllm-fleet/node: the files of operations/node/ in the order of their names."""
    return _parts("*.sh")


@cache
def _lock_script() -> str:
    """What the verbs of a lock need of it: a fifth, for a node reads it twice a rollout."""
    return "".join(map(_parts, ("10-ground.sh", "20-lock.sh", "90-main.sh")))


def _parts(pattern: str) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((_HERE / "node").glob(pattern)))


def node_script_sha256() -> str:
    """Hex digest of the script as it lies on a node."""
    return _sha256(node_script())


@cache
def support_files() -> dict[str, tuple[str, str]]:
    """What a node needs before its first release: the script, and the units that undo without a controller."""
    units = {f"/etc/systemd/system/{name}": ("644", (_TEMPLATES / name).read_text(encoding="utf-8")) for name in _UNITS}
    return {NODE_SCRIPT: ("755", node_script()), **units}


@cache
def _support_marks() -> dict[str, tuple[str, str, str]]:
    """Path -> digest, mode and owner of each support file as it should be."""
    return {path: (_sha256(text), mode, "root:root") for path, (mode, text) in support_files().items()}


def outdated_support(facts: NodeFacts) -> dict[str, tuple[str, str]]:
    """The support files that are missing on a node, or are not as they should be."""
    there = {file.path: (file.sha256, file.mode, file.owner) for file in facts.support_files}
    if facts.node_script_sha256 is not None:
        there.setdefault(NODE_SCRIPT, (facts.node_script_sha256, "755", "root:root"))
    wanted = support_files()
    return {path: wanted[path] for path, mark in _support_marks().items() if there.get(path) != mark}


def stage_call(service: str, release: str, files: Files) -> Call:
    """The call that stages a release. `files` by name: unit, env, secrets.env, plan.json. plan.json goes last."""
    names = sorted(files, key=lambda name: (name == "plan.json", name))
    texts = {name: files[name][1].encode() for name in names}
    if nul := [name for name in names if b"\0" in texts[name]]:
        raise ValueError(f"{service} {release}: want text without NUL bytes, found one in {', '.join(nul)}")
    head = "".join(
        f"{name} {files[name][0]} {hashlib.sha256(texts[name]).hexdigest()} {len(texts[name])}\n" for name in names
    )
    body = "".join(files[name][1] for name in names)
    return Call(words=("stage", service, release), stdin=f"{head}\n{body}end\n")


def call_command(words: Iterable[str]) -> str:
    """The shell text of one call that reads nothing, of a script that is in place."""
    return shlex.join((NODE_SCRIPT, *words))


def lock_call(words: Iterable[str]) -> Apply:
    """A call of `lock`, `renew` or `unlock`, whose part of the script is carried along: it need not be in place."""
    return Apply(command=shlex.join(("exec", "bash", "-c", _LOADER, "node", *words)), stdin=f"{_lock_script()}{_END}\n")


def apply_command(files: Files, calls: Iterable[Call]) -> Apply:
    """One SSH channel's work: put `files` (absolute paths) in place, then make the calls until one fails.

    The text is carried out only when its last line arrived. Raises ValueError where a text holds a NUL byte.
    """
    lines = [(_HERE / "apply.sh").read_text(encoding="utf-8")]
    for path, (mode, text) in files.items():
        lines.append(_line("put", path, mode, _sha256(text), text))
    if files:
        lines.append("appear")
    if any(path.startswith("/etc/systemd/system/") for path in files):
        lines.append("support_ready")
    for index, call in enumerate(calls):
        source = f"<<<{shlex.quote(call.stdin)}" if call.stdin else "</dev/null"
        lines.append(f"{_line('call', str(index), *call.words)} {source}")
    stdin = "\n".join([*lines, _END, ""])
    if "\0" in stdin:
        raise ValueError("want text without NUL bytes in what is sent to a node")
    return Apply(command=shlex.join(("exec", "bash", "-c", _LOADER)), stdin=stdin)


def read_replies(lines: Iterable[str], calls: Iterable[Call]) -> list[Reply]:
    """The answers to `calls`, in order, from the lines that the node printed. What was never begun has no reply.

    Where putting the files failed, or the connection broke before the first call, one reply without words tells it.
    """
    words = [call.words for call in calls]
    replies: list[Reply] = []
    index, code, block = -1, None, list[str]()

    def close() -> None:
        if index >= 0 or code is not None or any(line.startswith("error=") for line in block):
            replies.append(_reply(words[index] if index >= 0 else (), code, block))

    for line in lines:
        if line.startswith("@begin "):
            close()
            index, code, block = int(line.split()[1]), None, []
        elif line.startswith("@end ") and index >= 0:
            code = int(line.split()[2])
        else:
            block.append(line)
    close()
    return replies


def read_reply(lines: Iterable[str], words: Iterable[str], code: int | None) -> Reply:
    """The answer to a single `call_command`, whose exit code came from the channel."""
    return _reply(tuple(words), code, list(lines))


def _reply(words: tuple[str, ...], code: int | None, lines: list[str]) -> Reply:
    values, notes, journal, other = dict[str, str](), list[str](), list[str](), list[str]()
    for line in lines:
        key, equals, value = line.partition("=")
        if line.startswith("# "):
            notes.append(line[2:])
        elif line.startswith("| "):
            journal.append(line[2:])
        elif equals and key.isidentifier():
            values[key] = value
        elif line:
            other.append(line)
    return Reply(words=words, code=code, values=values, notes=tuple(notes), journal=tuple(journal), other=tuple(other))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _line(name: str, *words: str) -> str:
    """The one place where values become shell words."""
    return shlex.join((name, *words))


# Read whole before anything is done: half a text must not be carried out. Here-strings stay off the disk.
_LOADER = (
    f"export TMPDIR=/run; text=$(cat); [[ $text == *{shlex.quote(_END)} ]] || "
    "{ echo 'error=what was sent to the node arrived cut off; nothing was done'; exit 1; }; eval \"$text\""
)
