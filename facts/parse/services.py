"""The sections `services`, `files`, `units` and `secrets` -> Installed, one for each service that lies on the node."""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from facts.parse.frames import Section
from facts.parse.refusal import quoted
from fleet.nodes.node import Installed, OwnFile, Pending, Unit
from fleet.releases.places import STATE, unit_name

_ID = re.compile(r"[0-9a-f]{16}")
_STAT = re.compile(r"([0-7]{1,4}) (\S+:\S+) ([0-9]{1,18}) (.+?) (/\S+)")
_LARGEST_TEXT = 65536
SECRETS_FILE = "secrets.env"
_YES_NO = {"yes": True, "no": False}
_INVOCATION = re.compile(r"[0-9a-f]{32}")


class PartError(ValueError):
    """A section that cannot be read; the message has the text that was found."""


@lru_cache(maxsize=64)  # two parts of an answer ask for the same files
def parse_files(section: Section) -> Mapping[str, OwnFile]:
    """Path -> the file. PartError where the section failed or its two halves do not fit."""
    if section.failure:
        raise PartError(f"files: {section.failure}")
    if not section.text.strip():
        return {}
    head, _, body = section.text.partition("\n\n")
    try:
        contents = base64.b64decode(body.strip(), validate=True).split(b"\0")[:-1]
    except ValueError as error:  # binascii.Error, or letters that are no ASCII
        raise PartError(f"files: want base64, found {quoted(body)} ({error})") from None
    stats = head.splitlines()
    odd = next((line for line in stats if not _STAT.fullmatch(line)), None)
    if odd is not None:
        raise PartError(f"files: want a line of stat, found {quoted(odd)}")
    if len(contents) != len(stats):
        raise PartError(f"files: want {len(stats)} contents, found {len(contents)}")
    files = (_own_file(line, content) for line, content in zip(stats, contents, strict=True))
    return {file.path: file for file in files}


@lru_cache(maxsize=512)
def _own_file(stat: str, content: bytes) -> OwnFile:
    """A file that was read whole has its digest; that of a link, a secret, a large or a binary file is empty.

    `stat` is of the form of _STAT. Remembered by its value: most files are the same on all nodes.
    """
    match = _STAT.fullmatch(stat)
    assert match is not None
    mode, owner, size, kind, path = match.groups()
    whole = kind.startswith("regular") and not path.endswith(f"/{SECRETS_FILE}") and len(content) == int(size)
    text = None
    if whole and len(content) <= _LARGEST_TEXT:
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            text = None
    return OwnFile(
        path=path,
        sha256=hashlib.sha256(content).hexdigest() if whole else "",
        mode=mode,
        owner=owner,
        text=text,
    )


def parse_units(section: Section) -> dict[str, Unit]:
    """Unit name -> its state. PartError where systemctl failed or left a property out."""
    if section.failure:
        raise PartError(f"systemctl show: {section.failure}")
    units = {}
    for block in re.split(r"\n{2,}", section.text.strip()):
        if not block.strip():
            continue
        told = dict(line.partition("=")[::2] for line in block.splitlines())
        try:
            units[told["Id"]] = Unit(
                name=told["Id"],
                load=told["LoadState"],
                active=told["ActiveState"],
                sub=told["SubState"],
                enabled=told["UnitFileState"],
                main_pid=int(told["MainPID"]) or None if told["Id"].endswith(".service") else None,
                restarts=int(told["NRestarts"]) if told["Id"].endswith(".service") else None,
                active_since=told["ActiveEnterTimestamp"] or None,
                invocation=told.get("InvocationID") or None,
                drop_ins=tuple(told.get("DropInPaths", "").split()),
                fragment=told.get("FragmentPath") or None,
                stale=_YES_NO.get(told.get("NeedDaemonReload", "")),
            )
        except (KeyError, ValueError) as error:
            raise PartError(f"systemctl show: want {error} of each unit, found {quoted(block)}") from None
    return units


def parse_secrets(section: Section) -> tuple[dict[str, dict[str, str]], frozenset[str]]:
    """Service -> name -> keyed digest, and the services whose secrets.env is not as we write it."""
    if section.failure:
        raise PartError(f"secrets: {section.failure}")
    found: dict[str, dict[str, str]] = {}
    unreadable = set()
    for line in section.text.splitlines():
        if match := re.fullmatch(r"([a-z][a-z0-9-]*) ([A-Za-z_][A-Za-z0-9_]*) ([0-9a-f]{64})  -", line):
            found.setdefault(match[1], {})[match[2]] = match[3]
        elif match := re.fullmatch(r"unreadable ([a-z][a-z0-9-]*)", line):
            unreadable.add(match[1])
        elif line.strip():
            raise PartError(f"secrets: want `SERVICE NAME DIGEST`, found {quoted(line)}")
    return found, frozenset(unreadable)


