"""The image of a service: a name of the catalogue or a mapping, its digest written out or read from a file."""

from dataclasses import replace
from pathlib import Path

from declare.located import Located, Origin, locate
from declare.nodes import absolute
from declare.problem import found, line, unknown
from declare.reader import bytes_of
from fleet.values import DIGEST

_NO_DIGEST = "sha256:" + "0" * 64
"""Stands in for a digest that is a problem already, so that the rest of the service is still validated."""
FIELDS = ("name", "digest", "digest_file", "engine", "packages", "archive", "backends")


def from_catalogue(service: Located, catalogue: Located | None, problems: list[str]) -> Located:
    """The service with `image: NAME` replaced by what the catalogue says under that name."""
    image = service.get("image")
    if image is None or not isinstance(image.value, str):
        return service
    entry = catalogue.get(image.value) if catalogue else None
    if entry is None:
        known = [name for name, _ in catalogue.entries()] if catalogue else []
        problems.append(unknown(image.origin, image.value, known, "image of the catalogue"))
        entry = locate({"name": "unknown", "digest": _NO_DIGEST, "engine": "0.0"}, image.origin)
    return service.with_entry("image", entry)


def with_digest(service: Located, project: Path, problems: list[str]) -> Located:
    """The service with `image.digest_file` replaced by the digest that the file holds.

    The path is relative to the YAML file that it stands in. Pipelines and the lab write such a file after a build.
    """
    image = service.get("image")
    pointer = image.get("digest_file") if image else None
    if image is None or pointer is None:
        return service
    if image.get("digest") is not None:
        problems.append(line(pointer.origin, "either digest or digest_file", "both"))
        return service.with_entry("image", image.without("digest_file"))
    digest = _read_digest(pointer, project, problems) or replace(pointer, value=_NO_DIGEST)
    return service.with_entry("image", image.without("digest_file").with_entry("digest", digest))


def wrong_catalogue(catalogue: Located | None) -> list[str]:
    """What is wrong with the shape of an `images:` mapping; an image that no service uses is looked at too."""
    lines = []
    for _, image in catalogue.entries() if catalogue else ():
        if not isinstance(image.value, dict):
            lines.append(line(image.origin, "a mapping (name, digest or digest_file, engine)", found(image)))
        lines.extend(unknown(entry.origin, name, FIELDS) for name, entry in image.entries() if name not in FIELDS)
    return lines


def _read_digest(pointer: Located, project: Path, problems: list[str]) -> Located | None:
    if not isinstance(pointer.value, str) or pointer.origin.file is None:
        problems.append(line(pointer.origin, "the path of a file that holds the digest", found(pointer)))
        return None
    path = Path(str(absolute(pointer, pointer.origin.file.parent).value))
    try:
        text = bytes_of(path).decode("ascii").strip()
    except OSError as error:
        problems.append(line(pointer.origin, f"a digest in {path}", f"{error.strerror}; {_remedy(path, project)}"))
        return None
    except UnicodeDecodeError:
        text = "bytes that are no text"
    if not DIGEST.fullmatch(text):
        problems.append(line(pointer.origin, f"a digest (sha256: and 64 hex digits) in {path}", f'"{text[:80]}"'))
        return None
    return replace(pointer, value=text, written=None, origin=Origin("digest", path))


def _remedy(path: Path, project: Path) -> str:
    if path.is_relative_to(project / ".lab"):
        return "run `fleet lab up`, which builds the image"
    return "whatever builds the image writes this file"
