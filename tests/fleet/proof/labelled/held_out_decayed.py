"""Degenerate answers of the held-out set: other loops in other languages and forms."""

import random
from collections.abc import Callable

from labelled.held_out_sound import JAPANESE, RUSSIAN, SPANISH, japanese, spanish
from labelled.material import CITIES, NOUNS, cut, person, prose, sentence

Recipe = Callable[[random.Random], str]


def spanish_loop(rng: random.Random) -> str:
    return spanish(rng) + " " + cut(rng, f"{rng.choice(SPANISH)}. " * rng.randint(8, 30))


def russian_loop(rng: random.Random) -> str:
    return cut(rng, f"{rng.choice(RUSSIAN)}, а затем снова: " * rng.randint(8, 40))


def japanese_loop(rng: random.Random) -> str:
    return japanese(rng) + cut(rng, rng.choice(JAPANESE) * rng.randint(8, 40))


def japanese_pair(rng: random.Random) -> str:
    first, second, third = rng.sample(JAPANESE, 3)
    return first + cut(rng, (second + third) * rng.randint(8, 30))


def row_loop(rng: random.Random) -> str:
    row = f"| {person(rng)} | {rng.choice(CITIES)} | {rng.randint(1, 99)} | active |\n"
    return "| name | city | age | state |\n|---|---|---|---|\n" + cut(rng, row * rng.randint(8, 40))


def import_loop(rng: random.Random) -> str:
    return "```python\n" + cut(rng, f"from app.{rng.choice(NOUNS)} import load\n" * rng.randint(10, 60))


def braces(rng: random.Random) -> str:
    return '{"a": {"b": [1, 2, 3]' + "}" * rng.randint(200, 900)


def apology(rng: random.Random) -> str:
    return cut(rng, "I apologize for the confusion. Let me try that again.\n\n" * rng.randint(8, 30))


def own_dialogue(rng: random.Random) -> str:
    turn = f"<|im_end|>\n<|im_start|>user\n{sentence(rng)}<|im_end|>\n<|im_start|>assistant\n"
    return sentence(rng) + "".join(turn + sentence(rng) for _ in range(rng.randint(3, 8)))


def deeper_and_deeper(rng: random.Random) -> str:
    return r"The value is $\frac{1}{1 + " + r"\frac{1}{1 + " * rng.randint(40, 120)


def very(rng: random.Random) -> str:
    return sentence(rng) + " It is" + " very" * rng.randint(60, 300)


def thirds(rng: random.Random) -> str:
    return f"The result is {rng.randint(1, 9)}." + rng.choice("3690") * rng.randint(300, 1200)


def emoji(rng: random.Random) -> str:
    return sentence(rng) + " " + rng.choice(("🚀", "🎉✨", "👍 ", "❤️")) * rng.randint(120, 400)


def numbered_paragraphs(rng: random.Random) -> str:
    first, second, third = sentence(rng), sentence(rng), sentence(rng)
    return cut(
        rng, "".join(f"## Section {n}\n\n{first} {second}\n\n{third}\n\n" for n in range(1, rng.randint(12, 30)))
    )


def doubts(rng: random.Random) -> str:
    """Thinks in a circle of three thoughts."""
    thoughts = [
        f"Wait, {sentence(rng).lower()}",
        f"Actually, {sentence(rng).lower()}",
        f"Hmm, but {sentence(rng).lower()}",
    ]
    return prose(rng, 5) + "\n\n" + cut(rng, "\n\n".join(thoughts * rng.randint(6, 20)))


def urls(rng: random.Random) -> str:
    return sentence(rng) + " See https://example.com" + f"/{rng.choice(NOUNS)}/list" * rng.randint(30, 90)


def tool_calls(rng: random.Random) -> str:
    path = rng.choice(NOUNS) + ".py"
    call = f'<tool_call>\n{{"name": "read_file", "arguments": {{"path": "{path}"}}}}\n</tool_call>\n'
    return "Let me look.\n" + cut(rng, call * rng.randint(8, 30))


def same_log_line(rng: random.Random) -> str:
    noun = rng.choice(NOUNS)
    return cut(rng, "".join(f"[worker] retry {n}: the {noun} is not ready, waiting\n" for n in range(1, 80)))


def content_salad(rng: random.Random) -> str:
    pool = ["lamp", "river", "copper", "jump", "yellow", "engine", "whisper", "seven", "cloud", "table", "bright", "anchor", "paper", "morning", "drift", "the", "stone", "and", "velvet", "number", "quickly", "orange", "sailing", "of", "thunder", "basket"]  # fmt: skip
    return sentence(rng) + " " + " ".join(rng.choice(pool) for _ in range(rng.randint(220, 500)))


def late_paragraphs(rng: random.Random) -> str:
    return prose(rng, 40) + "\n\n" + cut(rng, (prose(rng, 4) + "\n\n") * 5, least=0.75)


def drifting(rng: random.Random) -> str:
    """The same sentence, each time about something else of a few things."""
    few = rng.sample(NOUNS, 3)
    return cut(
        rng,
        "".join(
            f"And now the {rng.choice(few)} must be checked by the {rng.choice(few)} before it is sent. "
            for _ in range(90)
        ),
    )


def numbers(rng: random.Random) -> str:
    return "The sequence is 1, 2, 3, " + f"{rng.randint(1, 99)}, " * rng.randint(80, 300)


def ended_circle(rng: random.Random) -> str:
    return f"{sentence(rng)} {sentence(rng)} " * rng.randint(8, 20)


ENDED = (ended_circle,)
RECIPES: tuple[Recipe, ...] = (
    spanish_loop, russian_loop, japanese_loop, japanese_pair, row_loop, import_loop, braces, apology, own_dialogue, deeper_and_deeper,
    very, thirds, emoji, numbered_paragraphs, doubts, urls, tool_calls, same_log_line, content_salad, late_paragraphs, drifting,
    numbers, ended_circle,
)  # fmt: skip
