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


def read_room(section: Section) -> dict[str, dict[str, int]]:
    """Path of a folder that is not verified -> `held_bytes` in it, `room_bytes` beside it, as far as it was told."""
    found: dict[str, dict[str, int]] = {}
    path = ""
    for line in section.text.splitlines():
        word, _, value = line.partition(" ")
        number = re.match(r"([0-9]{1,18})(?: |$)", value)
        if word == "checkpoint":
            path = value
        elif word in ("held", "room") and path and number:
            found.setdefault(path, {})[f"{word}_bytes"] = int(number[1])
    return found
