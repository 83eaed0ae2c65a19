"""What the stand-in says: the same words for the same prompt, and what it knows."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator

from . import knowledge

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


class Plan:
    """An answer decided in advance. `pieces` are its tokens: words, each with the space before it."""

    def __init__(self, pieces: Iterator[str], finish_reason: str, stop_reason: str | None = None) -> None:
        self.pieces = pieces
        self.finish_reason = finish_reason
        self.stop_reason = stop_reason


def plan(
    prompt: str,
    max_tokens: int,
    stops: list[str],
    endless: bool,
    ignore_eos: bool,
    *,
    question: str | None = None,
    rambling: bool = False,
    dull: bool = False,
) -> Plan:
    """The answer to a prompt, of which `question` is the part that is asked (None: all of it).

    `endless` loops and `rambling` goes on with something new: neither ends by itself nor obeys a stop text, only
    max_tokens ends it. `dull` answers wrongly.
    """
    answer = knowledge.reply(prompt, prompt if question is None else question, dull)
    words = _words(prompt, answer)
    if endless or rambling:
        first = words if rambling else itertools.islice(words, _length(prompt, answer))
        looping = first if rambling else itertools.chain(first, itertools.cycle(LOOP.split()))
        return Plan(_pieces(itertools.islice(looping, max_tokens)), "length")
    length = max_tokens if ignore_eos else _length(prompt, answer)
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


def _words(prompt: str, answer: str | None) -> Iterator[str]:
    """Words without end; the first `_length` of them are the answer."""
    if answer is not None:
        yield from answer.split()
    start = zlib.crc32(prompt.encode())
    while True:
        yield from SENTENCES[start % len(SENTENCES)].split()
        start = zlib.crc32(start.to_bytes(4, "big"))


def _length(prompt: str, answer: str | None) -> int:
    """Words of the whole answer: what is known alone, or two to four sentences."""
    if answer is not None:
        return len(answer.split())
    start, words = zlib.crc32(prompt.encode()), 0
    for _ in range(2 + start // 7 % 3):
        words += len(SENTENCES[start % len(SENTENCES)].split())
        start = zlib.crc32(start.to_bytes(4, "big"))
    return words
