"""Tells whether one generated answer is degenerate: a loop, a run, word salad, or nothing at all.

Whether the engine ended the answer by itself is the strongest evidence: what ends may repeat itself much (refrains,
tables, boilerplate), what was cut at max_tokens while it said nothing new would never have ended.
"""

import re
import zlib
from collections import Counter
from collections.abc import Callable

from fleet.frozen import Frozen
from fleet.proof.passages import (
    Repeat,
    repeats_at_the_end,
    rows_of_numbers,
    structured,
    unspaced,
    without_counters,
    words,
)
from fleet.proof.salad import salad

ENDED = ("stop", "tool_calls", "function_call")
"""finish_reasons with which the engine says that the answer is whole."""
_RULERS = frozenset("-=_*#~.+ \n\t│─═|")
_BROKEN = 8
"""A cut leaves half a character, which shows as three of U+FFFD at most."""
_ROUNDS = 16
"""An answer that ended may count so far and say the same of each."""
_SHOWN = 60
_MARKER = re.compile(r"<\|(?:im_start|im_end|endoftext|eot_id|end_of_text|start_header_id|user|assistant|end)\|>|</s>")


_UNSEEN = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
"""Blanks, and characters without width."""


class Judgement(Frozen):
    """Is an answer degenerate, and why, or why not."""

    degenerate: bool
    why: str

    def __str__(self) -> str:
        return f"{'degenerate' if self.degenerate else 'sound'}: {self.why}"


def judge(text: str, finish_reason: str | None, max_tokens: int | None = None) -> Judgement:
    """The judgement of one answer. `finish_reason` as the engine gave it; None where it gave none, as a cut stream.

    `max_tokens` is what the answer was allowed, in tokens; it decides only where there is no text.
    """
    text = text.encode("utf-8", "replace").decode()  # half a pair of surrogates is no text that can be shown
    ended = finish_reason in ENDED
    checks: list[Callable[[str, bool], str | None]] = [_loop, _closed, _nothing_new, _markers, _same_call]
    if not text.strip(_UNSEEN):
        limit = f"{max_tokens} tokens" if max_tokens else "all tokens that it was allowed"
        if ended:
            return Judgement(degenerate=False, why="no text, ended by itself")
        return Judgement(degenerate=True, why=f"no visible text in {limit}")
    blank = len(text) - len(text.rstrip(_UNSEEN))
    if not ended and blank >= 200:
        return Judgement(degenerate=True, why=f"ends in {blank} blank characters")
    whole = text.rstrip(" \n\t\r\ufffd")
    broken = text[len(whole) :].count("\ufffd")
    if broken >= _BROKEN:
        return Judgement(degenerate=True, why=f"ends in {broken} characters that no text has (U+FFFD)")
    for check in checks:
        why = check(whole, ended)
        if why is not None:
            return Judgement(degenerate=True, why=why)
    why = salad(whole, ended)
    if why is not None:
        return Judgement(degenerate=True, why=why)
    return Judgement(degenerate=False, why="ended by itself" if ended else "cut, and went on with something new")


def _loop(text: str, ended: bool) -> str | None:
    """It ends in one passage again and again, counters aside."""
    without_last_word = text[: text.rfind(" ")] if " " in text[-40:] else text
    for version in dict.fromkeys((text, without_counters(text), without_counters(without_last_word))):
        for repeat in repeats_at_the_end(version):
            if version is not text and rows_of_numbers(version, repeat):
                continue  # a table that was asked for, and not yet at its end
            share = repeat.length / max(1, len(version))
            if ended and version is not text and repeat.times < _ROUNDS:
                continue  # twelve weeks of a plan, and it said itself that these are all
            if (_kept_on if ended else _goes_round)(repeat, share):
                return f"the last {repeat.length} characters are {_quoted(repeat.unit)} {repeat.times:.1f} times"
    return None


def _content(unit: str) -> int:
    """Words of a passage that say something; a character of an unspaced script is half of one."""
    return sum(len(word) > 1 and word.isalpha() for word in words(unit)) + unspaced(unit) // 2


def _goes_round(repeat: Repeat, share: float) -> bool:
    """Would an answer that was cut here ever have ended? What has words is a loop sooner than zeros and rules are."""
    times, length = repeat.times, repeat.weight
    if _content(repeat.unit) >= 2:
        long = (times >= 3.9 and length >= 120) or (times >= 2.9 and length >= 240) or (times >= 2.5 and length >= 600)
        return long or (share >= 0.5 and times >= 3.9 and length >= 60)
    mere_rule = set(repeat.unit) <= _RULERS
    if share >= 0.5 and times >= 8:
        return length >= (200 if mere_rule else 40)
    return times >= 6 and length >= (400 if mere_rule else 160)


