"""Layers of one mapping, the later one winning. Mappings merge, all else replaces, null takes away."""

from collections.abc import Iterable
from functools import reduce

from declare.located import Located

Path = tuple[str, ...]


def merge(layers: Iterable[Located]) -> Located | None:
    """All layers of one service (or catalogue, or policy) in one; None where there is no layer."""
    present = list(layers)
    return reduce(_over, present[1:], _over(present[0], present[0])) if present else None


def _over(lower: Located, upper: Located, path: Path = ()) -> Located:
    """`upper` laid over `lower`. Nulls are taken away here, so that a null in the only layer means the default."""
    if not isinstance(upper.value, dict):
        return upper
    below = dict(lower.entries())
    for key, entry in upper.value.items():
        here = (*path, key)
        if entry.value is None and not _null_is_data(here):
            below.pop(key, None)
        else:
            below[key] = _over(below.get(key, entry), entry, here)
    from_file = upper.origin.file is not None or not isinstance(lower.value, dict)
    return Located(below, upper.origin if from_file else lower.origin)


def _null_is_data(path: Path) -> bool:
    """Inside of a JSON value of the engine, null is a value of its own."""
    return (path[0] == "hf_overrides" and len(path) > 1) or (path[0] == "flags" and len(path) > 2)
