"""Lines of pyinfra's log that say less than what we say: left out, or without the line of code that raised them."""

import logging
import re
from pathlib import Path

import click
from pyinfra import logger

PROJECT = re.escape(str(Path(__file__).resolve().parent.parent))
_RAISED_HERE = re.compile(rf" in {PROJECT}/\S+ line \d+(?=(\x1b\[0m)?: )")
_SAID_BY_THE_RESULT = re.compile(r"(Error: executed 0 commands|pyinfra error: No hosts remaining!)$")


def _without_code(record: logging.LogRecord) -> bool:
    """A refusal is no mistake of a program: who reads it needs the reason, not the line that raised it."""
    if isinstance(record.msg, str) and not record.args:
        record.msg = _RAISED_HERE.sub("", record.msg)
    return True


def _not_said_by_the_result(record: logging.LogRecord) -> bool:
    return not _SAID_BY_THE_RESULT.search(click.unstyle(record.getMessage()))


_TRACE = re.compile(r"\s|$|Traceback|During handling|The above exception|\w+(\.\w+)+(:|$)|\w*Error(:|$)")


def _without_trace(record: logging.LogRecord) -> bool:
    """paramiko logs what a node did instead of SSH as one line, and then its own traceback, line by line."""
    return not _TRACE.match(record.getMessage())


def name_no_code() -> None:
    """Reasons are told without the place in our code, or in that of SSH."""
    logger.addFilter(_without_code)
    logging.getLogger("paramiko.transport").addFilter(_without_trace)


def leave_the_end_to_us() -> None:
    """From now on a result of ours says at the end which host failed, and why."""
    logger.addFilter(_not_said_by_the_result)
