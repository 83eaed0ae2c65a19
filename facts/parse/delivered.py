"""The section `delivered`: which folders are known to hold what."""

import re

from facts.parse.frames import Section


def read_verified(section: Section) -> dict[str, str]:
    """Path -> digest of the manifest that the folder is known to hold; a folder that is not known is left out."""
    found: dict[str, str] = {}
    path = ""
    for line in section.text.splitlines():
        word, _, value = line.partition(" ")
        if word == "checkpoint":
            path = value
        elif word == "verified" and path and re.fullmatch(r"sha256:[0-9a-f]{64}", value):
            found[path] = value
    return found
