"""What a terminal's encoding cannot show is escaped: it must not end a run, least of all in the middle of a turn."""

import sys
from io import TextIOWrapper


def escape_the_rest() -> None:
    """From now on stdout and stderr show such characters as `\\xe9` and go on."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
