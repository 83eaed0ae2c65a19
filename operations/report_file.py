"""Where a run is to write what came of it, looked at before anything changes."""

import os
from pathlib import Path

from pyinfra.api.exceptions import DeployError

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
