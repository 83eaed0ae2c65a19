"""How answers decay. Each recipe gives a text; `max_tokens` has cut it, unless it says otherwise."""

import json
import random
from collections.abc import Callable

from labelled.material import CITIES, NOUNS, cjk, cut, person, prose, sentence

Recipe = Callable[[random.Random], str]


def sentence_loop(rng: random.Random) -> str:
    return prose(rng, 4) + " " + cut(rng, (sentence(rng) + " ") * rng.randint(8, 40))


def phrase_loop(rng: random.Random) -> str:
    return "The answer is 4" + cut(rng, f" and then the {rng.choice(NOUNS)} again" * rng.randint(8, 60))


def line_loop(rng: random.Random) -> str:
    return prose(rng, 3) + "\n" + cut(rng, (f"- {sentence(rng)}\n") * rng.randint(8, 40))


def paragraph_loop(rng: random.Random) -> str:
    return cut(rng, (prose(rng, 5) + "\n\n") * rng.randint(5, 9))


def counted_steps(rng: random.Random) -> str:
    what = sentence(rng).lower()
    return prose(rng, 3) + "\n" + cut(rng, "".join(f"Step {n}: {what}\n" for n in range(1, rng.randint(25, 90))))


def endless_list(rng: random.Random) -> str:
    what = f"Check the {rng.choice(NOUNS)} again"
    return "Here is the list:\n" + cut(rng, "".join(f"{n}. {what}\n" for n in range(1, rng.randint(30, 150))))


def countdown(rng: random.Random) -> str:
    what = f"attempts left for the {rng.choice(NOUNS)}, trying once more"
    return cut(rng, "".join(f"{n} {what}. " for n in range(rng.randint(60, 120), 0, -1)))


def late_loop(rng: random.Random) -> str:
    return prose(rng, 60) + "\n\n" + cut(rng, (sentence(rng) + " ") * 7, least=0.8)


def alternating(rng: random.Random) -> str:
    first, second = sentence(rng), sentence(rng)
    return prose(rng, 4) + " " + cut(rng, f"{first} {second} " * rng.randint(8, 20))


def shuffled(rng: random.Random) -> str:
    few = [sentence(rng) for _ in range(4)]
    return prose(rng, 4) + " " + cut(rng, " ".join(rng.choice(few) for _ in range(80)))


def paraphrased(rng: random.Random) -> str:
    def once() -> str:
        how = rng.choice(("Let me check", "I will check", "Now I check"))
        return f"{how} the {rng.choice(('file', 'log', 'config'))} again to be {rng.choice(('sure', 'certain'))}. "

    return sentence(rng) + " " + cut(rng, "".join(once() for _ in range(60)))


def runs(rng: random.Random) -> str:
    return rng.choice(("", sentence(rng) + " ")) + rng.choice("!a.0?x") * rng.randint(250, 2000)


def blanks(rng: random.Random) -> str:
    return sentence(rng) + rng.choice(("\n", " ", "\n\n \n", "\t")) * rng.randint(300, 900)


def short_runs(rng: random.Random) -> str:
    return "!" * rng.randint(64, 128)


def cjk_loop(rng: random.Random) -> str:
    return cjk(rng, 4) + cut(rng, cjk(rng, 1) * rng.randint(10, 40))


def cjk_characters(rng: random.Random) -> str:
    return cjk(rng, 3) + rng.choice(("的", "是的", "然后")) * rng.randint(150, 400)


def code_loop(rng: random.Random) -> str:
    noun = rng.choice(NOUNS)
    block = f'        if self.{noun} is None:\n            raise ValueError("no {noun}")\n'
    return "```python\nclass Store:\n    def load(self):\n" + cut(rng, block * rng.randint(8, 30))


def counted_code(rng: random.Random) -> str:
    noun = rng.choice(NOUNS)
    return "```python\n" + cut(
        rng, "".join(f"    self.{noun}_layer{n} = None  # {noun} is not used\n" for n in range(80))
    )


def json_loop(rng: random.Random) -> str:
    row = json.dumps({"action": "retry", "target": rng.choice(NOUNS), "note": sentence(rng)})
    return '{"steps": [' + cut(rng, f"{row}, " * rng.randint(8, 30))


def counted_json(rng: random.Random) -> str:
    noun = rng.choice(NOUNS)
    rows = [json.dumps({"step": n, "action": "retry", "target": noun}) for n in range(1, rng.randint(30, 90))]
    return '{"steps": [' + cut(rng, ", ".join(rows))


def low_entropy(rng: random.Random) -> str:
    few = rng.sample(("yes", "so", "the", "again", "well", "now", "then", "and", "but", "right", "okay"), 8)
    return sentence(rng) + " " + " ".join(rng.choice(few) for _ in range(rng.randint(150, 500)))


def salad(rng: random.Random) -> str:
    pool = [
        "the",
        "of",
        "banana",
        "quickly",
        "seven",
        "under",
        "model",
        "and",
        "a",
        "purple",
        "is",
        "were",
        "server",
        "to",
        "window",
        "an",
        "in",
        "that",
        "river",
        "token",
        "left",
        "running",
        "it",
        "because",
        "with",
        "table",
        "blue",
        "for",
        "never",
        "gate",
        "on",
        "by",
        "stone",
        "have",
        "paper",
        "was",
        "this",
    ]
    return prose(rng, 3) + " " + " ".join(rng.choice(pool) for _ in range(rng.randint(200, 400)))


def mixed_scripts(rng: random.Random) -> str:
    pieces = (
        "the",
        "的",
        "для",
        "ing",
        "します",
        "그리고",
        "number",
        "на",
        "是",
        "ed",
        "مع",
        "token",
        "것",
        "и",
        "を",
        "with",
    )
    return sentence(rng) + " " + " ".join(rng.choice(pieces) for _ in range(rng.randint(120, 300)))


def person_loop(rng: random.Random) -> str:
    return cut(rng, f"{person(rng)} lives in {rng.choice(CITIES)}, " * rng.randint(10, 50))


def looped_and_ended(rng: random.Random) -> str:
    """Ends by itself after all, long after it should have."""
    return sentence(rng) + " " + (sentence(rng) + " ") * rng.randint(12, 30)


ENDED = (looped_and_ended,)
"""Recipes whose answers ended by themselves."""
RECIPES: tuple[Recipe, ...] = (
    sentence_loop, phrase_loop, line_loop, paragraph_loop, counted_steps, endless_list, countdown, late_loop,
    alternating, shuffled, paraphrased, runs, blanks, short_runs, cjk_loop, cjk_characters, code_loop, counted_code,
    json_loop, counted_json, low_entropy, salad, mixed_scripts, person_loop, looped_and_ended,
)  # fmt: skip
