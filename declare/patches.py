"""The patches of a site and of this project: `patches/VERSION/NAME/patch.yaml`, the site's own first."""

from collections.abc import Iterable
from pathlib import Path

from declare.located import Origin
from declare.problem import DeclarationError, line
from declare.reader import read_yaml
from declare.validate import build
from fleet.engines.patch import PATCH_NAME, Patch

FILE = "patch.yaml"


def read_patches(folders: Iterable[Path], problems: list[str]) -> tuple[Patch, ...]:
    """Every patch below these folders, in their order; what cannot be used is told in `problems`."""
    found: list[Patch] = []
    for root in folders:
        mine: list[Patch] = []
        for path in sorted(root.glob(f"*/*/{FILE}")):
            patch = _read(path, problems)
            if patch is None:
                continue
            problems.extend(_twice(path, patch, mine))
            mine.append(patch)
        found += mine
    return tuple(found)


def _read(path: Path, problems: list[str]) -> Patch | None:
    name = path.parent.name
    if not PATCH_NAME.fullmatch(name):
        want = "a folder named with small letters, digits and dashes"
        problems.append(line(Origin(file=path), want, name))
        return None
    try:
        return build(Patch, read_yaml(path), problems, name=name)
    except DeclarationError as error:
        problems.extend(error.lines)
        return None


def _twice(path: Path, patch: Patch, others: list[Patch]) -> list[str]:
    """Two patches of one name are for different versions of the engine: else it would be chance which one is taken."""
    both = {version for other in others if other.name == patch.name for version in other.versions}
    shared = sorted(both & set(patch.versions))
    at = Origin(file=path)
    return (
        [line(at, f"one patch {patch.name} for each engine version", f"two for {', '.join(shared)}")] if shared else []
    )
