"""`--json` of pyinfra's command for a verb of ours: one document on stdout, whatever way the run ends."""

import atexit
import json
import logging
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import click
from pyinfra import logger

PROJECT = Path(__file__).resolve().parent.parent
_ERROR = re.compile(r"--> [\w ]*error(?: in .+? line \d+)?: ", re.DOTALL)
"""What pyinfra puts before the reason why a run ended."""
_UNTOLD = "it ended before it had a result; see stderr"
_stdout: list[TextIO] = []
_reasons: list[str] = []
_errors: list[str] = []


class _Ear(logging.Handler):
    """Keeps what pyinfra says of failures, for a run that ends before it has a document of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        text = click.unstyle(record.getMessage())
        if reason := _ERROR.match(text):
            because(text[reason.end() :])
        elif record.levelno >= logging.ERROR:
            _errors.append(text.strip())


def speak(operations: Iterable[str]) -> None:
    """From now on stdout is for `tell` alone, where the run is one of our verbs.

    What pyinfra prints there itself, a list of operations that names no service, gives way.
    """
    verb = next(iter(operations), "")
    if _stdout or not is_ours(verb):
        return
    _stdout.append(sys.stdout)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
    logger.addHandler(_Ear())
    atexit.register(_end, Path(verb).stem)


def is_ours(verb: str) -> bool:
    """Is this a verb of this project, such as deploy.py?"""
    return Path(verb).resolve().parent == PROJECT and verb.endswith(".py")


def asked() -> bool:
    """Does a machine wait for a document?"""
    return bool(_stdout)


def tell(document: object) -> None:
    """The document of this run, where a machine asked; of several the first."""
    if _stdout:
        out = _stdout.pop()
        out.write(f"{json.dumps(document, indent=1)}\n")
        out.flush()


def because(reason: str) -> None:
    """Why the run ends, for one that has no document of its own; the first reason stays."""
    _reasons.append(reason)


def _end(verb: str) -> None:
    stopped, *lines = (_reasons[0] if _reasons else _UNTOLD).splitlines()
    with suppress(OSError):  # nobody reads any more
        tell({"verb": verb, "stopped": stopped, "errors": [*(line.strip() for line in lines), *_errors]})
