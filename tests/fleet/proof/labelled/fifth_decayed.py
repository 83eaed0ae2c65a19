"""The fifth set: answers that decayed."""

import random

from labelled.fifth_sound import terraform, yaml_hosts
from labelled.fourth_decayed_data import until
from labelled.fourth_sound import ANIMALS, COLOURS, TOWNS, Recipe
from labelled.tongues import ALL, ENGLISH, GERMAN, RUSSIAN, SPACED, UNSPACED


def yaml_loop(rng: random.Random) -> str:
    return yaml_hosts(rng) + "\n" + until(rng, f"    {rng.choice(TOWNS).lower()}:\n      ansible_user: deploy\n")


def resource_counted(rng: random.Random) -> str:
    return (
        terraform(rng)
        + "\n"
        + "".join(f'\noutput "id_{n}" {{\n  value = aws_instance.main.id\n}}\n' for n in range(1, rng.randint(30, 70)))
    )


def thinking_circle(rng: random.Random) -> str:
    return (
        "<think>\n"
        + ENGLISH.text(rng, 4)
        + "\n"
        + until(
            rng,
            "So the answer should be in the second file. But wait, maybe it is in the first file. Let me look at the first file again. Hmm. ",
        )
    )


def alternatively(rng: random.Random) -> str:
    ways = ("use induction", "try small cases", "use the formula", "look at the remainder", "draw a picture")
    return (
        ENGLISH.text(rng, 2)
        + "\n\n"
        + "\n\n".join(
            f"Alternatively, we could {rng.choice(ways)}. But that does not help." for _ in range(rng.randint(40, 90))
        )
    )


def german_circle(rng: random.Random) -> str:
    few = [GERMAN.sentence(rng) for _ in range(4)]
    return "".join(rng.choice(few) for _ in range(rng.randint(50, 120)))


def russian_counted(rng: random.Random) -> str:
    return "\n".join(
        f"Шаг {n}: {RUSSIAN.subjects[0]} снова проверяет результат." for n in range(1, rng.randint(25, 80))
    )


def japanese_few(rng: random.Random) -> str:
    few = [UNSPACED[2].sentence(rng) for _ in range(3)]
    return "".join(rng.choice(few) for _ in range(rng.randint(40, 90)))


def thai_run(rng: random.Random) -> str:
    return UNSPACED[0].text(rng, 2) + until(rng, rng.choice(("ๆ", "555", "ครับ", "ค่ะ ")), 300, 900)


def arabic_words(rng: random.Random) -> str:
    few = [rng.choice(rng.choice(SPACED).text(rng, 1).split()) for _ in range(6)]
    return " ".join(rng.choice(few) for _ in range(rng.randint(150, 300)))


def laughing(rng: random.Random) -> str:
    return "That is funny! " + "".join(rng.choice(("ha", "haha", "hah")) for _ in range(rng.randint(200, 400)))


def names_with_numbers(rng: random.Random) -> str:
    return "The users are: " + ", ".join(f"user_{n}" for n in range(1, rng.randint(150, 400)))


def versions(rng: random.Random) -> str:
    return "## Changelog\n" + "".join(
        f"\n### 1.{n}.0\n- Bug fixes and improvements.\n" for n in range(1, rng.randint(25, 70))
    )


def disclaimers(rng: random.Random) -> str:
    return (
        ENGLISH.text(rng, 3)
        + "\n\n"
        + until(rng, "Please note that this is not legal advice. Please consult a lawyer before you act. ", 800, 2500)
    )


def endless_sum(rng: random.Random) -> str:
    return "The total is " + until(rng, "1 + ", 500, 1500)


def steps_of_nothing(rng: random.Random) -> str:
    return "\n".join(f"**Step {n}:** Continue with the next step." for n in range(1, rng.randint(25, 90)))


def import_letters(rng: random.Random) -> str:
    return "```python\n" + until(rng, f"from {rng.choice(ANIMALS)} import {rng.choice(COLOURS)}\n", 700, 2500)


def closing(rng: random.Random) -> str:
    return (
        ENGLISH.text(rng, 2) + "\n" + until(rng, rng.choice(("}\n", ")", "]\n", "</div>\n", "end\n", "`")), 400, 1200)
    )


def two_speakers(rng: random.Random) -> str:
    return "".join(f"A: Are you there?\nB: I am here. (message {n})\n" for n in range(1, rng.randint(25, 70)))


def dates_loop(rng: random.Random) -> str:
    return "\n".join(
        f"2024-{n // 28 % 12 + 1:02d}-{n % 28 + 1:02d}: Nothing happened today, we wait."
        for n in range(rng.randint(40, 150))
    )


def unicode_noise(rng: random.Random) -> str:
    return (
        ENGLISH.text(rng, 1)
        + " "
        + "".join(
            chr(
                rng.choice(
                    (
                        rng.randint(0x2500, 0x25FF),
                        rng.randint(0x1400, 0x167F),
                        rng.randint(0x400, 0x4FF),
                        rng.randint(0x3040, 0x30FF),
                    )
                )
            )
            for _ in range(700)
        )
    )


def every_tongue(rng: random.Random) -> str:
    return " ".join(rng.choice(rng.choice(ALL).text(rng, 1).split()) for _ in range(rng.randint(180, 300)))


def content_words(rng: random.Random) -> str:
    return " ".join(
        rng.choice((*COLOURS, *ANIMALS, *(town.lower() for town in TOWNS))) for _ in range(rng.randint(250, 450))
    )


def whole_answer_again(rng: random.Random) -> str:
    return (ENGLISH.text(rng, rng.randint(6, 10)) + "\n\n---\n\n") * rng.randint(4, 9) + ENGLISH.text(rng, 1)[:20]


def bullet_loop(rng: random.Random) -> str:
    few = [f"- {ENGLISH.sentence(rng).strip()}\n" for _ in range(rng.randint(2, 5))]
    return until(rng, "".join(few), 1000, 3500)


def longer_prefix(rng: random.Random) -> str:
    word = rng.choice(ANIMALS)
    return "\n".join(word[:1] * n for n in range(3, rng.randint(50, 80)))


def stopped_thanks(rng: random.Random) -> str:
    return "Thank you for your question! " * rng.randint(20, 60)


def stopped_lines(rng: random.Random) -> str:
    return f"{ENGLISH.sentence(rng).strip()}\n" * rng.randint(20, 60)


RECIPES: tuple[Recipe, ...] = (
    yaml_loop, resource_counted, thinking_circle, alternatively, german_circle, russian_counted, japanese_few, thai_run, arabic_words,
    laughing, names_with_numbers, versions, disclaimers, endless_sum, steps_of_nothing, import_letters, closing, two_speakers,
    dates_loop, unicode_noise, every_tongue, content_words, whole_answer_again, bullet_loop, longer_prefix, stopped_thanks, stopped_lines,
)  # fmt: skip
ENDED: tuple[Recipe, ...] = (stopped_thanks, stopped_lines)
