"""A service's checkpoint and its image's archive: paths made absolute, the manifest read and named by its digest."""

import stat
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from declare.located import Located, Origin, locate
from declare.nodes import absolute
from declare.problem import DeclarationError, line
from fleet.delivery.manifest import Manifest, ManifestError, read_manifest

_NO_DIGEST = "sha256:" + "0" * 64
"""Stands in for a manifest that is a problem already, so that the rest of the service is still validated."""


def with_sources(service: Located, nodes: frozenset[str], problems: list[str]) -> Located:
    """The service with the paths of `checkpoint` and `image.archive` absolute; what the files tell is filled in."""
    checkpoint, image = service.get("checkpoint"), service.get("image")
    if checkpoint is not None and isinstance(checkpoint.value, dict):
        service = service.with_entry("checkpoint", _checkpoint(checkpoint, nodes, problems))
    archive = image.get("archive") if image else None
    if image is not None and archive is not None:
        service = service.with_entry("image", image.with_entry("archive", _archive(archive, nodes, problems)))
    return service


def manifest_at(path: str) -> Manifest:
    """The manifest in a file of this machine. Raises DeclarationError with the file and each line that is wrong."""
    file = Path(path)
    try:
        told = file.stat()
        if not stat.S_ISREG(told.st_mode):  # a pipe would be waited for
            raise DeclarationError([_wanted(file, "a folder" if stat.S_ISDIR(told.st_mode) else "a pipe or a device")])
        return _read(file, told.st_mtime_ns, told.st_size)
    except OSError as error:
        raise DeclarationError([_wanted(file, error.strerror or str(error))]) from None
    except UnicodeDecodeError:
        raise DeclarationError([_wanted(file, "bytes that are no UTF-8 text")]) from None
    except ManifestError as error:
        raise DeclarationError(f"{file}: {text}" for text in error.lines[:10]) from None


@lru_cache(maxsize=64)
def _read(file: Path, changed_ns: int, size: int) -> Manifest:
    """Two hundred nodes name one file. The time and size are there so that a changed one is read again."""
    return read_manifest(file.read_text(encoding="utf-8"))


def _wanted(file: Path, found: str) -> str:
    return f"{file}: want a manifest, as `fleet manifest DIR -o FILE` writes it, found {found}"


def _checkpoint(checkpoint: Located, nodes: frozenset[str], problems: list[str]) -> Located:
    peer = _peer(checkpoint, nodes, problems)
    for name in ("manifest", *(() if peer is not None else ("folder",))):
        entry = checkpoint.get(name)
        if entry is not None and entry.origin.file is not None:
            checkpoint = checkpoint.with_entry(name, absolute(entry, entry.origin.file.parent))
    manifest = checkpoint.get("manifest")
    if manifest is None or not isinstance(manifest.value, str):
        return checkpoint if checkpoint.get("digest") else checkpoint.with_entry("digest", _digest(checkpoint.origin))
    try:
        read = manifest_at(manifest.value)
    except DeclarationError as error:
        problems.extend(line(manifest.origin, "a manifest", text) for text in error.lines)
        return checkpoint.with_entry("digest", _digest(manifest.origin))
    for name, value in (("digest", read.digest), ("bytes", read.total_bytes)):
        written = checkpoint.get(name)
        if written is not None and written.value != value:
            problems.append(line(written.origin, f"{value}, which {manifest.value} has", f'"{written.value}"'))
        checkpoint = checkpoint.with_entry(name, replace(_digest(manifest.origin), value=value))
    return checkpoint


def _peer(source: Located, nodes: frozenset[str], problems: list[str]) -> Located | None:
    peer = source.get("peer")
    if peer is not None and isinstance(peer.value, str) and peer.value not in nodes:
        problems.append(line(peer.origin, f"a node of this fleet ({', '.join(sorted(nodes))})", f'"{peer.value}"'))
    return peer


def _digest(origin: Origin) -> Located:
    return locate(_NO_DIGEST, origin)


def _archive(archive: Located, nodes: frozenset[str], problems: list[str]) -> Located:
    """`archive: PATH` is short for `{file: PATH}`."""
    if isinstance(archive.value, str):
        archive = Located({"file": archive}, archive.origin)
    peer, file = _peer(archive, nodes, problems), archive.get("file")
    if peer is None and file is not None and file.origin.file is not None:
        archive = archive.with_entry("file", absolute(file, file.origin.file.parent))
        if (size := _size(archive)) is not None and archive.get("bytes") is None:
            archive = archive.with_entry("bytes", locate(size, file.origin))
    return archive


def _size(archive: Located) -> int | None:
    """Of the archive, where it lies on this machine and is not empty."""
    file = archive.get("file")
    try:
        return Path(str(file.value)).stat().st_size or None if file is not None else None
    except OSError:
        return None  # the delivery says so
