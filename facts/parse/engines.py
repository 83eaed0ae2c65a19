"""The sections `engines` and `reports` of an audit: every engine of a node, and what each reports of itself."""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from facts.parse.cgroups import unit_of
from facts.parse.frames import Section
from facts.parse.refusal import quoted
from fleet.nodes.running import EngineProcess, Mounted, Report, Running, RunningImage
from fleet.releases.command import unit_name

_STATUS = re.compile(r"HTTP/1\.[01] ([0-9]{3})")
_CONTAINER = re.compile(r"[0-9a-f]{64}")


class _Cut(ValueError):
    """The words ended, or one is not what it must be."""


@dataclass
class _Process:
    pid: int
    parent: int | None
    inner: int | None
    cgroup: str
    kind: str
    argv: tuple[str, ...]
    names: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    mounts: list[Mounted] = field(default_factory=list)


@dataclass
class _Told:
    """What the section said, before it is put together."""

    processes: dict[int, _Process] = field(default_factory=dict)
    images: dict[str, RunningImage] = field(default_factory=dict)
    """By the container's id."""
    names: dict[str, str] = field(default_factory=dict)
    """Container id -> container name, with docker."""

    def take(self, words: Iterator[str]) -> bool:
        """One record; False at the end."""
        word = next(words)
        if word == "process":
            one = _process(words)
            self.processes[one.pid] = one
        elif word == "container":
            container, _, digest, known = (next(words) for _ in range(4))
            names = _counted(words)
            self.images[container] = RunningImage(digest=digest or None, env_names=names if known == "known" else None)
        elif word == "docker":
            container, name, reference = (next(words) for _ in range(3))
            self.names[container] = name
            self.images[container] = RunningImage(digest=reference.partition("@")[2] or None, reference=reference)
        elif word in ("names", "env", "secret", "mount"):
            self._about(word, self.processes[int(next(words))], words)
        elif word != "end":
            raise _Cut(word)
        return word != "end"

    def _about(self, word: str, one: _Process, words: Iterator[str]) -> None:
        if word == "names":
            one.names = _counted(words)
        elif word == "env":
            one.env = dict(pair.split("=", 1) for pair in _counted(words))
        elif word == "secret":
            name, digest = next(words), next(words)
            one.secrets[name] = digest
        else:
            source, target, same, digest = (next(words) for _ in range(4))
            one.mounts.append(Mounted(source=source, target=target, same=same == "same", sha256=digest or None))


def _counted(words: Iterator[str]) -> tuple[str, ...]:
    return tuple(next(words) for _ in range(int(next(words))))


def _process(words: Iterator[str]) -> _Process:
    pid, parent, inner, cgroup, kind = (next(words) for _ in range(5))
    argv = _counted(words)
    return _Process(int(pid), int(parent) if parent else None, int(inner) if inner else None, cgroup, kind, argv)


def parse_engines(section: Section, reports: Section) -> Running:
    """Every engine of the node. `error` where the section cannot be read; reports that failed have no status."""
    if section.failure:
        return Running(error=section.failure)
    told = _Told()
    try:
        raw = base64.b64decode(section.text.strip(), validate=True).decode("utf-8", errors="replace")
        words = iter(raw.split("\0"))
        while told.take(words):
            pass
    except (binascii.Error, ValueError, KeyError, RuntimeError, StopIteration) as error:
        return Running(error=f"want the processes of the node, found {quoted(section.text)} ({error})")
    answers = _reports(reports)
    engines = [one for one in told.processes.values() if one.kind == "engine" and not _belongs_to_another(one, told)]
    return Running(engines=tuple(_engine(one, told, answers) for one in sorted(engines, key=lambda one: one.pid)))


def _belongs_to_another(one: _Process, told: _Told) -> bool:
    """A child of an engine in the same cgroup is one of its workers."""
    parent = told.processes.get(one.parent or 0)
    return parent is not None and parent.kind == "engine" and parent.cgroup == one.cgroup


def _engine(one: _Process, told: _Told, answers: dict[str, list[Report]]) -> EngineProcess:
    unit = unit_of(one.cgroup, told.names)
    client = next((p for p in told.processes.values() if p.kind == "client" and unit and _unit(p, told) == unit), None)
    start = next((at for at, word in enumerate(one.argv) if word.rpartition("/")[2] == "vllm"), 0)
    return EngineProcess(
        pid=one.pid,
        unit=unit,
        argv=("vllm", *one.argv[start + 1 :]) if start else one.argv,
        env=one.env,
        env_names=tuple(sorted(one.names)),
        secrets=one.secrets,
        command=client.argv if client else None,
        image=_image(one, told),
        mounts=tuple(one.mounts),
        reports=tuple(answers.get(unit or "", ())),
    )


def _unit(one: _Process, told: _Told) -> str | None:
    return unit_of(one.cgroup, told.names)


def _image(one: _Process, told: _Told) -> RunningImage | None:
    """By the container's id: in the process's own cgroup, or in the words of the conmon that is its parent."""
    parent = told.processes.get(one.parent or 0)
    places = [one.cgroup, *(parent.argv if parent and parent.kind == "monitor" else ())]
    ids = (match[0] for place in places for match in _CONTAINER.finditer(place))
    return next((told.images[found] for found in ids if found in told.images), None)


def _reports(section: Section) -> dict[str, list[Report]]:
    """Unit -> what its engine answered. What was cut off has no status."""
    found: dict[str, list[Report]] = {}
    head: tuple[str, str] | None = None
    for line in section.text.splitlines():
        words = line.split(" ")
        if len(words) == 3 and words[0] == "report":
            head = (unit_name(words[1]), words[2])
        elif head is not None and line.strip():
            if not line.startswith("exit "):
                found.setdefault(head[0], []).append(_report(head[1], line))
            elif all(one.path != head[1] for one in found.setdefault(head[0], [])):
                found[head[0]].append(Report(path=head[1]))
    return found


def _report(path: str, line: str) -> Report:
    try:
        text = base64.b64decode(line.strip(), validate=True).decode("utf-8", errors="replace")
    except ValueError:  # binascii.Error, or letters that are no ASCII
        return Report(path=path)
    head, _, body = text.replace("\r", "").partition("\n")
    status = _STATUS.match(head)
    if status is None:
        return Report(path=path)
    body = body.split("\n\n", 1)[-1] if "\n\n" in body else body
    return Report(path=path, status=int(status[1]), body=body.strip())
