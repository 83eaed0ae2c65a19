"""A text as a detector of loops looks at it: its words, its counters, the passage that it ends in again and again."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from fleet.frozen import Frozen

# Scripts without spaces between words: there each character counts as a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|\d+|[^\W\d_{_UNSPACED}]+(?:['’][^\W\d_{_UNSPACED}]+)*")
_SINGLE = re.compile(f"[{_UNSPACED}]")
_NUMBER = re.compile(r"\d+")
_STRUCTURE = re.compile(r'[{}\[\]<>|;="\t\\]')
_SQL = re.compile(r"\bINSERT INTO \S.{0,200}?\bVALUES\s*\(", re.IGNORECASE | re.DOTALL)
_CONTEXT = re.compile(r"[^\W\d_]*[\W\d_]*\Z")
_CHANCE = 3
"""Numbers of one place that go on from each other: fewer do so by chance."""
_LONGEST = 40_000
"""Characters at the end that are looked at for a period: an answer of some 10,000 tokens."""


_ORDINAL = re.compile(
    r"(?:(?<=第)|(?:(?<=^)|(?<=[\n。]))(?=[^\n。]{1,5}[、.．:：]))[零〇一二三四五六七八九十百]{1,5}",
    re.MULTILINE,
)
"""A Chinese numeral that counts: behind 第, or before the mark behind the number of an entry."""
_CHINESE = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0}


def _in_digits(match: re.Match[str]) -> str:
    """A Chinese numeral below a thousand in digits; as it is where it is none."""
    total, now = 0, 0
    for sign in match[0]:
        if sign in "十百":
            total, now = total + (now or 1) * (10 if sign == "十" else 100), 0
        else:
            now = now * 10 + _CHINESE[sign]
    return str(total + now)


def words(text: str) -> list[str]:
    """Words and numbers in small letters; each character of a script without spaces is one."""
    return [word.lower() for word in _WORD.findall(text)]


def unspaced(text: str) -> int:
    """Characters of scripts that put no spaces between words."""
    return len(_SINGLE.findall(text))


def structured(text: str) -> bool:
    """Is this data or code more than prose? By the share of brackets, bars, quotes and equals signs."""
    return len(_STRUCTURE.findall(text)) > 0.03 * max(1, len(text))


def without_counters(text: str) -> str:
    """The text with each number that goes on as the ones before it in the same place replaced by `#`.

    A number that could be foretold tells nothing: `Step 41: again`, `Step 42: again` is a loop. In data several
    counters side by side are what was asked for (`{"id": 7, "name": "user7"}`), so there only a single one is taken.
    What counts down in several places comes to its end by itself, as a song of ten bottles does: it is left too.
    """
    text = _ORDINAL.sub(_in_digits, text)
    found = list(_predicted(text))
    counted = Counter(place for place, _ in found)
    places = [place for place, times in counted.items() if times >= _CHANCE]
    if len(places) > 1 and (structured(text) or _SQL.search(text) or _falls([int(match[0]) for _, match in found])):
        return text
    parts, end = [], 0
    for _, match in found:
        parts += [text[end : match.start()], "#"]
        end = match.end()
    return "".join([*parts, text[end:]])


def _falls(values: list[int]) -> bool:
    """Do these numbers go down, and end below where they began?"""
    return values[0] > values[-1] and all(a >= b for a, b in pairwise(values))


def _predicted(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Numbers that continue the steps of those before them behind the same characters, and these characters."""
    last: dict[str, int] = {}
    step: dict[str, int] = {}
    for match in _NUMBER.finditer(text):
        if len(match[0]) > 12:
            continue
        place, value = _place(text[max(0, match.start() - 12) : match.start()]), int(match[0])
        if place in last:
            now = value - last[place]
            if now and (abs(now) == 1 or step.get(place) == now):
                yield place, match
            step[place] = now
        last[place] = value


def _place(before: str) -> str:
    """What tells one number of a turn of phrase from another: its line's beginning, or the word before it."""
    _, line, rest = before.rpartition("\n")
    word = _CONTEXT.search(rest)
    return line + _NUMBER.sub("#", word[0] if word else "")


class Repeat(Frozen):
    """A text ends in `unit`, over and over, for `length` characters (the last time may be cut)."""

    unit: str
    length: int

    @property
    def times(self) -> float:
        return self.length / len(self.unit)

    @property
    def weight(self) -> float:
        """The length in letters of a spaced script: a character of the others says as much as two and a half."""
        return self.length * (1 + 1.5 * unspaced(self.unit) / len(self.unit))


def repeats_at_the_end(text: str) -> list[Repeat]:
    """Every way in which the text ends in a repetition, the longest stretch first.

    By the failure function of the reversed text (Knuth, Morris, Pratt): the shortest period of each suffix, in
    linear time.
    """
    back = text[-_LONGEST:][::-1]
    border = [0] * len(back)
    found: list[Repeat] = []
    k = 0
    for i in range(1, len(back)):
        while k and back[i] != back[k]:
            k = border[k - 1]
        if back[i] == back[k]:
            k += 1
        border[i] = k
        ended = i + 1 == len(back) or back[i + 1] != back[k]  # a longer suffix has another period
        length, period = i + 1, i + 1 - k
        if ended and length >= 2 * period:
            found.append(Repeat(unit=back[:period][::-1], length=length))
    return found[::-1]


_LETTERS = re.compile(r"[^\W\d_]{2,}")
_ROW = re.compile(r"\n[^\s,#]*#[^\s,]*(?:,[^\s,]+)+\n")  # a CSV: no spaces, a counter in the first field
_OPEN_ARRAY = re.compile(r"[\[({][\s\d#,;.+-]*\Z")


def rows_of_numbers(text: str, repeat: Repeat) -> bool:
    """Is what goes round data: lines of two numbers and more each, the items of an open bracket, rows of a CSV?

    `text` is one `without_counters`: a column that counts up looks there like a passage that stands still. A line with
    one number and nothing else (`41.`, `42.`) is an empty list that goes on and on.
    """
    if _LETTERS.search(repeat.unit):
        return bool(_ROW.search(repeat.unit + repeat.unit))
    numbers, lines = len(re.findall(r"[\d#]+", repeat.unit)), repeat.unit.count("\n")
    if lines:
        return numbers >= 2 * lines
    return numbers > 0 and bool(_OPEN_ARRAY.search(text[: len(text) - repeat.length]))
