"""What deliveries brought to a node and nothing needs any more: by what is declared, the releases there, what runs."""

import re
from collections.abc import Iterable

from fleet.frozen import Frozen

_PATH = re.compile(r"/[^\"\\:,\s{}\[\]=]+")


class Brought(Frozen):
    """A folder that a delivery put in its place, or an image that it loaded: what lies there now."""

    name: str
    """Path of the folder, or NAME@DIGEST of the image."""
    bytes: int | None = None
    """Of a folder; None for an image, which shares its layers with others."""
    user: str | None = None
    """What runs and has it open or mounted, of this project or not."""


class Leftover(Frozen):
    """One thing that a delivery brought and that is not declared for its node. `kept`: why it stays all the same."""

    name: str
    bytes: int | None = None
    kept: str | None = None


def leftovers(brought: Iterable[Brought], declared: str, releases: dict[str, str]) -> tuple[Leftover, ...]:
    """Everything that was brought to a node and is not declared for it.

    `declared`: everything that is declared for the node, as text. `releases`: SERVICE/ID -> text of its plan.json, of
    every release that lies on the node: the current, the one before it, a pending one. What one of these so much as
    mentions stays, and so does what somebody uses now.
    """
    found = []
    for one in brought:
        if mentions(declared, one.name):
            continue
        release = next((name for name, text in sorted(releases.items()) if mentions(text, one.name)), None)
        kept = f"the release {release} needs it" if release else f"{one.user} uses it" if one.user else None
        found.append(Leftover(name=one.name, bytes=one.bytes, kept=kept))
    return tuple(found)


def mentions(text: str, name: str) -> bool:
    """Does a text name this folder, something in it, a folder around it; or this image by its digest?"""
    if "@" in name and not name.startswith("/"):
        return name.rpartition("@")[2] in text
    if re.search(re.escape(name) + r"(?![A-Za-z0-9._-])", text):
        return True
    return any(f"{name}/".startswith(f"{path.rstrip('/')}/") for path in set(_PATH.findall(text)) if path != "/")
