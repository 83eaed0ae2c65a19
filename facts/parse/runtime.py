"""The sections `runtime`, `ports` and `disks`: what the container runtime holds, who listens, how much room is left."""

import json
import re
from typing import Literal

from facts.parse.cgroups import unit_of
from facts.parse.frames import Section
from facts.parse.refusal import quoted
from fleet.nodes.node import Disk, Image, Port, Runtime

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ABSENT = re.compile(r"no such image|image not known|no such object", re.IGNORECASE)
ENGINE_LABEL = "org.vllm-fleet.engine"
_CUDA = re.compile(r"(?:CUDA_VERSION|cuda)=([0-9]{1,3}(?:\.[0-9]{1,4}){0,3})")
_USER = re.compile(r'\("((?:[^"\\]|\\.)*)",pid=([0-9]{1,10}),fd=[0-9]+\)')


def parse_runtime(section: Section, name: Literal["podman", "docker"]) -> Runtime:
    """The runtime and the images that it holds; of the wanted ones also their engine label.

    `version` stays None where the image store answered: then the runtime was not started at all. A wanted image that is
    not in `images` is certainly absent, unless `error` is set.
    """
    listed: list[Image] = []
    wanted: dict[str, list[str]] = {}
    blocks: list[str] | None = None
    errors = [section.failure] if section.failure else []
    for line in section.text.splitlines():
        word, _, value = line.partition(" ")
        if word == "missing":
            errors.append(f"no executable {value}")
        elif word == "image":
            blocks = wanted.setdefault(value, [])
        elif blocks is not None and line.strip():
            blocks.append(line)
        elif word == "listed":
            listed += _listed(value)
        elif line.strip():
            errors.append(f"want a line about images, found {quoted(line)}")
    found = []
    for reference, lines in wanted.items():
        image, error = _wanted(reference, lines)
        found += [image] if image else []
        errors += [error] if error else []
    asked = {image.digest for image in found}
    others = [image for image in listed if image.digest not in asked]
    return Runtime(name=name, images=(*found, *others), error="; ".join(errors) or None)


def _listed(value: str) -> list[Image]:
    """`sha256:... "name:tag","name@sha256:..."` as images by digest, one a name."""
    digest, _, names = value.partition(" ")
    if not _DIGEST.fullmatch(digest):
        return []
    plain = {_without_tag(name.strip().strip('"')) for name in names.split(",")} - {""}
    return [Image(reference=f"{name}@{digest}", digest=digest) for name in sorted(plain)]


def _without_tag(name: str) -> str:
    name = name.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name


def _wanted(reference: str, lines: list[str]) -> tuple[Image | None, str | None]:
    """One wanted image, by the store's line or the answer of `image inspect`. Neither image nor reason: absent."""
    digest = reference.rpartition("@")[2]
    if 0 < len(lines) < 3 and (match := re.fullmatch(r"stored ?(.*)", lines[0])):
        cuda = _CUDA.fullmatch(lines[1].replace(" ", "=", 1)) if len(lines) == 2 else None
        if len(lines) == 2 and cuda is None:
            return None, f"image {reference}: want its CUDA version, found {quoted(lines[1])}"
        return Image(reference=reference, digest=digest, engine=match[1] or None, cuda=cuda[1] if cuda else None), None
    answer, code = "\n".join(lines[:-1]), lines[-1] if lines else ""
    if code == "exit 0":
        try:
            end = json.JSONDecoder().raw_decode(answer)[1]
            labels, rest = json.JSONDecoder().raw_decode(answer[end:].lstrip())
            variable = json.loads(answer[end:].lstrip()[rest:]) if answer[end:].lstrip()[rest:].strip() else ""
        except (ValueError, TypeError, RecursionError):
            return None, f"image {reference}: want its digests and labels, found {quoted(answer)}"
        engine = labels.get(ENGINE_LABEL) if isinstance(labels, dict) else None
        cuda = _CUDA.fullmatch(variable) if isinstance(variable, str) else None
        told = {"engine": engine if isinstance(engine, str) else None, "cuda": cuda[1] if cuda else None}
        return Image(reference=reference, digest=digest, **told), None
    if _ABSENT.search(answer) and re.fullmatch(r"exit [0-9]+", code):
        return None, None
    return None, f"image {reference}: {quoted(answer) if answer.strip() else 'no answer'} ({code or 'cut off'})"


def parse_ports(section: Section) -> tuple[tuple[Port, ...], str | None]:
    """Who listens on which TCP port, and the reason where that is not known."""
    if section.failure:
        return (), f"ss: {section.failure}"
    cgroups: dict[str, str] = {}
    containers: dict[str, str] = {}
    listeners = []
    for line in section.text.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == "cgroup" and len(words) >= 2:
            cgroups[words[1]] = line.split(maxsplit=2)[2] if len(words) > 2 else ""
        elif words[0] == "container" and len(words) == 3:
            containers[words[1]] = words[2]
        elif words[0].isdecimal() and len(words) >= 4 and (port := re.search(r":([0-9]{1,5})$", words[2])):
            listeners.append((int(port[1]), _USER.findall(line)))
        else:
            return (), f"ss: want a listening socket, found {quoted(line)}"
    ports: dict[tuple[int, str | None, str | None], Port] = {}
    for number, users in listeners:
        for process, pid in users or [(None, None)]:
            unit = unit_of(cgroups.get(pid or "", ""), containers)
            held = Port(port=number, process=process, pid=int(pid) if pid else None, unit=unit)
            ports.setdefault((number, process, unit), held)
    return tuple(sorted(ports.values(), key=lambda held: (held.port, held.pid or 0))), None


def parse_disks(section: Section) -> tuple[Disk, ...]:
    """Room of each wanted path, in bytes, on the file system of its nearest existing folder."""
    folders: dict[str, str] = {}
    sizes: dict[str, tuple[int, int]] = {}
    path = None
    for line in section.text.splitlines():
        if line.startswith("path "):
            path = line.removeprefix("path ")
        elif line.startswith("folder ") and path:
            folders[path] = line.removeprefix("folder ")
        elif match := re.fullmatch(r"([0-9]{1,18}) ([0-9]{1,18}) ([0-9]{1,18}) (/.*)", line):
            block = int(match[1])
            sizes[match[4]] = (int(match[2]) * block, int(match[3]) * block)
    if not folders:
        return (Disk(path="/", error=section.failure or f"want paths, found {quoted(section.text)}"),)
    disks = []
    for wanted, folder in folders.items():
        if folder in sizes:
            total, free = sizes[folder]
            disks.append(Disk(path=wanted, total_bytes=total, free_bytes=free))
        else:
            disks.append(Disk(path=wanted, error=section.failure or f"stat -f told nothing about {folder}"))
    return tuple(disks)
