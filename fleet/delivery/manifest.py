"""What a checkpoint is, byte for byte: every file with its size and SHA-256. Made once, compared on every node."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator

from fleet.frozen import Frozen

HEAD = "# vllm-fleet manifest 1"
_LINE = re.compile(r"([0-9a-f]{64}) ([0-9]{1,15}) (.+)")
_SHA256 = re.compile(r"[0-9a-f]{64}")

LONGEST_PATH, LONGEST_NAME = 3072, 255
"""In bytes: no file system takes a longer name (NAME_MAX), and the folder around it needs a part of PATH_MAX, 4096."""


class ManifestError(ValueError):
    """A text is no manifest; `lines` name every place with what was wanted and found."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def path_problem(path: str) -> str | None:
    """Why a path cannot stand in a manifest, or None: it could leave the folder, or break a list of names."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "a name that is not UTF-8"
    if bad := next((sign for sign in path if sign < " " or sign in "\x7f\\" or sign in "\x85\u2028\u2029"), None):
        return f"a name with {bad!r}"
    if path.startswith("/"):
        return "an absolute path"
    parts = path.split("/")
    if ".." in parts:
        return "a path with .."
    if len(path.encode()) > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in parts):
        return f"one of more than {LONGEST_PATH} bytes, or with a name of more than {LONGEST_NAME}"
    return "an empty part or a dot in the path" if {"", "."} & set(parts) else None


def _relative(path: str) -> str:
    if (problem := path_problem(path)) is not None:
        raise ValueError(f"want a relative path without .., control characters and backslashes, found {problem}")
    return path


def _sha256(text: str) -> str:
    if not _SHA256.fullmatch(text):
        raise ValueError(f"want 64 hex digits in small letters, found {len(text)} characters")
    return text


MOST_BYTES = 10**15 - 1
"""Of one file: more than a disk holds, and fewer digits than what breaks a formula of floats."""


class ManifestFile(Frozen):
    """One file: its path in the folder, its size in bytes, the SHA-256 of its content in hex."""

    path: Annotated[str, AfterValidator(_relative)]
    bytes: Annotated[int, Field(ge=0, le=MOST_BYTES, strict=True)]
    sha256: Annotated[str, AfterValidator(_sha256)]


class Manifest(Frozen):
    """All files of a folder, in the order of their paths. Two folders with the same digest are the same checkpoint."""

    files: tuple[ManifestFile, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _each_path_once_and_sorted(self) -> Self:
        paths = [file.path for file in self.files]
        if paths != sorted(set(paths)):
            twice = sorted(path for path, count in Counter(paths).items() if count > 1)
            raise ValueError(f"want each path once, in order, found {twice[:3] or 'another order'}")
        known = set(paths)
        for path in paths:
            parts = path.split("/")
            above = next((up for n in range(1, len(parts)) if (up := "/".join(parts[:n])) in known), None)
            if above is not None:
                raise ValueError(f"want files, found {above} as a file and as the folder of {path}")
        return self

    @property
    def total_bytes(self) -> int:
        """Bytes of all files together."""
        return sum(file.bytes for file in self.files)

    @property
    def text(self) -> str:
        """The manifest as lines `SHA256 BYTES PATH`, which a diff shows well."""
        return "".join([f"{HEAD}\n", *(f"{file.sha256} {file.bytes} {file.path}\n" for file in self.files)])

    @property
    def digest(self) -> str:
        """`sha256:...` of the text: the name of this content."""
        return "sha256:" + hashlib.sha256(self.text.encode()).hexdigest()

    def document(self) -> dict[str, object]:
        """The manifest for machines; `read_manifest` takes it too."""
        return {"format": 1, "digest": self.digest, "bytes": self.total_bytes, **self.model_dump(mode="json")}


_DOCUMENT = TypeAdapter(tuple[ManifestFile, ...])


def of_files(files: Iterable[ManifestFile]) -> Manifest:
    """A manifest of files in any order. ValueError where two have one path."""
    return Manifest(files=tuple(sorted(files, key=lambda file: file.path)))


def read_manifest(text: str) -> Manifest:
    """A manifest from its lines or its JSON document. ManifestError names the lines or fields that are wrong."""
    if text.lstrip()[:1] == "{":
        return _from_json(text)
    problems, files = [], []
    lines = text.splitlines() if text.isascii() else text.split("\n")
    if not lines or lines[0] != HEAD:
        raise ManifestError([f"1: want {HEAD!r}, found {lines[0][:60] if lines else ''!r}"])
    for number, line in enumerate(lines[1:], start=2):
        match = _LINE.fullmatch(line)
        if not line:
            continue
        if match is None:
            problems.append(
                f"{number}: want SHA256 (64 hex digits in small letters), BYTES and PATH, found {line[:100]!r}"
            )
            continue
        try:
            files.append(ManifestFile(sha256=match[1], bytes=int(match[2]), path=match[3]))
        except ValidationError as error:
            problems.append(f"{number}: {_words(error)}")
    return _whole(files, problems)


def _from_json(text: str) -> Manifest:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError([f"want a manifest, found broken JSON: {error}"]) from None
    if document.get("format") != 1 or not isinstance(document.get("files"), list):
        raise ManifestError(["want format 1 and a list of files, found another JSON document"])
    try:
        files = list(_DOCUMENT.validate_python(document["files"]))
    except ValidationError as error:
        raise ManifestError(
            f"files.{'.'.join(map(str, one['loc']))}: {_word(one['msg'])}" for one in error.errors()
        ) from None
    made = _whole(files, [])
    for name, value in (("digest", made.digest), ("bytes", made.total_bytes)):
        if document.get(name, value) != value:
            raise ManifestError([f"{name}: want {value}, by its files, found {document[name]!r}"])
    return made


def _whole(files: list[ManifestFile], problems: list[str]) -> Manifest:
    if not problems and not files:
        problems.append("want at least one file, found none")
    if problems:
        raise ManifestError(problems)
    try:
        return of_files(files)
    except ValidationError as error:
        raise ManifestError([_words(error)]) from None


def _words(error: ValidationError) -> str:
    return "; ".join(_word(one["msg"]) for one in error.errors())


def _word(message: str) -> str:
    return message.removeprefix("Value error, ")


def differences(manifest: Manifest, found: Mapping[str, tuple[int, str | None]]) -> list[str]:
    """What a folder has that the manifest does not say, and the other way round, in words; empty where it is the same.

    `found`: path -> size in bytes and SHA-256; None where the content was not read and only sizes are compared.
    """
    words = []
    for file in manifest.files:
        size, digest = found.get(file.path, (None, None))
        if size is None:
            words.append(f"{file.path}: missing")
        elif size != file.bytes:
            how = "truncated" if size < file.bytes else "too long"
            words.append(f"{file.path}: {how}: want {file.bytes} bytes, found {size}")
        elif digest is not None and digest != file.sha256:
            words.append(f"{file.path}: changed: want sha256 {file.sha256}, found {digest}")
    known = {file.path for file in manifest.files}
    return words + [f"{path}: not in the manifest" for path in sorted(found.keys() - known)]
