"""How the parsers say no: with the reason, and with the line that was found."""

import re

_TROUBLE = re.compile(
    r"\berrors?\b|\berr!|fail|unable|couldn't|\blost\b|requires? reset|no devices|mismatch|insufficient perm"
    r"|timed? ?out",
    re.IGNORECASE,
)


class TopologyError(ValueError):
    """The text tells no topology that could be trusted. The message is the reason, with the line where there is one."""


def sounds_like_trouble(line: str) -> bool:
    """Is this line a tool's complaint rather than its answer?"""
    return bool(_TROUBLE.search(line))


def quoted(text: str, limit: int = 200) -> str:
    """The text on one line, cut to `limit` characters, for an error message."""
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= limit else flat[:limit] + "...")