def parse_services(sections: Mapping[str, Section], asked: Iterable[str]) -> tuple[tuple[Installed, ...], str | None]:
    """What lies on the node, in name order, and the reason where that is not known.

    A declared service without a state folder is told of too where a unit of its name is there: it would be overwritten.
    """
    try:
        state = _state(sections["services"])
        files = parse_files(sections["files"])
        units = parse_units(sections["units"])
        secrets, unreadable = parse_secrets(sections["secrets"])
    except PartError as error:
        return (), str(error)
    except KeyError as error:
        return (), f"the probe has no section {error}"
    for name in asked:
        if f"/etc/systemd/system/{unit_name(name)}" in files:
            state.setdefault(name, [])
    return tuple(
        _installed(name, state[name], files, units, secrets.get(name, {}), name in unreadable) for name in sorted(state)
    ), None


def _state(section: Section) -> dict[str, list[tuple[str, str]]]:
    """Service -> its words and values."""
    if section.failure:
        raise PartError(f"services: {section.failure}")
    state: dict[str, list[tuple[str, str]]] = {}
    name = None
    for line in section.text.splitlines():
        word, blank, value = line.partition(" ")
        if word == "service" and value not in state:
            name = value
            state[name] = []
        elif (
            name is not None
            and blank
            and word in ("release", "current", "proven", "previous", "pending", "started", "mounted")
        ):
            state[name].append((word, value))
        elif line.strip() and word != "none":
            raise PartError(f"services: want a word and its value, found {quoted(line)}")
    return state


def _installed(
    name: str,
    words: list[tuple[str, str]],
    files: Mapping[str, OwnFile],
    units: Mapping[str, Unit],
    secrets: dict[str, str],
    unreadable: bool,
) -> Installed:
    told = dict(words)
    errors = ["secrets.env of the current release is not as it was written"] if unreadable else []
    ids: dict[str, str | None] = {}
    for word in ("current", "proven", "previous"):
        value = told.get(word)
        ids[word] = value if value is not None and _ID.fullmatch(value) else None
        if value is not None and ids[word] is None:
            errors.append(f"{STATE}/{name}/{word}: want a release id, found {quoted(value)}")
    pending, reason = _pending(told.get("pending"))
    if reason:
        errors.append(f"{STATE}/{name}/pending: {reason}")
    started = told.get("started", "")
    if started and not _INVOCATION.fullmatch(started):
        errors.append(f"{STATE}/{name}/started: want a unit's invocation, found {quoted(started)}")
    releases = tuple(sorted(value for word, value in words if word == "release"))
    current = ids["current"]
    if current and current not in releases:
        errors.append(f"the current release {current} has no plan.json: its folder is not complete")
    if unit_name(name) not in units:
        errors.append(f"systemctl told nothing about {unit_name(name)}")
    folder = f"{STATE}/{name}/releases/{current}/"
    unit_path = f"/etc/systemd/system/{unit_name(name)}"
    proof, verified = (files.get(f"{folder}{file}") for file in ("proof.json", "verify.json"))
    return Installed(
        name=name,
        current=current,
        proven=ids["proven"],
        previous=ids["previous"],
        pending=pending,
        started=started or None,
        mounted={path: digest for word, value in words if word == "mounted" for digest, path in [value.split(" ", 1)]},
        releases=releases,
        files=tuple(file for path, file in sorted(files.items()) if path == unit_path or path.startswith(folder)),
        secrets=secrets,
        unit=units.get(unit_name(name)),
        proof=proof.text if proof else None,
        verified=verified.text if verified else None,
        error="; ".join(errors) or None,
    )


def _pending(value: str | None) -> tuple[Pending | None, str | None]:
    if value is None:
        return None, None
    match = re.fullmatch(r"([0-9a-f]{16}) ([0-9]{1,12}) ([0-9]{1,12}) (\S+)", value)
    if not match:
        return None, f"want `ID SINCE DEADLINE RUN`, found {quoted(value)}"
    return Pending(release=match[1], since=int(match[2]), deadline=int(match[3]), run=match[4]), None
