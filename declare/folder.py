"""A folder of this machine as a manifest: every file read once, several at the same time."""

import hashlib
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from declare.problem import DeclarationError
from fleet.delivery.manifest import Manifest, ManifestFile, of_files, path_problem

AT_ONCE = min(8, os.cpu_count() or 1)
CHUNK = 1 << 20

Told = Callable[[int, int], None]
"""Takes the bytes that were read and the bytes there are."""


def files_of(folder: Path) -> dict[str, os.stat_result]:
    """Relative path -> stat of every file below. Raises DeclarationError with all that is neither file nor folder."""
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise DeclarationError([f"{folder}: want a folder, found a file"])
    except OSError as error:
        raise DeclarationError([f"{folder}: want a folder, found nothing: {error.strerror}"]) from None
    found: dict[str, os.stat_result] = {}
    wrong: list[str] = []
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            wrong.append(f"{here}: want a folder that can be read, found {error.strerror}")
            continue
        for entry in entries:
            path = os.path.relpath(entry.path, folder)
            if (problem := path_problem(path)) is not None:
                wrong.append(f"{path!r}: want a plain name, found {problem}; rename it")
            elif entry.is_symlink():
                wrong.append(f"{path}: want a file, found a symlink; copy the folder with cp -rL, or remove it")
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif not stat.S_ISREG((told := entry.stat(follow_symlinks=False)).st_mode):
                wrong.append(f"{path}: want a file, found a {_kind(told.st_mode)}; remove it")
            else:
                found[path] = told
    if wrong:
        raise DeclarationError(f"{folder}: {line}" if not line.startswith(str(folder)) else line for line in wrong)
    if not found:
        raise DeclarationError([f"{folder}: want at least one file, found none"])
    return found


def _kind(mode: int) -> str:
    return "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"


def measure(folder: Path, told: Told = lambda done, total: None, pool: type = ThreadPoolExecutor) -> Manifest:
    """The manifest of a folder. Raises DeclarationError where a file cannot be read, or changes while it is read."""
    found = files_of(folder)
    total, done = sum(one.st_size for one in found.values()), 0
    files, wrong = [], []
    with pool(AT_ONCE) as workers:
        jobs = {workers.submit(_hash, folder / path, before): path for path, before in found.items()}
        for job in as_completed(jobs):
            path = jobs[job]
            try:
                files.append(ManifestFile(path=path, bytes=found[path].st_size, sha256=job.result()))
            except OSError as error:
                wrong.append(f"{folder}/{path}: want a file that can be read, found {error.strerror or error}")
            done += found[path].st_size
            told(done, total)
    if wrong:
        raise DeclarationError(sorted(wrong))
    return of_files(files)


def _hash(path: Path, before: os.stat_result) -> str:
    """Hex digest of a file. OSError where it is not what it was when it was listed."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(handle, "rb", buffering=0) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        after = os.fstat(handle)
    same = ("st_ino", "st_size", "st_mtime_ns")
    if any(getattr(before, name) != getattr(after, name) for name in same):
        raise OSError("a file that changed while it was read; stop who writes it and begin again")
    return digest
