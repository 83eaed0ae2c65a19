"""Source changes to the engine: where an anchor stands in a file, and what our own fragment does there.

A patch is bound to the bytes of the files that it was written for. Any other bytes, an anchor that is not there or is
there twice, or two patches that want the same lines: refused, with the place.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from textwrap import dedent
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fleet.frozen import Frozen

PATCH_NAME = re.compile(r"[a-z][a-z0-9-]{0,60}")
_VERSION = re.compile(r"\d+\.\d+\.\d+(\.post\d+|rc\d+)?")
_FILE = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_.-]+)*\.py")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class PatchError(ValueError):
    """A patch does not apply: which, in which file, and why."""


def _path(value: str) -> str:
    if not _FILE.fullmatch(value) or ".." in value:
        raise ValueError(f"want a Python file below the image's packages, such as vllm/envs.py, found {value!r}")
    return value


def _some_line(value: str) -> str:
    if not dedent(value).strip():
        raise ValueError(f"want whole lines of the engine's file, found {value!r}")
    return value


def _sums(value: dict[str, str]) -> dict[str, str]:
    for version, digest in value.items():
        if not _VERSION.fullmatch(version):
            raise ValueError(f"want full engine versions such as 0.30.0, found {version!r}")
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"want 64 hex digits for {version}, found {digest!r}")
    return value


class Edit(Frozen):
    """One change: the anchor is whole lines, found by their text at whatever indentation; exactly once in the file."""

    anchor: Annotated[str, AfterValidator(_some_line)]
    place: Literal["after", "before", "instead"] = "after"
    fragment: str
    """Our own lines; they get the anchor's indentation."""


class FilePatch(Frozen):
    """What is changed in one file of the engine. `path` is below the image's packages: `vllm/...`."""

    path: Annotated[str, AfterValidator(_path)]
    sha256: Annotated[dict[str, str], AfterValidator(_sums), Field(min_length=1)]
    """Engine version -> SHA-256 of the file as that version ships it."""
    edits: tuple[Edit, ...] = Field(min_length=1)


