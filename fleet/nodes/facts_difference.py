"""What changed on a node between two looks at it, field by field. Figures that move by themselves are left out."""

import difflib
import re
from collections.abc import Iterator
from typing import Any

from fleet.frozen import Frozen
from fleet.nodes.node import NodeFacts

IDENTITY = ("index", "gpu", "name", "path", "reference", "port", "id", "unit")
"""What names an entry of a list, in this order."""
RESTLESS = re.compile(
    r"(?:now|boot_id|lock|deep\.time|.*\.(?:memory_used_mib|main_pid|pid|free_bytes|room_bytes|error_age|reports|sha256))(?:[.\[].*)?"
)
"""Times, process ids, use of memory and disks; digests of files, whose text is compared."""


class FactDifference(Frozen):
    """One field that differs, in words. `diff`: lines of a unified diff, for text of several lines."""

    field: str
    before: str
    after: str
    diff: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.field}: changed" if self.diff else f"{self.field}: {self.before} -> {self.after}"


def facts_difference(before: NodeFacts, after: NodeFacts) -> tuple[FactDifference, ...]:
    """Every field of two answers of one node that differs, in order of the field."""
    old = dict(_flat("", before.model_dump(mode="json")))
    new = dict(_flat("", after.model_dump(mode="json")))
    fields = [field for field in dict.fromkeys((*old, *new)) if not RESTLESS.fullmatch(field)]
    return tuple(_difference(field, old, new) for field in fields if old.get(field) != new.get(field))


def _difference(field: str, old: dict[str, Any], new: dict[str, Any]) -> FactDifference:
    before, after = (_words(side[field]) if field in side else "nothing" for side in (old, new))
    one, other = (str(side.get(field) or "") for side in (old, new))
    diff: tuple[str, ...] = ()
    if "\n" in one + other:
        lines = difflib.unified_diff(one.splitlines(), other.splitlines(), "before", "after", lineterm="", n=1)
        diff = tuple(lines)
    return FactDifference(field=field, before=before, after=after, diff=diff)


def _words(value: Any) -> str:
    return "not told" if value is None else str(value)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Leaves by their dotted name, an entry of a list by what identifies it: `nvidia.gpus[3].memory_mib`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}".lstrip("."), inner)
    elif isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        for place, inner in enumerate(value):
            yield from _flat(f"{name}[{_identity(inner, place)}]", inner)
    elif isinstance(value, list) and value and all(isinstance(inner, list) for inner in value):
        yield name, " ".join("{" + ",".join(map(str, inner)) + "}" for inner in value)
    elif isinstance(value, list) and value:
        yield name, ", ".join(map(_words, value))
    elif not isinstance(value, list):
        yield name, value


def _identity(entry: dict[str, Any], place: int) -> Any:
    return next((entry[key] for key in IDENTITY if entry.get(key) is not None), place)
