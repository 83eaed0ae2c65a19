"""What the stand-in says: the same words for the same prompt, and right sums."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator

SENTENCES = (
    "A rollout moves one node at a time.",
    "Each stage holds a slice of the layers.",
    "The pool is shared by all requests that run.",
    "A gate says what was wanted and what was found.",
    "Nothing is guessed, and unknown is not fine.",
    "The old release stays until the new one is proven.",
    "Links inside an island are fast, links between islands are not.",
    "A proof is a real answer to a real question.",
)
LOOP = "and then the same thing again"

_SUM = re.compile(
    r"(?:what is|what's|compute|calculate)\s+(-?\d{1,9})\s*([-+*/x×]|plus|minus|times)\s*(-?\d{1,9})",
    re.IGNORECASE,
)


class Plan:
    """An answer decided in advance. `pieces` are its tokens: words, each with the space before it."""

    def __init__(self, pieces: Iterator[str], finish_reason: str, stop_reason: str | None = None) -> None:
        self.pieces = pieces
        self.finish_reason = finish_reason
        self.stop_reason = stop_reason


def plan(prompt: str, max_tokens: int, stops: list[str], endless: bool, ignore_eos: bool) -> Plan:
    """The answer to a prompt. `endless` never ends by itself and obeys no stop text: only max_tokens ends it."""
    words = _words(prompt)
    if endless:
        first = itertools.islice(words, _length(prompt))
        looping = itertools.chain(first, itertools.cycle(LOOP.split()))
        return Plan(_pieces(itertools.islice(looping, max_tokens)), "length")
    length = max_tokens if ignore_eos else _length(prompt)
    text = " ".join(itertools.islice(words, min(length, max_tokens)))
    reason = "stop" if length <= max_tokens and not ignore_eos else "length"
    found = sorted((text.find(stop), stop) for stop in stops if stop and stop in text)
    if found:
        kept = text[: found[0][0]].split(" ")
        return Plan(_pieces(iter(kept)), "stop", found[0][1])
    return Plan(_pieces(iter(text.split(" "))), reason)


def count(text: str) -> int:
    """Tokens of a text: its words, at least one."""
    return max(1, len(text.split()))


def _pieces(words: Iterator[str]) -> Iterator[str]:
    for index, word in enumerate(words):
        yield word if index == 0 else " " + word


def _words(prompt: str) -> Iterator[str]:
    """Words without end; the first `_length(prompt)` of them are the answer."""
    total = _sum(prompt)
    if total is not None:
        yield from f"The answer is {total}.".split()
    start = zlib.crc32(prompt.encode())
    while True:
        yield from SENTENCES[start % len(SENTENCES)].split()
        start = zlib.crc32(start.to_bytes(4, "big"))


def _length(prompt: str) -> int:
    """Words of the whole answer: a sum alone, or two to four sentences."""
    total = _sum(prompt)
    if total is not None:
        return len(f"The answer is {total}.".split())
    start, words = zlib.crc32(prompt.encode()), 0
    for _ in range(2 + start // 7 % 3):
        words += len(SENTENCES[start % len(SENTENCES)].split())
        start = zlib.crc32(start.to_bytes(4, "big"))
    return words


def _sum(prompt: str) -> str | None:
    sums = list(_SUM.finditer(prompt))
    if not sums:
        return None
    match = sums[-1]  # the last question is the one that is asked
    left, right, sign = int(match[1]), int(match[3]), match[2].lower()
    if sign in ("+", "plus"):
        return str(left + right)
    if sign in ("-", "minus"):
        return str(left - right)
    if sign == "/":
        if right == 0:
            return "undefined"
        return str(left // right) if left % right == 0 else f"{left / right:.6g}"
    return str(left * right)
