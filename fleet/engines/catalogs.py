"""The catalogs of engine versions that come with this package: `fleet/engines/VERSION.json`.

They are read as the package's own data, as Python reads the package's modules: nothing of the world outside is asked.
"""

import json
import re
from functools import cache
from importlib import resources
from typing import Any

from fleet.argv.catalog import Capability, Catalog

FULL = re.compile(r"\d+\.\d+\.\d+\.json")


def order(version: str) -> tuple[int, ...]:
    """For sorting: 0.9.0 before 0.30.0."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


@cache
def versions() -> tuple[str, ...]:
    """Every version that has a catalog, oldest first."""
    names = [entry.name for entry in resources.files("fleet.engines").iterdir()]
    return tuple(sorted((name[: -len(".json")] for name in names if FULL.fullmatch(name)), key=order))


def resolved(version: str) -> str | None:
    """The version whose catalog describes this one, or None.

    0.30.0, 0.30.0+cu129 and 0.30.0.dev1 are 0.30.0; 0.30 alone is the newest 0.30. 0.30.1 is not 0.30.0.
    """
    match = re.match(r"v?(\d+\.\d+)(\.\d+)?(?:[.+-]|$)", version)
    if match is None:
        return None
    if match[2]:
        return match[1] + match[2] if match[1] + match[2] in versions() else None
    return next((one for one in reversed(versions()) if one.startswith(f"{match[1]}.")), None)


def catalog_of(version: str) -> Catalog | None:
    """The catalog of a version; None where there is none: `fleet engine dump VERSION` makes it."""
    found = resolved(version)
    return _read(found) if found else None


@cache
def _read(version: str) -> Catalog:
    return Catalog.model_validate(_data(version))


@cache
def _data(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((resources.files("fleet.engines") / f"{version}.json").read_text("utf-8"))
    return found


def capabilities_of(version: str) -> dict[str, Capability]:
    """What a version that has a catalog can do; the flags are not looked at. KeyError for one that has none."""
    found = resolved(version)
    if found is None:
        raise KeyError(version)
    return {name: Capability(**one) for name, one in _data(found)["capabilities"].items()}


def missing(version: str) -> str:
    """What to say of a version without a catalog: what is there, and how it is made."""
    return (
        f"want an engine version with a catalog ({', '.join(versions())}), found {version}; "
        f"make it with: fleet engine dump {version}"
    )
