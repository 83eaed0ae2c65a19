"""The labelled sets: every recipe some times, by seed."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from labelled import (
    decayed,
    fifth_decayed,
    fifth_sound,
    fourth_data,
    fourth_decayed,
    fourth_sound,
    held_out_decayed,
    held_out_sound,
    sound,
    unseen,
)
from labelled.material import cut


class Answer(NamedTuple):
    """One generated answer. `degenerate` is the label, `recipe` where it comes from."""

    text: str
    finish_reason: str
    max_tokens: int
    degenerate: bool
    recipe: str


def development(seed: int, times: int = 6) -> Iterator[Answer]:
    """`times` answers of each recipe, sound ones and degenerate ones."""
    yield from _answers(seed, times, sound.RECIPES, sound.ENDED_ONLY, decayed.RECIPES, decayed.ENDED)


def held_out(seed: int, times: int = 6) -> Iterator[Answer]:
    """The same of the recipes that were written afterwards."""
    yield from _answers(seed, times, held_out_sound.RECIPES, (), held_out_decayed.RECIPES, held_out_decayed.ENDED)


def third(seed: int, times: int = 8) -> Iterator[Answer]:
    """The same of the recipes that were written last."""
    yield from _answers(seed, times, unseen.SOUND, unseen.WHOLE, unseen.DECAYED, unseen.ENDED)


def fourth(seed: int, times: int = 6) -> Iterator[Answer]:
    """The same by another generator, of kinds that nobody had looked at when the detector was made."""
    good = (*fourth_sound.RECIPES, *fourth_sound.WHOLE, *fourth_data.RECIPES)
    yield from _answers(seed, times, good, fourth_sound.WHOLE, fourth_decayed.RECIPES, fourth_decayed.ENDED)


def fifth(seed: int, times: int = 6) -> Iterator[Answer]:
    """The same of kinds written after the detector had been corrected by the fourth."""
    good = (*fifth_sound.RECIPES, *fifth_sound.WHOLE)
    yield from _answers(seed, times, good, fifth_sound.WHOLE, fifth_decayed.RECIPES, fifth_decayed.ENDED)


def _answers(
    seed: int,
    times: int,
    good: tuple[sound.Recipe, ...],
    whole: tuple[sound.Recipe, ...],
    bad: tuple[sound.Recipe, ...],
    ended: tuple[sound.Recipe, ...],
) -> Iterator[Answer]:
    rng = random.Random(seed)
    for recipe in good:
        for number in range(times):
            text, reason = recipe(rng), "stop"
            if recipe not in whole and number % 2:
                text, reason = cut(rng, text, 0.4), "length"
            yield Answer(text, reason, _tokens(text, reason), False, recipe.__name__)
    for recipe in bad:
        for _ in range(times):
            text, reason = recipe(rng), "stop" if recipe in ended else "length"
            yield Answer(text, reason, _tokens(text, reason), True, recipe.__name__)


def _tokens(text: str, reason: str) -> int:
    """What the answer was allowed: about what it has where it was cut."""
    return max(16, len(text) // 4) if reason == "length" else 4096
