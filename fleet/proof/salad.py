"""Finds prose that has fallen apart: few words in no order, or words that no sentence holds together.

Judged are stretches of words with single spaces between them. Lists, tables, data and code are left alone.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from fleet.proof.passages import structured, unspaced, words

TAIL = 300
"""Words at the end that are judged."""
_LETTERS = 600
"""Characters at the end that are judged letter by letter."""
FEWEST = 80
"""Fewer words than this say nothing."""
LOW_ENTROPY = 4.2
"""Bits a word. English prose of 100 words has 6 and more, a poem with refrains 5, forty words at random 5.3."""
_VERSE = 200
"""Words below which a song for children has as few different ones, in an order of their own."""
_SHARE = 0.11
"""Of different words among the last: a list of capitals in one form of words has 0.18, a lecture 0.3 and more."""
_DETERMINERS = frozenset({"the", "a", "an"})
_NEVER_AFTER = frozenset(
    {
    "the", "a", "an", "of", "and", "is", "are", "was", "to", "in", "on", "at", "for", "with", "from", "by",
    "or", "but", "it", "he", "she", "they", "we", "be", "been", "has", "have", "that", "this", "these", "will",
    "would", "can", "could", "as", "if", "because",
    }
)  # fmt: skip
"""After a determiner English wants a noun phrase, and none begins with one of these."""
_FUNCTION = _NEVER_AFTER | frozenset(
    {
    "i", "you", "not", "no", "so", "do", "does", "did", "its", "his", "her", "their", "our", "my", "your",
    "which", "who", "what", "when", "where", "how", "there", "then", "than", "about", "into", "over", "up",
    "out", "all", "one", "some", "any", "more", "just", "like",
    }
)  # fmt: skip
_PLAIN = re.compile(r"[#@]?[^\W\d_]+(?:['’-][^\W\d_]+)*[.,!?]?")


def salad(text: str, ended: bool = False) -> str | None:
    """Why the end of this text is no language, or None. `ended` says that the engine ended it by itself."""
    if not structured(text[-4000:]):
        why = _few_words(text, ended) or _no_grammar(text) or _scripts_mixed(text) or _no_words(text)
        if why is not None:
            return why
    return _no_characters(text) or _garbled(text) or _unbroken(text, ended) or _letters_mixed(text)


def _no_characters(text: str) -> str | None:
    """Controls, private use, unassigned: no text has many of these (Unicode categories C but for Cf, formats)."""
    tail = text[-_LETTERS:]
    bad = sum(unicodedata.category(one) in ("Cc", "Co", "Cn", "Cs") for one in tail if one not in "\n\r\t\x1b")
    return f"{bad} of the last {len(tail)} characters stand for nothing" if bad >= max(40, 0.1 * len(tail)) else None


_GARBLED = re.compile(
    "[\u00c2\u00c3\u00c4\u00c5\u00ce\u00cf\u00d0\u00d1\u00d8\u00d9\u00e2\u00ef\u00f0]"
    "[\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014\u2018-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122]+"
)
"""The bytes of one character in UTF-8, each read as a character of its own (Latin-1, Windows-1252)."""
_TOKENS = re.compile(r"[\u0120\u010a\u2581]")
"""What vocabularies of tokens write for a blank and the end of a line; the first two are capitals of Maltese."""


def _garbled(text: str) -> str | None:
    """Text that was decoded in the wrong way, or not at all: some of it may be quoted, no answer is made of it."""
    tail = text[-_LETTERS:]
    wrong = sum(len(part) for part in _GARBLED.findall(tail))
    if wrong >= 80 and wrong > 0.25 * len(tail):
        return f"{wrong} of the last {len(tail)} characters are bytes of others"
    marks = len(_TOKENS.findall(tail))
    return f"{marks} marks of the vocabulary within the last {len(tail)} characters" if marks >= 20 else None


def _unbroken(text: str, ended: bool) -> str | None:
    """Letters without end, no blank between them: no word is so long, and what is encoded has digits or capitals."""
    piece = text[-2000:].split()[-1] if text.split() else ""
    if ended or len(piece) < 400 or unspaced(piece) or "://" in piece:
        return None
    small, digits = sum(one.islower() for one in piece), sum(one.isdigit() for one in piece)
    if small < 0.5 * len(piece) or digits > 0.02 * len(piece) or len(_BRACKETS.findall(piece)) > 0.1 * len(piece):
        return None
    return f"{len(piece)} characters without a blank"


_BRACKETS = re.compile(r"[(){}\[\]<>=;:,/]")


def _entropy(items: Sequence[str]) -> float:
    """Bits of information of one item, by how often each occurs."""
    total = len(items)
    return -sum(n / total * math.log2(n / total) for n in Counter(items).values())


def _running_words(text: str) -> list[str]:
    """Words of the end, where they stand as in prose. Empty where most are entries of a list or of a table."""
    tail = text[-12 * TAIL :]
    pieces = tail.split()[-TAIL:]
    plain = [piece for piece in pieces if _PLAIN.fullmatch(piece)]
    listed = sum(piece[-1] in ",.!?" for piece in plain)
    lines = tail.count("\n")
    if len(plain) < 0.9 * len(pieces) or listed > 0.4 * len(plain) or lines > 0.25 * max(1, len(pieces)):
        return []
    found = [piece.strip(".,!?#@").lower() for piece in plain]
    upper = sum(piece.isupper() for piece in plain)
    short = sum(len(word) < 3 for word in found)
    return [] if upper > 0.5 * len(found) or short > 0.6 * len(found) else found


def _side_by_side(text: str) -> Iterator[tuple[str, str]]:
    """Pairs of words with nothing between them: after `the ` and a name in quotes the next word may be any."""
    for a, b in pairwise(text[-12 * TAIL :].split()[-TAIL:]):
        if _PLAIN.fullmatch(a) and _PLAIN.fullmatch(b) and a[-1] not in ",.!?":
            yield a.lower(), b.strip(",.!?").lower()


def _few_words(text: str, ended: bool) -> str | None:
    """Hardly any different words, and they come in no order that repeats."""
    if unspaced(text[-TAIL:]) > TAIL // 2:
        found = [word for word in words(text[-TAIL:]) if not word.isdigit()]
    else:
        found = _running_words(text)
    if len(found) < FEWEST:
        return None
    bits = _entropy(found)
    verse = bits >= 3.5 and len(found) < _VERSE and not _independent(found, 0.75)
    if bits < LOW_ENTROPY and not verse and not (ended and _ordered(found)):
        return f"the last {len(found)} words carry {bits:.1f} bits each: {len(set(found))} different ones"
    if not ended and len(found) >= 250 and len(set(found)) <= _SHARE * len(found):
        return f"the last {len(found)} words are {len(set(found))} different ones"
    marks = sum(text[-8 * len(found) :].count(mark) for mark in ".,;:!?。，")
    sparse = len(found) >= 150 and len(set(found)) < 0.33 * len(found) and marks < 0.04 * len(found)
    if sparse and _independent(found) and not unspaced(text[-TAIL:]):
        return f"the last {len(found)} words are {len(set(found))} different ones in no order"
    return None


def _independent(found: Sequence[str], share: float = 0.92) -> bool:
    """Does each word come without regard to the one before? As many different pairs then as chance alone gives."""
    total = len(found)
    shares = [n / total for n in Counter(found).values()]
    by_chance = sum(1 - math.exp(-total * a * b) for a in shares for b in shares)
    return len(set(pairwise(found))) > share * by_chance


def _ordered(found: Sequence[str]) -> bool:
    """Do the same words come in the same order, as in the verses of a song?"""
    return len(set(pairwise(found))) <= 2 * len(set(found))


def _no_grammar(text: str) -> str | None:
    """Words between which English allows no sentence."""
    found = _running_words(text)
    if len(found) < FEWEST or not all(word.isascii() for word in found):
        return None
    after = [b for a, b in _side_by_side(text) if a in _DETERMINERS]
    wrong = sum(word in _NEVER_AFTER for word in after)
    if len(after) >= 6 and wrong >= 4 and wrong > 0.2 * len(after):
        return f"{wrong} of {len(after)} articles among the last {len(found)} words are followed by no noun"
    marks = sum(text.count(mark, -8 * TAIL if len(text) > 8 * TAIL else 0) for mark in ".,;:!?\n")
    function = sum(word in _FUNCTION for word in found)
    if len(found) >= 120 and marks <= len(found) / 100 and function < 0.15 * len(found) and _english(found):
        return f"{len(found)} words without a sentence: {function} function words, {marks} punctuation marks"
    return None


def _english(found: Sequence[str]) -> bool:
    """Other languages have other function words; only where at least one English one is there can they be missed."""
    return any(word in _DETERMINERS or word in ("of", "and", "is") for word in found) or _entropy(found) < 6.0


_SCRIPTS = (
    re.compile(r"[A-Za-z\u00c0-\u024f]"),
    re.compile(r"[\u0400-\u04ff]"),
    re.compile(r"[\u0590-\u06ff]"),
    re.compile(r"[\u3040-\u30ff\u3400-\u9fff]"),
    re.compile(r"[\uac00-\ud7af]"),
    re.compile(r"[\u0900-\u0dff\u0e00-\u0e7f]"),
    re.compile(r"[\u0370-\u03ff]"),
)


_MIXED = (0, 3)
"""Latin and Chinese or Japanese: letters of both stand side by side in formulas and names."""


def _odd_mixture(piece: str) -> bool:
    """Scripts within one word that no language puts there: `APIを`, `GPU에서` and `API-интерфейс` are usual ones."""
    kinds = {n for n, script in enumerate(_SCRIPTS) if script.search(piece)}
    usual = {0} < kinds and (kinds <= {0, 3} or kinds <= {0, 4} or (len(kinds) == 2 and "-" in piece))
    return len(kinds) > 1 and not usual


def _scripts_mixed(text: str) -> str | None:
    """Three scripts and more that alternate from word to word: no glossary does that without marks between them."""
    pieces = [piece for piece in text[-12 * TAIL :].split(" ")[-TAIL:] if piece]
    kinds = [next((n for n, script in enumerate(_SCRIPTS) if script.search(piece)), None) for piece in pieces]
    known = [kind for kind in kinds if kind is not None]
    if len(known) < 40:
        return None
    changes = sum(a != b for a, b in pairwise(known))
    inside = sum(map(_odd_mixture, pieces))
    plenty = sum(n >= 0.05 * len(known) for n in Counter(known).values())
    if plenty >= 3 and changes > 0.5 * len(known) and text.count("\n") < 0.1 * len(pieces):
        return f"{plenty} scripts alternate within the last {len(pieces)} words"
    if inside > 0.3 * len(pieces) and plenty >= 2 and _SCRIPTS[0].search(text):
        return f"{inside} of the last {len(pieces)} words mix scripts"
    return None


def _letters_mixed(text: str) -> str | None:
    """Scripts that change from letter to letter within words, and hardly a letter that stands there twice.

    Formulas in Chinese text (`设x为y`) change as often, but with the same few letters.
    """
    tail = text[-_LETTERS:]
    kinds = [next((n for n, script in enumerate(_SCRIPTS) if script.match(letter)), None) for letter in tail]
    pairs = [(a, b) for a, b in pairwise(kinds) if a is not None and b is not None]
    letters = [letter for letter, kind in zip(tail, kinds, strict=True) if kind is not None]
    rare = [(a, b) for a, b in pairs if a not in _MIXED and b not in _MIXED]
    if len(rare) > 0.9 * len(pairs):
        pairs = rare
    elif len(set(letters)) < 0.45 * len(letters):
        return None
    if len(pairs) < FEWEST:
        return None
    changes = sum(a != b for a, b in pairs)
    return (
        f"the script changes {changes} times within {len(pairs)} pairs of letters" if changes > len(pairs) / 3 else None
    )


_UNSPEAKABLE = re.compile(r"[b-df-hj-np-tv-xz]{5}|^[b-df-hj-np-tv-xz]{4,}$")


def _no_words(text: str) -> str | None:
    """Latin letters that nobody could speak: no vowels, or five consonants and more in a row."""
    pieces = text[-12 * TAIL :].split()[-TAIL:]
    found = [word.lower() for word in pieces if word.isascii() and word.isalpha() and not word.isupper()]
    long = [word for word in found if len(word) >= 4]
    if len(long) < FEWEST // 2 or len(found) < len(pieces) // 2:
        return None
    bad = sum(bool(_UNSPEAKABLE.search(word)) for word in long)
    return f"{bad} of the last {len(long)} longer words cannot be spoken" if bad > 0.3 * len(long) else None
