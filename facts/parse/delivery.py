"""A node's answer to a delivery's look -> NodeLook."""

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import PurePosixPath

from facts.parse.delivered import read_verified
from facts.parse.frames import ProbeError, Section, parse_frames
from facts.parse.host import read_host
from facts.parse.runtime import parse_runtime
from facts.parse.services import parse_services
from facts.parse.stuck import stuck
from facts.script import ProbeScript
from fleet.delivery.delivery import FolderLook, NodeLook
from fleet.nodes.node import Installed
from fleet.releases.places import STATE

SECTIONS = ("host", "runtime", "services", "files", "units", "secrets", "delivered", "delivery")
_SIZE = re.compile(r"(there|staged|part) (.) ([0-9]+) (.+)")
_KINDS = {"absent", "folder", "mount", "symlink", "other"}


def parse_look(node: str, text: str, script: ProbeScript) -> NodeLook:
    """What the node told. ProbeError where it is not whole or a part of it cannot be read."""
    sections = parse_frames(text, script.nonce)
    for name in ("delivered", "delivery"):
        failure = sections[name].failure if name in sections else "the node never came to it"
        if failure:
            raise ProbeError(f"{name}: {failure}")
    services, error = parse_services(sections, [])
    if error:
        raise ProbeError(error)
    runtime = parse_runtime(sections.get("runtime", Section(text="", code=None)), script.request.runtime)
    told = _Told(sections["delivery"], read_verified(sections["delivered"]))
    return NodeLook(
        node=node,
        now=read_host(sections["host"])["now"],
        tools=frozenset(told.tools),
        folders=tuple(told.folders()),
        services=services,
        running=running(services),
        images=runtime.images,
        images_error=runtime.error,
        lease=told.lease,
    )


def running(services: tuple[Installed, ...]) -> dict[str, str]:
    """Every path that a running engine reads, and its service: by plan.json of the current release.

    ProbeError where that cannot be read: then it is not known what must be left alone.
    """
    paths: dict[str, str] = {}
    for service in services:
        if service.unit is None or service.unit.active in ("inactive", "failed"):
            continue
        plan = next((f.text for f in service.files if f.path.endswith("/plan.json") and f.path.startswith(STATE)), None)
        try:
            document = json.loads(plan or "")
        except ValueError:
            raise ProbeError(
                f"{service.name} runs, and what it reads is not known: its plan.json is not JSON"
            ) from None
        command = [str(word) for word in document.get("command") or ()]
        mounts = [word.partition(":")[0] for flag, word in pairwise(command) if flag == "--volume"]
        for path in (document.get("model"), *mounts):
            if isinstance(path, str) and path.startswith("/"):
                paths[str(PurePosixPath(path))] = service.name
    return paths


class _Told:
    """The lines of the section, by checkpoint."""

    def __init__(self, section: Section, verified: Mapping[str, str]) -> None:
        self.tools: list[str] = []
        self.lease: str | None = None
        self._verified = verified
        self._lines: dict[str, list[str]] = {}
        lines: list[str] | None = None
        for line in section.text.splitlines():
            word, _, value = line.partition(" ")
            if word == "tool":
                self.tools.append(value)
            elif word == "lease":
                self.lease = value
            elif word == "checkpoint":
                lines = self._lines.setdefault(value, [])
            elif lines is not None and line:
                lines.append(line)

    def folders(self) -> list[FolderLook]:
        return [self._folder(path, lines) for path, lines in self._lines.items()]

    def _folder(self, path: str, lines: list[str]) -> FolderLook:
        sizes: dict[str, dict[str, int]] = {"there": {}, "staged": {}, "part": {}}
        odd, beside, kind, free, disk, hindered = [], [], "", None, None, None
        for line in lines:
            word, _, value = line.partition(" ")
            if match := _SIZE.fullmatch(line):
                if match[2] == "f":
                    sizes[match[1]][match[4]] = int(match[3])
                elif match[1] == "there":
                    odd.append(match[4])
            elif word == "kind":
                kind = value
            elif word == "room" and re.fullmatch(r"[0-9]+ [0-9]+", value):
                free = int(value.split()[0])
            elif word == "stuck" and value.count("\t") == 2:
                hindered = stuck(value)[1]
            elif word == "disk" and value.isdigit():
                disk = int(value)
            elif word == "beside":
                beside.append(value)
            else:
                odd.append(line)
        if kind not in _KINDS:
            raise ProbeError(f"delivery: want the kind of {path}, found {kind!r}")
        return FolderLook.model_validate(
            {
                "path": path,
                "kind": kind,
                "verified": self._verified.get(path),
                "free_bytes": free,
                "disk": disk,
                "stuck": hindered,
                "there": sizes["there"],
                "odd": tuple(odd),
                "staged": sizes["staged"],
                "parts": sizes["part"],
                "beside": tuple(sorted(beside)),
            }
        )
