"""A declared value that remembers where it was written, through every merge."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Origin:
    """Where a value was written: a line of a file (counted from 1), or an option of the command line."""

    field: str = ""
    """Dotted name, as it stands in that file: `services.glm.port`."""
    file: Path | None = None
    line: int | None = None
    secret: bool = False
    """Below a `secrets:`, where somebody may have written the secret itself: never to be shown."""

    @property
    def place(self) -> str:
        """`inventory/lab/a1.yaml:7`, seen from the working directory; empty for an option."""
        if self.file is None:
            return ""
        return shown(self.file) + (f":{self.line}" if self.line else "")

    def below(self, key: str | int, line: int | None = None) -> "Origin":
        """The origin of an entry of this mapping or list."""
        name = f"{self.field}[{key}]" if isinstance(key, int) else f"{self.field}.{key}".lstrip(".")
        return replace(self, field=name, line=line or self.line, secret=self.secret or key == "secrets")


@dataclass(frozen=True)
class Located:
    """A value with its origin. Mappings hold Located values by key, lists in order."""

    value: "Scalar | dict[str, Located] | list[Located]"
    origin: Origin
    written: str | None = None
    """A scalar's own text, so that an error can show `0.30` and not `0.3`."""

    def plain(self) -> Any:
        """The value alone."""
        if isinstance(self.value, dict):
            return {key: entry.plain() for key, entry in self.value.items()}
        return [entry.plain() for entry in self.value] if isinstance(self.value, list) else self.value

    def entries(self) -> Iterator[tuple[str, "Located"]]:
        """Keys and values of a mapping; nothing for anything else."""
        return iter(self.value.items() if isinstance(self.value, dict) else ())

    def get(self, key: str) -> "Located | None":
        """An entry of a mapping; None where there is none or this is no mapping."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def with_entry(self, key: str, entry: "Located") -> "Located":
        """This mapping with one entry set."""
        return replace(self, value={**dict(self.entries()), key: entry})

    def without(self, *keys: str) -> "Located":
        """This mapping with those entries gone."""
        return replace(self, value={key: entry for key, entry in self.entries() if key not in keys})


def locate(value: Any, origin: Origin) -> Located:
    """A plain value, all of it from one origin."""
    if isinstance(value, dict):
        return Located({str(key): locate(entry, origin.below(str(key))) for key, entry in value.items()}, origin)
    if isinstance(value, (list, tuple)):
        return Located([locate(entry, origin.below(index)) for index, entry in enumerate(value)], origin)
    return Located(value, origin)


def shown(path: Path) -> str:
    """A path as seen from the working directory, where it lies below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
