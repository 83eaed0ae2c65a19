"""What is wrong with a declaration, in one wording: WHERE: FIELD: want WHAT, found WHAT."""

import json
from collections.abc import Iterable
from difflib import get_close_matches

from declare.located import Located, Origin

LONGEST_SHOWN = 60
MOST_SHOWN = 50


class DeclarationError(ValueError):
    """The declaration cannot be used. `lines` holds every problem that was found, not only the first."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(dict.fromkeys(lines))
        super().__init__("\n".join(self.lines))


def line(origin: Origin, want: str, found: str, field: str | None = None) -> str:
    """One problem. `field` replaces the field's name where it is not the origin's own."""
    where = f"{origin.place}: " if origin.place else ""
    name = origin.field if field is None else field
    return f"{where}{f'{name}: ' if name else ''}want {want}, found {found}"


def unknown(origin: Origin, name: str, known: Iterable[str], what: str = "field") -> str:
    """A name that nobody knows: with the nearest one that somebody does, or with all of them."""
    return line(origin, *choice(name, known, what))


def choice(name: str, known: Iterable[str], what: str) -> tuple[str, str]:
    """What was wanted and what was found, where `name` is none of the known ones."""
    names = sorted(known) if isinstance(known, set) else list(known)
    near = nearest(name, names)
    if near is not None:
        return f"a known {what}", f'"{name}"; did you mean "{near}"?'
    shown = [*names[:MOST_SHOWN], "..."] if len(names) > MOST_SHOWN else names
    return (f"one of {', '.join(shown)}" if names else f"no {what} (there is none)"), f'the unknown {what} "{name}"'


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like this one; None where nothing looks like it."""
    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def found(value: Located) -> str:
    """The value as an operator wrote it; never a secret's."""
    if value.origin.secret:
        return "a value that is not shown"
    if value.value is None:
        return "nothing"
    if isinstance(value.value, str):
        return _short(json.dumps(value.value, ensure_ascii=False))
    if value.written is not None:
        return _short(value.written)
    if isinstance(value.value, dict):
        return "a mapping"
    if isinstance(value.value, list) and any(isinstance(entry.value, (dict, list)) for entry in value.value):
        return "a list"
    return _short(json.dumps(value.plain(), ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."
