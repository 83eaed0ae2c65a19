"""Where a run is to write what came of it, looked at before anything changes; and what it writes for machines."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """The document of a run: to stdout where a machine asked, and to these files. OSError where one of them fails.

    A full disk takes nothing from who reads stdout, and nobody who reads there nothing from the files. It is not made
    where nobody wants it: of a thousand nodes that takes seconds.
    """
    files = [path for path in paths if path is not None]
    if not files and not machine.asked():
        return
    made = document()
    try:
        machine.tell(made)
    finally:
        for path in files:
            path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def at_the_end() -> Iterator[None]:
    """What is written in here is the last thing of a run: where it cannot be, that is said and the run ends with 1."""
    try:
        yield
    except OSError as error:
        from operations.show import console  # a delivery that has nothing to do comes without it

        console(True).print(f"the result could not be written: {error}", style="bold red", markup=False)
        sys.stdout.flush()
        sys.exit(1)
