"""What would change on a node, in words and as file differences. Secrets are never in here, only that one changed."""

import difflib
import hashlib
import re
from typing import Any, Literal

from fleet.frozen import Frozen
from fleet.nodes.node import Installed, NodeFacts, OwnFile
from fleet.plan import Plan
from fleet.releases.command import STATE, unit_name
from fleet.releases.current import capacity_words, current_document
from fleet.releases.release import ENV, PATCHES, PLAN, SECRETS, UNIT, Release, plan_document

Kind = Literal["none", "create", "update", "repair", "tidy", "start", "rejoin", "remove"]

MEANING: dict[Kind, str] = {
    "none": "as declared",
    "create": "first release on this node",
    "update": "new release",
    "repair": "same release, but its files, enablement or secrets on the node differ",
    "tidy": "same release and process; files that no engine reads are put right, nothing restarts",
    "start": "same release, but it does not run",
    "rejoin": "same release; starts anew with the other hosts of its engine",
    "remove": "no longer declared",
}


class FileDiff(Frozen):
    """A unified diff of one file of ours. `before` None: the file is not there."""

    path: str
    before: str | None
    after: str | None

    def lines(self) -> list[str]:
        """The unified diff; empty where nothing differs."""
        old, new = _lines(self.before or ""), _lines(self.after or "")
        names = (
            self.path if self.before is not None else "/dev/null",
            self.path if self.after is not None else "/dev/null",
        )
        return list(difflib.unified_diff(old, new, *names, lineterm=""))


def _lines(text: str) -> list[str]:
    """What newlines end. Other characters that Python takes for the end of a line stand inside of a value."""
    return text.removesuffix("\n").split("\n") if text else []


class Change(Frozen):
    """What one run would do to one service on one node."""

    node: str
    service: str
    kind: Kind
    words: tuple[str, ...] = ()
    capacity: tuple[str, ...] = ()
    """What it means for the KV pool and the requests that it keeps; predicted."""
    files: tuple[FileDiff, ...] = ()

    @property
    def restarts(self) -> bool:
        """Does this change touch the running engine?"""
        return self.kind not in ("none", "tidy")

    def __str__(self) -> str:
        return f"{self.node}/{self.service}: {self.kind} ({MEANING[self.kind]})"


def flags_of(argv: list[str]) -> dict[str, str]:
    """argv as flag -> its words, for a difference flag by flag. Words before the first flag are under `command`."""
    flags: dict[str, list[str]] = {"command": []}
    name = "command"
    for word in argv:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            flags[name] = [value] if equals else []
        else:
            flags[name].append(word)
    return {name: " ".join(words) for name, words in flags.items()}


def _compare(what: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    words = []
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            words.append(f"{what} {name}: added {new[name]!s}".rstrip())
        elif name not in new:
            words.append(f"{what} {name}: removed (was {old[name]!s})")
        elif old[name] != new[name]:
            words.append(f"{what} {name}: {old[name]!s} -> {new[name]!s}")
    return words


def plan_words(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, ...]:
    """Two plan.json documents compared in words: layout, image, engine flags, env, container flags."""
    flags = [flags_of(document.get("argv") or []) for document in (old, new)]
    by_flag = {"port"} if any("--port" in known for known in flags) else set()  # told once, as its flag
    for document, known in zip((old, new), flags, strict=True):
        known["command"] = known["command"].removesuffix(f" {document.get('model')}")  # told once, as the model
    top = {key: old.get(key) for key in ("model", "image", "engine", "port") if key not in by_flag}
    words = _compare("", top, {key: new.get(key) for key in top})
    words = [word.strip() for word in words]
    words += _compare("layout", old.get("layout") or {}, new.get("layout") or {})
    words += _compare("flag", *flags)
    words += _compare("env", old.get("env") or {}, new.get("env") or {})
    words += _compare("span", *({k: v for k, v in (d.get("span") or {}).items() if k != "digest"} for d in (old, new)))
    words += _compare("patch", *({p["name"]: p["digest"] for p in d.get("patches") or []} for d in (old, new)))
    container = [
        {word: "" for word in (document.get("command") or [])[: -max(len(document.get("argv") or []) - 1, 1)]}
        for document in (old, new)
    ]
    words += [f"container {word}: added" for word in container[1] if word not in container[0]]
    words += [f"container {word}: removed" for word in container[0] if word not in container[1]]
    return tuple(words)


def expected_files(release: Release) -> dict[str, tuple[str, str]]:
    """Path -> (mode, text) of every file of a release that lies on the node, secrets aside."""
    folder = f"{STATE}/{release.service}/releases/{release.id}"
    return {
        f"/etc/systemd/system/{unit_name(release.service)}": ("644", release.files[UNIT]),
        f"{folder}/{UNIT}": ("600", release.files[UNIT]),
        f"{folder}/{ENV}": ("600", release.files[ENV]),
        f"{folder}/{PLAN}": ("600", release.files[PLAN]),
    }


def _current_text(installed: Installed | None, name: str) -> str | None:
    """Text of a file of the release that is current on the node, by its name in the release's folder."""
    for file in installed.files if installed else ():
        if file.path.startswith(f"{STATE}/") and file.path.rpartition("/")[2] == name:
            return file.text
    return None


def _file_diffs(installed: Installed | None, release: Release) -> tuple[FileDiff, ...]:
    """What the node holds now against the release: the installed unit and env. plan.json is told in words instead."""
    held = {file.path: file for file in installed.files} if installed else {}
    unit = f"/etc/systemd/system/{unit_name(release.service)}"
    pairs = [(unit, held[unit].text if unit in held else None, release.files[UNIT])]
    env = f"{STATE}/{release.service}/current/{ENV}"
    pairs.append((env, _undeclared_masked(_current_text(installed, ENV), release), release.files[ENV]))
    diffs = (FileDiff(path=path, before=before, after=after) for path, before, after in pairs)
    return tuple(diff for diff in diffs if diff.before != diff.after)


_VARIABLE = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)=.*$", re.MULTILINE)


