"""`fleet manifest DIR`: every file of a checkpoint with its size and SHA-256, made once, compared on every node."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cli.machine import fail, json_option
from declare.folder import measure
from declare.problem import DeclarationError


def manifest(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a checkpoint, or of an image archive.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to this file; default: stdout.")
    ] = None,
    as_json: Annotated[bool, json_option("As a JSON document instead of lines.")] = False,
) -> None:
    """Print the manifest of a folder: SHA-256, size and path of every file. Exit 1 where a file cannot be one."""
    if output is not None:
        _check(output, folder)
    try:
        made = measure(folder, _progress if sys.stderr.isatty() else lambda done, total: None)
    except DeclarationError as error:
        fail(str(error))
    text = json.dumps(made.document(), indent=1, ensure_ascii=False) + "\n" if as_json else made.text
    if output is None:
        _print(text)
        return
    try:
        _write(output, text)
    except OSError as error:
        fail(f"--output: want a file that can be written, found {output}: {error.strerror}")
    typer.echo(f"{output}: {len(made.files)} files, {made.total_bytes} bytes, {made.digest}", err=True)


def _check(output: Path, folder: Path) -> None:
    try:
        inside = output.resolve().is_relative_to(folder.resolve())
        other = output.exists() and not output.is_file()
    except (OSError, RuntimeError) as error:  # a name that is too long, links that go round in a circle
        fail(f"--output: want a file that can be written, found {output}: {getattr(error, 'strerror', None) or error}")
    if inside:
        fail(f"--output: want a file outside of {folder}, found {output}; it would be a part of the checkpoint")
    if other:
        fail(f"--output: want a file, found {output}, which is none; leave --output away, and it goes to stdout")


def _progress(done: int, total: int) -> None:
    end = "\n" if done == total else "\r"
    sys.stderr.write(f"read {done / 2**30:.1f} of {total / 2**30:.1f} GiB{end}")


def _print(text: str) -> None:
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # as after `| head`: who reads has enough
        raise
    except OSError as error:
        sys.stdout = None  # type: ignore[assignment]  # Python would try once more at its end
        fail(f"stdout: want all of the manifest written, found {error.strerror}")


def _write(path: Path, text: str) -> None:
    """Beside, then renamed: nobody reads half of it."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
        os.replace(beside, path)
    except OSError:
        os.unlink(beside)
        raise
