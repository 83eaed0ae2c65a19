"""argparse as `vllm serve` uses it (CPython 3.11 and 3.12), over a catalog, going on after a mistake.

Not Python's own argparse: that ends at the first mistake and differs between the Pythons that a controller may have,
while the engine's answer depends on the Python in its image.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from fleet.argv.catalog import Catalog, FlagInfo
from fleet.argv.values import Refused

NEGATIVE_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")
TOP_OPTIONS = ("-h", "--help", "-v", "--version")


class Given(NamedTuple):
    """One flag as it was given: by which spelling, with which words."""

    flag: FlagInfo
    spelling: str
    words: tuple[str, ...]


class Option(NamedTuple):
    """A word that looks like a flag; `flag` None where no flag has that name."""

    flag: FlagInfo | None
    spelling: str
    explicit: str | None
    """What stands behind its equals sign, or behind the letter of a short flag."""


class Parsed:
    """What argparse makes of the words after `serve`."""

    def __init__(self, catalog: Catalog, words: list[str]) -> None:
        self.catalog = catalog
        self.words = words
        self.given: list[Given] = []
        self.refused: list[Refused] = []
        self.unrecognized: list[int] = []
        """Places of words that nothing takes."""
        self.abbreviated: dict[str, str] = {}
        self.asks_help = False
        """The help is printed, and nothing after it is looked at."""
        self.options: dict[int, Option] = {}
        self.pattern = "".join(self._classified())
        self._model = next((flag for flag in catalog.flags if flag.flag is None), None)
        self._walk()

    def _classified(self) -> Iterator[str]:
        """A for a word that is a value or the model, O for a flag, - for `--`, after which all are A."""
        only_values = False
        for place, word in enumerate(self.words):
            if only_values:
                yield "A"
            elif word == "--":
                only_values = True
                yield "-"
            else:
                try:
                    option = self._option(word)
                except Refused as refused:
                    self.refused.append(refused)
                    option = Option(None, word, None)
                if option is not None:
                    self.options[place] = option
                yield "A" if option is None else "O"

    def _option(self, word: str) -> Option | None:
        names = self.catalog.options
        if not word.startswith("-"):
            return None
        if word in names:
            return Option(names[word], word, None)
        if len(word) == 1:
            return None
        name, equals, value = word.partition("=")
        if equals and name in names:
            return Option(names[name], name, value)
        found = self._by_prefix(word)
        if len(found) > 1:
            could = ", ".join(sorted(option.spelling for option in found))
            raise Refused(f"{word} is ambiguous, it could be {could}", word, "write the whole name")
        if found:
            self.abbreviated[name if word.startswith("--") else word] = found[0].spelling
            return found[0]
        if NEGATIVE_NUMBER.match(word) or " " in word:
            return None
        return Option(None, word, None)

    def _by_prefix(self, word: str) -> list[Option]:
        names = self.catalog.options
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            return [Option(flag, n, value if equals else None) for n, flag in names.items() if n.startswith(name)]
        found = []
        for name, flag in names.items():
            if name == word[:2]:
                found.append(Option(flag, name, word[2:]))
            elif name.startswith(word):
                found.append(Option(flag, name, None))
        return found

    def _walk(self) -> None:
        place, last = 0, max(self.options, default=-1)
        while place <= last:
            following = min(at for at in self.options if at >= place)
            if place != following:
                after = self._positional(place)
                if after > place:
                    place = after
                    continue
            if place not in self.options:
                self.unrecognized += range(place, following)
                place = following
            place = self._optional(place)
            if self.asks_help:
                self.unrecognized.clear()
                return
        self.unrecognized += range(self._positional(place), len(self.words))

    def _positional(self, place: int) -> int:
        """Take the model where it was not taken yet; the place after it."""
        if self._model is None:
            return place
        match = re.match(r"(-*A?-*)", self.pattern[place:])
        count = len(match[1]) if match else 0
        words = self.words[place : place + count]
        if "--" in words:
            words.remove("--")
        if words:
            self.given.append(Given(self._model, "", tuple(words)))
        self._model = None
        return place + count

    def _optional(self, place: int) -> int:
        flag, spelling, explicit = self.options[place]
        while True:
            if flag is None:
                self.unrecognized.append(place)
                return place + 1
            if explicit is None:
                return self._following(flag, spelling, place + 1)
            count = self._count(flag, "A")
            if count == 0 and not spelling.startswith("--") and explicit != "":
                self.given.append(Given(flag, spelling, ()))
                spelling, rest = f"-{explicit[0]}", explicit[1:] or None
                if spelling not in self.catalog.options:
                    self.refused.append(_ignored(flag, explicit))
                    return place + 1
                flag, explicit = self.catalog.options[spelling], rest
            elif count == 1:
                self.given.append(Given(flag, spelling, (explicit,)))
                return place + 1
            else:
                self.refused.append(_ignored(flag, explicit))
                return place + 1

    def _following(self, flag: FlagInfo, spelling: str, place: int) -> int:
        """Take a flag's values from the words after it."""
        self.asks_help = flag.action == "help"
        count = self._count(flag, self.pattern[place:])
        if count is None:
            least = "at least one argument" if flag.nargs == "+" else f"{flag.nargs or 'one'} argument"
            self.refused.append(Refused(f"expected {least}", spelling, self._torn(place)))
            return place
        self.given.append(Given(flag, spelling, tuple(self.words[place : place + count])))
        return place + count

    def _torn(self, place: int) -> str | None:
        word = self.words[place] if place < len(self.words) else ""
        return f"write {self.words[place - 1]}={word} where {word} is meant as its value" if word[:1] == "-" else None

    def _count(self, flag: FlagInfo, pattern: str) -> int | None:
        """How many of the words (as letters) a flag takes; None where too few are there."""
        if not flag.takes_value:
            return 0
        wanted = {None: "A", "?": "A?", "*": "A*", "+": "AA*"}
        regex = wanted[flag.nargs] if not isinstance(flag.nargs, int) else "A" * flag.nargs
        match = re.match(regex, pattern)
        return len(match[0]) if match else None


def _ignored(flag: FlagInfo, explicit: str) -> Refused:
    """`--enable-x=False`: a flag that takes no value was given one."""
    negative = flag.negative[0] if flag.negative else None
    word = explicit.lower()
    off = word in ("false", "0", "no", "off")
    suggestion = (negative or f"leave {flag.flag} out") if off else flag.flag
    return Refused("takes no value", flag.flag, suggestion, explicit)


def ambiguous_at_top(words: list[str]) -> Refused | None:
    """`vllm` itself looks at every word first, with the few flags of its own."""
    for word in words:
        if word == "--":
            return None
        name = word.partition("=")[0]
        if word not in TOP_OPTIONS and name not in TOP_OPTIONS and name == "--":
            return Refused(f"{word} is ambiguous, it could be --help, --version", word)
    return None


def values_of(given: Given) -> Any:
    """The words of a flag: one, a list, or nothing where it takes none."""
    return given.words[0] if len(given.words) == 1 and given.flag.nargs in (None, "?") else given.words