def _undeclared_masked(env: str | None, release: Release) -> str | None:
    """An env file without the values of variables that nobody declared: somebody may have put a secret there."""
    if env is None:
        return None
    declared = {match[1] for match in _VARIABLE.finditer(release.files[ENV])}
    return _VARIABLE.sub(lambda match: match[0] if match[1] in declared else f"{match[1]}=(not declared)", env)


def secret_words(installed: Installed | None, release: Release, digests: dict[str, str] | None) -> list[str]:
    """Secrets that are not on the node as they should be. `digests` None: their values are not known to this run."""
    held = installed.secrets if installed else {}
    if digests is None:
        return []
    words = [f"secret {name}: added" for name in sorted(set(digests) - set(held))]
    words += [f"secret {name}: removed" for name in sorted(set(held) - set(release.secret_names))]
    return words + [
        f"secret {name}: changed" for name in sorted(set(digests) & set(held)) if digests[name] != held[name]
    ]


class WrongFile(Frozen):
    """A file of the current release that is not as it was written. `read`: by the engine, which must start anew."""

    path: str
    problem: str
    read: bool
    diff: FileDiff | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def wrong_files(installed: Installed, release: Release) -> tuple[WrongFile, ...]:
    """Files of the current release whose text, mode or owner is not as it was written."""
    held: dict[str, OwnFile] = {file.path: file for file in installed.files}
    found = [
        _wrong(held.get(path), path, mode, text, release) for path, (mode, text) in expected_files(release).items()
    ]
    path = f"{STATE}/{release.service}/releases/{release.id}/{SECRETS}"
    if release.secret_names:
        found.append(_wrong(held.get(path), path, "600", None, release))
    elif path in held:
        found.append(WrongFile(path=path, problem="is no part of the release", read=False))
    if release.patched:
        path = f"{STATE}/{release.service}/releases/{release.id}/{PATCHES}"
        found.append(_wrong(held.get(path), path, "600", None, release))
    return tuple(one for one in found if one is not None)


def _wrong(file: OwnFile | None, path: str, mode: str, text: str | None, release: Release) -> WrongFile | None:
    """`text` None: a secret, whose content is compared by digest, or a record that an audit reads."""
    engine_reads = path.endswith((f"/{ENV}", f"/{SECRETS}")) or path.startswith("/etc/")
    if file is None:
        return WrongFile(path=path, problem="is missing", read=engine_reads)
    if text is not None and file.sha256 != hashlib.sha256(text.encode()).hexdigest():
        before = _undeclared_masked(file.text, release) if path.endswith(f"/{ENV}") else file.text
        diff = FileDiff(path=path, before=before, after=text) if before is not None else None
        return WrongFile(path=path, problem="was changed on the node", read=engine_reads, diff=diff)
    if (file.mode, file.owner) != (mode, "root:root"):
        problem = f"want {mode} root:root, found {file.mode} {file.owner}"
        return WrongFile(path=path, problem=problem, read=False)
    return None


def _state(installed: Installed) -> tuple[Kind, list[str]]:
    """Is the current release's unit running and enabled?"""
    unit = installed.unit
    if unit is None or unit.active != "active":
        found = unit.active if unit else "no unit"
        return "start", [f"unit: want active, found {found}"]
    if unit.enabled != "enabled":
        return "repair", [f"unit: want enabled, found {unit.enabled}"]
    return "none", []


def compare(plan: Plan, release: Release, secret_digests: dict[str, str] | None) -> Change:
    """What deploying `release` would change for this plan's node.

    `secret_digests`: name -> sha256(key of this run + value), computed like the probe computes them on the node;
    None where this run does not know the values.
    """
    installed = plan.installed

    def change(kind: Kind, words: list[str], files: bool = True) -> Change:
        diffs = _file_diffs(installed, release) if files else ()
        return Change(
            node=plan.node.name,
            service=plan.service.name,
            kind=kind,
            words=tuple(words),
            capacity=capacity_words(plan) if kind in ("create", "update") else (),
            files=diffs,
        )

    secrets = secret_words(installed, release, secret_digests)
    if installed is None or installed.current is None:
        return change("create", secrets)
    if installed.current != release.id:
        old = current_document(installed)
        words = plan_words(old, plan_document(plan)) if old else ("the old release's plan.json is unreadable",)
        return change("update", [*words, *secrets])
    if installed.pending is not None or installed.proven != release.id:
        return change("update", [f"release {release.id} was activated and never proved itself"])
    kind, unit_words = _state(installed)
    wrong = wrong_files(installed, release)
    if not wrong and not secrets:
        return change(kind, unit_words, files=False)
    harmless = kind == "none" and not secrets and not any(file.read for file in wrong)
    return change("tidy" if harmless else "repair", [*map(str, wrong), *secrets, *unit_words])


def removals(node: str, facts: NodeFacts, declared: frozenset[str]) -> tuple[Change, ...]:
    """Services that lie on the node and are no longer declared for it."""
    return tuple(
        Change(
            node=node,
            service=installed.name,
            kind="remove",
            words=(f"was release {installed.current}", "goes only with --data prune=true"),
            files=tuple(
                FileDiff(path=f.path, before=f.text, after=None) for f in installed.files if f.text is not None
            ),
        )
        for installed in facts.services
        if installed.name not in declared
    )
