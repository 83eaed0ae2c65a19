"""Where a run is to write what came of it, looked at before anything changes; and what it writes for machines."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from pyinfra.api.exceptions import DeployError

from declare import machine
from declare.invocation import Invocation


def report_path(invocation: Invocation) -> Path | None:
    """Where `--data report=PATH` wants the result."""
    return writable(invocation.overrides.report, "report")


def writable(path: str | None, name: str) -> Path | None:
    """The file, or as `history` the folder, that a run is to write to. Raises DeployError where it cannot."""
    if path is None:
        return None
    place = Path(path)
    wrong_kind = place.exists() and place.is_dir() != (name == "history")
    if wrong_kind or not os.access(place if place.exists() else place.parent, os.W_OK):
        what = "folder" if name == "history" else "file"
        raise DeployError(f"--data {name}: want a {what} that can be written, found {path}; nothing was changed")
    return place


def hand_over(document: Callable[[], object], *paths: Path | None) -> None:
    """The document of a run: to these files, and to stdout where a machine asked. OSError where it cannot be written.

    It is not made where nobody wants it: of a thousand nodes that takes seconds.
    """
    files = [path for path in paths if path is not None]
    if not files and not machine.asked():
        return
    made = document()
    for path in files:
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    machine.tell(made)