def _kept_on(repeat: Repeat, share: float) -> bool:
    """Is an answer that ended nothing but a repetition? Refrains and the rows of a table are a smaller part of it."""
    times, length = repeat.times, repeat.weight
    if _content(repeat.unit) < 2:
        alone = not set(repeat.unit) <= _RULERS and any(c.isalpha() or c in "!?" for c in repeat.unit)
        return alone and share >= 0.8 and times >= 20 and length >= 200
    if structured(repeat.unit):
        return False
    short = times >= 6 and length >= 200 and share >= 0.5
    return (
        short or (times >= 2.9 and length >= 400 and share >= 0.6) or (times >= 10 and length >= 400 and share >= 0.25)
    )


def _closed(text: str, ended: bool) -> str | None:
    """It moves in a closed circle: the same few turns of phrase or sentences, in whatever order."""
    if ended:
        return None
    steady = without_counters(text)
    said = words(steady)
    width = 10 if unspaced(steady) > len(said) // 2 else 5
    for size in (120, 240, 480, 960):
        tail = said[-size:]
        spoken = [word for word in tail if word.isalpha() or word == "#"]
        if len(tail) < size or len(spoken) < size // 2 or len(set(spoken)) < 6:
            continue
        grams = {tuple(tail[i : i + width]) for i in range(size - width + 1)}
        if len(grams) <= 0.2 * (size - width + 1):
            return f"the last {size} words are {len(grams)} turns of {width} words, over and over"
    return _few_sentences(steady) or _few_phrases(text)


def _few_phrases(text: str) -> str | None:
    """The same handful of short sentences (`Wait. Let me think. Hold on.`) in whatever order."""
    tail = text[-4000:]
    units = [tuple(words(unit)) for unit in re.split(r"[.!?。！？]+", tail)][1:-1][-60:]
    said = [unit for unit in units if len(unit) > 0]
    if len(said) < 60 or tail.count("\n") > 20 or any(word.isdigit() for unit in said for word in unit):
        return None
    different = set(said)
    if len(different) > 8 or sum(map(len, said)) < 1.5 * len(said):
        return None
    return f"the last {len(said)} sentences are {len(different)} different ones"


def _few_sentences(text: str) -> str | None:
    units = [" ".join(words(unit)) for unit in re.split(r"[.!?。！？\n]+", text)]
    long = [unit for unit in units if len(unit.split()) >= 4][:-1]  # the last one is cut
    counted = Counter(long)
    for size in (16, 32, 64):
        tail = long[-size:]
        if len(tail) < size:
            return None
        seen = sum(counted[unit] >= 3 for unit in tail)
        if seen >= 0.9 * size and len(set(tail)) <= 0.4 * size:
            return f"{seen} of the last {size} sentences stand there three times and more"
    return None


def _nothing_new(text: str, ended: bool) -> str | None:
    """Its end tells nothing that was not said before: it costs next to no bytes (DEFLATE) once the rest is known."""
    size = 1200
    if ended or len(text) < 2 * size:
        return None
    raw = text.encode("utf-8", "replace")[-30_000:]
    tail = len(text[-size:].encode("utf-8", "replace"))
    cost = len(zlib.compress(raw, 9)) - len(zlib.compress(raw[:-tail], 9))
    return f"the last {size} characters add {cost} bytes to what was said before" if cost <= 0.035 * tail else None


def _markers(text: str, ended: bool) -> str | None:
    """The template's own marks as text, again and again: it has gone past its end and talks with itself."""
    prose = re.sub(r"```.*?(?:```|\Z)|`[^`\n]*`", "", text, flags=re.DOTALL)
    found = _MARKER.findall(prose)
    return f"goes on past its end: {len(found)} times {found[0]}" if not ended and len(found) >= 3 else None


_CALL = re.compile(r"<(tool_call|function_call|invoke)\b.*?</\1>", re.DOTALL)
_ID = re.compile(r"\b(?:[a-z]+[_-])?(?=\w*\d)[0-9a-zA-Z]{6,}\b")
_CALLS = 8


def _same_call(text: str, ended: bool) -> str | None:
    """One call of a tool after the other, the same each time but for its id, and nothing was waited for."""
    calls = [_ID.sub("#", match[0]) for match in _CALL.finditer(text)][-2 * _CALLS :]
    if len(calls) >= _CALLS and len(set(calls)) == 1:
        return f"the last {len(calls)} calls are the same: {_quoted(calls[0])}"
    return None


def _quoted(unit: str) -> str:
    shown = " ".join(unit.split()) or "blank"
    return repr(shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…")
