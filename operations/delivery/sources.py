"""What the machine that rolls out gives, and what a URL answers: looked at before anything moves."""

import hashlib
import json
import lzma
import os
import re
import stat
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

from declare.folder import files_of
from declare.problem import DeclarationError
from fleet.delivery.manifest import Manifest, ManifestFile, differences, of_files, read_manifest

PROJECT = Path(__file__).resolve().parents[2]
_MEASURE = """
import sys
from pathlib import Path
from declare.folder import measure
from declare.problem import DeclarationError
try:
    sys.stdout.buffer.write(measure(Path(sys.argv[1])).text.encode())
except DeclarationError as error:
    sys.exit(str(error))
"""


class SourceError(ValueError):
    """A source does not give what was declared; the lines say what was wanted and found."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("; ".join(self.lines))


def check_folder(folder: str, manifest: Manifest, tell: Callable[[str], None] = lambda text: None) -> None:
    """Is this folder to the byte what the manifest says? Read once; then its sizes and times tell. SourceError.

    `tell` is told before a reading, which takes minutes for hundreds of GiB.
    """
    try:
        found = files_of(Path(folder))
    except DeclarationError as error:
        raise SourceError(error.lines) from None
    wrong = differences(manifest, {path: (told.st_size, None) for path, told in found.items()})
    if not wrong and not _remembered(Path(folder), manifest):
        tell(f"reads {manifest.total_bytes / 2**30:.2f} GiB in {folder} once, to compare them with the manifest")
        measured = _measured(folder)
        wrong = differences(manifest, {file.path: (file.bytes, file.sha256) for file in measured.files})
        if not wrong:
            _remember(Path(folder), manifest)
    if wrong:
        raise SourceError(
            f"{folder}: {line}" for line in [*wrong[:5], *([f"and {len(wrong) - 5} more"] * (len(wrong) > 5))]
        )


def _measured(folder: str) -> Manifest:
    """In a process of its own: it takes all cores for minutes, and this one holds the connections."""
    done = subprocess.run([sys.executable, "-c", _MEASURE, folder], cwd=PROJECT, capture_output=True)
    if done.returncode:
        raise SourceError((done.stderr.decode(errors="replace").strip() or "it could not be read").splitlines()[-5:])
    return read_manifest(done.stdout.decode())


def _memory(folder: Path) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vllm-fleet" / "verified"
    return base / hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def _state(folder: Path, manifest: Manifest) -> str:
    told = sorted(files_of(folder).items())
    lines = [f"{path} {one.st_size} {one.st_mtime_ns} {one.st_ctime_ns}" for path, one in told]
    return "\n".join([manifest.digest, *lines])


def _remembered(folder: Path, manifest: Manifest) -> bool:
    try:
        return _memory(folder).read_text() == _state(folder, manifest)
    except (OSError, UnicodeDecodeError):
        return False


def _remember(folder: Path, manifest: Manifest) -> None:
    path = _memory(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(_state(folder, manifest))
    beside.rename(path)


def archive_file(path: str, digest: str, name: str) -> ManifestFile:
    """The one file of an image's archive, after a look whether it can hold the image at all. SourceError."""
    file = Path(path)
    try:
        mode = file.stat().st_mode
    except OSError as error:
        raise SourceError([f"{path}: want the archive of an image, found nothing: {error.strerror}"]) from None
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise SourceError([f"{path}: want the archive of an image, found {what}"])
    try:
        names, manifests = _members(file)
    except _NO_ARCHIVE as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise SourceError([f"{path}: want an image's archive (a tar), found {said}"]) from None
    if manifests is None and "manifest.json" not in names:
        raise SourceError([f"{path}: want an image's archive with index.json or manifest.json, found neither"])
    found = sorted(str(one.get("digest")) for one in manifests or () if isinstance(one, dict))
    if manifests is not None and digest not in found and f"blobs/sha256/{digest[7:]}" not in names:
        raise SourceError([f"{path}: want the image {digest}, found {', '.join(found) or 'none'}"])
    done = subprocess.run(["sha256sum", "--", path], capture_output=True, text=True)
    if done.returncode:
        raise SourceError([f"{path}: {done.stderr.strip()}"])
    return ManifestFile(path=name, bytes=file.stat().st_size, sha256=done.stdout.lstrip("\\")[:64])


_NO_ARCHIVE = (
    *(tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError),
    *(ValueError, KeyError, TypeError, RecursionError),
)
MOST_INDEX = 16 << 20
"""Bytes of an index.json, which has a few hundred."""


def _members(file: Path) -> tuple[frozenset[str], list[object] | None]:
    """Names in an archive, and the manifests of its index.json; None where it has no such file. One of _NO_ARCHIVE."""
    with tarfile.open(file) as tar:
        names = {member.name.removeprefix("./"): member for member in tar}
        index = names.get("index.json")
        if index is None:
            return frozenset(names), None
        stream = tar.extractfile(index) if index.isreg() and index.size <= MOST_INDEX else None
        document = json.load(stream) if stream else None
    manifests = document.get("manifests") if isinstance(document, dict) else None
    if not isinstance(manifests, list):
        raise ValueError("an index.json that is no index of images")
    return frozenset(names), manifests


def one_file(file: ManifestFile) -> Manifest:
    """A manifest of this file alone."""
    return of_files([file])


def file_url(base: str, path: str) -> str:
    """The URL of a file below a base URL."""
    return f"{base.rstrip('/')}/{quote(path)}"


_BLOCK = re.compile(r"^answer (\d+) ([0-9]{3}) ([^\t\n]*)\t?(.*)$", re.MULTILINE)


def wrong_answers(text: str, urls: list[str], files: list[ManifestFile]) -> list[str]:
    """What is wrong with a server's answers to HEAD, from curl's headers and its lines `answer PLACE CODE TYPE`.

    A tab and what went wrong, in curl's words, may follow on such a line.
    """
    wrong, begin = [], 0
    seen: set[int] = set()
    for match in _BLOCK.finditer(text):
        headers, begin = text[begin : match.start()], match.end()
        place, code, kind = int(match[1]), int(match[2]), match[3].strip().lower()
        why = f" ({match[4].strip()})" if match[4].strip() else ""
        seen.add(place)
        size = _size(headers)
        want = files[place].bytes
        if code == 0:
            wrong.append(f"{urls[place]}: want an answer, found no connection{why}")
        elif code not in (200, 206):
            wrong.append(f"{urls[place]}: want 200, found {code}{why}")
        elif kind.startswith("text/html"):
            wrong.append(f"{urls[place]}: want a file, found a page ({kind})")
        elif size != want:
            found = "no size" if size is None else f"{size}"
            wrong.append(f"{urls[place]}: want {want} bytes, found {found}")
    return wrong + [f"{urls[n]}: want an answer, found none" for n in range(len(urls)) if n not in seen]


def _size(headers: str) -> int | None:
    """The size of the whole file, of the last answer (redirects come before it)."""
    last = re.split(r"^HTTP/", headers, flags=re.MULTILINE)[-1]
    ranged = re.search(r"^content-range:\s*bytes\s+\S+/(\d+)", last, re.MULTILINE | re.IGNORECASE)
    if ranged:
        return int(ranged[1])
    length = re.search(r"^content-length:\s*(\d+)", last, re.MULTILINE | re.IGNORECASE)
    return int(length[1]) if length else None