class Patch(Frozen):
    """One source change to the engine, as `patches/VERSION/NAME/patch.yaml` states it."""

    name: str
    why: Annotated[str, Field(min_length=8)]
    tested: Annotated[str, Field(min_length=8)]
    """What was tried, on what; and what was not."""
    unneeded_from: str | None = None
    """First engine version that does without."""
    files: tuple[FilePatch, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _the_same_versions_for_every_file(self) -> Self:
        paths = [file.path for file in self.files]
        if len(set(paths)) != len(paths):
            raise ValueError(f"files: want each file once, found {', '.join(paths)}")
        for file in self.files:
            if set(file.sha256) != set(self.files[0].sha256):
                others = f"{', '.join(sorted(file.sha256))} for {file.path}"
                raise ValueError(f"files: want {', '.join(self.versions)} for every file, found {others}")
        return self

    @property
    def versions(self) -> tuple[str, ...]:
        """Engine versions that this patch was written for, oldest first."""
        return tuple(sorted(self.files[0].sha256, key=_order))

    @property
    def digest(self) -> str:
        """Changes with anything in the patch; 16 hex digits."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.name} ({self.digest})"


class Applied(Frozen):
    """One file of the engine with every patch of it: what was read, what came of it."""

    path: str
    pristine: str
    """SHA-256 of what the image holds."""
    sha256: str
    """Of the text."""
    text: str
    patches: tuple[str, ...]


def full_version(engine: str) -> str:
    """`0.30.0` for `0.30`, `0.30.0+cu128` and `0.30.0`: what patches are filed under."""
    public = engine.partition("+")[0]
    return f"{public}.0" if re.fullmatch(r"\d+\.\d+", public) else public


def unneeded(patch: Patch, engine: str) -> bool:
    """Does this version of the engine do without the patch?"""
    first = patch.unneeded_from
    return first is not None and _order(full_version(engine)) >= _order(full_version(first))


def find_patch(name: str, engine: str, catalogue: Sequence[Patch]) -> Patch:
    """The patch of that name for that engine; the first one of the catalogue wins. Raises PatchError."""
    named = [patch for patch in catalogue if patch.name == name]
    version = full_version(engine)
    found = next((patch for patch in named if version in patch.versions), None)
    if found is not None:
        return found
    if not named:
        known = ", ".join(sorted({patch.name for patch in catalogue})) or "none"
        raise PatchError(f"want a patch of patches/VERSION/, found no {name!r}; there are: {known}")
    versions = ", ".join(sorted({v for patch in named for v in patch.versions}, key=_order))
    raise PatchError(f"want {name} for engine {version}, found it for {versions}; see `fleet patch check IMAGE`")


def files_of(patches: Sequence[Patch]) -> tuple[str, ...]:
    """Every file that these patches change, in name order."""
    return tuple(sorted({file.path for patch in patches for file in patch.files}))


def apply(path: str, pristine: bytes, engine: str, patches: Sequence[Patch]) -> Applied:
    """The file with every patch of it applied, in order. Raises PatchError; a file that differs at all is refused."""
    version, found = full_version(engine), hashlib.sha256(pristine).hexdigest()
    chain = [(patch, file) for patch in patches for file in patch.files if file.path == path]
    for patch, file in chain:
        wanted = file.sha256.get(version)
        if wanted is None:
            raise PatchError(
                f"{path}: {patch.name} is not for engine {version} (it is for {', '.join(patch.versions)})"
            )
        if wanted != found:
            raise PatchError(
                f"{path}: want the file of engine {version} ({wanted}), found {found}; is the image changed already, "
                f"or not {version}? `fleet patch check IMAGE` says whether {patch.name} would fit it"
            )
    text = patched(path, pristine, chain)
    return Applied(
        path=path,
        pristine=found,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        text=text,
        patches=tuple(patch.name for patch, _ in chain),
    )


def patched(path: str, pristine: bytes, chain: Sequence[tuple[Patch, FilePatch]]) -> str:
    """The text after all edits, whatever the file's hash is. Anchors are looked for in the pristine text only.

    Raises PatchError where an anchor is not there exactly once, or two edits want the same lines.
    """
    try:
        lines = pristine.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise PatchError(f"{path}: want UTF-8, found byte {pristine[error.start]:#04x} at {error.start}") from None
    spots: list[_Spot] = []
    for patch, file in chain:
        for number, edit in enumerate(file.edits, start=1):
            spot = _located(path, lines, f"{patch.name}, edit {number}", edit)
            for other in spots:
                if spot.collides(other):
                    raise PatchError(
                        f"{path}: {spot.who} and {other.who} both want line {max(spot.start, other.start) + 1}; "
                        "take one of them, or write one patch that does both"
                    )
            spots.append(spot)
    # From the last line to the first, so that what comes before keeps its place; at one place, the first named first.
    order = sorted(range(len(spots)), key=lambda i: (spots[i].at, spots[i].removed > 0, i), reverse=True)
    for spot in (spots[i] for i in order):
        lines[spot.at : spot.at + spot.removed] = spot.lines
    return "\n".join(lines)


class _Spot(Frozen):
    """An edit at its place: lines `start` to `end` are its anchor, `removed` lines at `at` give way to `lines`."""

    who: str
    start: int
    end: int
    at: int
    removed: int
    lines: tuple[str, ...]

    def collides(self, other: "_Spot") -> bool:
        """Does one of the two take away, or push into, lines of the other's anchor?"""
        return any(
            a.start < b.at < a.end or (b.removed and b.start < a.end and a.start < b.end)
            for a, b in ((self, other), (other, self))
        )


def _located(path: str, lines: list[str], who: str, edit: Edit) -> _Spot:
    anchor = dedent(edit.anchor).strip("\n").split("\n")
    found = [(start, indent) for start in range(len(lines)) if (indent := _indent_at(lines, start, anchor)) is not None]
    if len(found) != 1:
        where = ", ".join(str(start + 1) for start, _ in found)
        what = f"it {len(found)} times (lines {where})" if found else "it nowhere"
        raise PatchError(
            f"{path}: {who}: want the anchor {anchor[0].strip()!r} once, found {what}; "
            "give the anchor more lines, or write the patch anew for this version"
        )
    start, indent = found[0]
    end = start + len(anchor)
    fragment = dedent(edit.fragment).strip("\n").split("\n") if edit.fragment.strip() else []
    return _Spot(
        who=who,
        start=start,
        end=end,
        at=end if edit.place == "after" else start,
        removed=len(anchor) if edit.place == "instead" else 0,
        lines=tuple(f"{indent}{line}" if line.strip() else "" for line in fragment),
    )


def _indent_at(lines: list[str], start: int, anchor: list[str]) -> str | None:
    """The indentation at which the anchor stands on these lines, or None."""
    if start + len(anchor) > len(lines) or not lines[start].endswith(anchor[0]):
        return None
    indent = lines[start][: len(lines[start]) - len(anchor[0])]
    if indent.strip():
        return None
    same = all(
        line == f"{indent}{wanted}" if wanted.strip() else not line.strip()
        for line, wanted in zip(lines[start : start + len(anchor)], anchor, strict=True)
    )
    return indent if same else None


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
