"""The fourth set, by another generator: answers that decayed in ways that were not looked at before, prose and talk."""

import random

from labelled import fourth_decayed_data
from labelled.fourth_decayed_data import until
from labelled.fourth_sound import ANIMALS, COLOURS, TOWNS, Recipe, second_thoughts
from labelled.tongues import ALL, ENGLISH, SPACED, UNSPACED


def one_token(rng: random.Random) -> str:
    return (
        ENGLISH.text(rng, rng.randint(0, 5))
        + " "
        + until(rng, rng.choice((" the", "0", " and", ">", " I", "ла", "啊", "ก", "ا", "!", "\\", "▁", " –", "/")))
    )


def few_tokens(rng: random.Random) -> str:
    return (
        ENGLISH.text(rng, rng.randint(0, 4))
        + " "
        + until(
            rng,
            rng.choice(
                (
                    " ok ok,",
                    " I am a",
                    "ha ",
                    "no, wait, ",
                    "()",
                    "</p>",
                    " -> ",
                    "[1]",
                    "```\n",
                    "***",
                    "=>",
                    "&nbsp;",
                    "<br>\n",
                    "| ",
                )
            ),
        )
    )


def hundred_words(rng: random.Random) -> str:
    return ENGLISH.text(rng, 4) + " " + until(rng, ENGLISH.text(rng, rng.randint(8, 13)) + " ")


def four_hundred_words(rng: random.Random) -> str:
    return until(rng, ENGLISH.text(rng, rng.randint(33, 42)) + "\n\n", 9000, 14000)


def foreign(rng: random.Random) -> str:
    tongue = rng.choice(SPACED)
    return tongue.text(rng, 3) + " " + until(rng, tongue.text(rng, rng.randint(1, 4)) + " ")


def foreign_unspaced(rng: random.Random) -> str:
    tongue = rng.choice(UNSPACED)
    return tongue.text(rng, 3) + until(rng, tongue.text(rng, rng.randint(1, 4)), 400, 1800)


def characters_unspaced(rng: random.Random) -> str:
    tongue = rng.choice(UNSPACED)
    part = rng.choice(tongue.objects)
    return tongue.text(rng, 2) + until(rng, part, 250, 1500)


def counted_foreign(rng: random.Random) -> str:
    tongue = rng.choice(SPACED)
    one = tongue.sentence(rng).strip()
    return "\n".join(f"{n}. {one}" for n in range(1, rng.randint(25, 80)))


def counted_chinese(rng: random.Random) -> str:
    digits = "零一二三四五六七八九"
    one = UNSPACED[1].sentence(rng)
    return "".join(
        f"第{digits[n // 10] + '十' if n > 9 else ''}{digits[n % 10] if n % 10 else ''}，{one}"
        for n in range(1, rng.randint(30, 90))
    )


def ordinals(rng: random.Random) -> str:
    names = ("First", "Second", "Third", "Next", "After that", "Then", "Finally", "Also", "Moreover")
    one = ENGLISH.sentence(rng).strip()
    return "\n".join(f"{rng.choice(names)}, {one[0].lower()}{one[1:]}" for _ in range(rng.randint(25, 70)))


def lettered(rng: random.Random) -> str:
    one = ENGLISH.sentence(rng).strip()
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "\n".join(f"({letters[n % 26]}) {one}" for n in range(rng.randint(24, 80)))


def chapters(rng: random.Random) -> str:
    one = ENGLISH.text(rng, 2)
    return "\n\n".join(f"## Chapter {n}\n\n{one}" for n in range(1, rng.randint(12, 40)))


def sections(rng: random.Random) -> str:
    name = rng.choice(ANIMALS)
    return "\n".join(f"{a}.{b} Overview of the {name}" for a in range(1, rng.randint(9, 25)) for b in range(1, 6))


def right_then_loop(rng: random.Random) -> str:
    return second_thoughts(rng) + "\n\n" + until(rng, f"The final answer is {rng.randint(10, 999)}.\n\n", 500, 2500)


def boxed(rng: random.Random) -> str:
    return second_thoughts(rng) + "\n" + until(rng, f"$\\boxed{{{rng.randint(10, 9999)}}}$\n", 300, 1500)


def thanks(rng: random.Random) -> str:
    return (
        ENGLISH.text(rng, 2)
        + "\n\n"
        + until(rng, "User: Thank you!\nAssistant: You're welcome! Is there anything else?\n", 700, 2500)
    )


def self_talk(rng: random.Random) -> str:
    lines = (
        "User: And then?",
        "Assistant: Then it stops.",
        "User: Why?",
        "Assistant: Because it is done.",
        "User: Are you sure?",
        "Assistant: Yes, I am sure.",
    )
    return "\n".join(rng.choice(lines) for _ in range(rng.randint(70, 160)))


def file_again(rng: random.Random) -> str:
    name = rng.choice(ANIMALS)
    return "".join(f"Step {n}: I open {name}.py again and see nothing new.\n\n" for n in range(1, rng.randint(25, 80)))


def great(rng: random.Random) -> str:
    return f"She was his {until(rng, 'great-', 500, 1500)}"


def longer_and_longer(rng: random.Random) -> str:
    words = [rng.choice(COLOURS) for _ in range(3)]
    return "\n".join("A " + " ".join((words * 40)[:n]) + " bird." for n in range(1, rng.randint(28, 45)))


def drifting_checks(rng: random.Random) -> str:
    a = (
        "Let me check",
        "I should verify",
        "I need to look at",
        "Let me look again at",
        "I will re-check",
        "Now I verify",
    )
    b = ("the value", "the result", "this value", "this number", "the number", "the total")
    c = ("once more", "again", "one more time", "carefully", "to be sure")
    return (
        ENGLISH.text(rng, 2)
        + " "
        + " ".join(f"{rng.choice(a)} {rng.choice(b)} {rng.choice(c)}." for _ in range(rng.randint(90, 200)))
    )


def drifting_praise(rng: random.Random) -> str:
    words = ("bright", "clear", "calm", "warm", "soft", "quiet", "gentle", "pure")
    return "The sea is calm. " + " ".join(
        f"The {rng.choice(('sea', 'sky', 'wind', 'light'))} is {rng.choice(words)} and {rng.choice(words)}."
        for _ in range(rng.randint(90, 200))
    )


def waits(rng: random.Random) -> str:
    return (
        second_thoughts(rng)
        + " "
        + " ".join(
            rng.choice(
                (
                    "Wait, that is not right.",
                    "Hmm, let me think again.",
                    "Actually, no.",
                    "Let me reconsider.",
                    "But wait.",
                    "No, that is wrong.",
                )
            )
            for _ in range(rng.randint(90, 200))
        )
    )


def paragraphs_alternate(rng: random.Random) -> str:
    two = [ENGLISH.text(rng, 5), ENGLISH.text(rng, 4)]
    return "\n\n".join(two[n % 2] for n in range(rng.randint(9, 20)))


def word_salad(rng: random.Random) -> str:
    words = [word for sentence in (ENGLISH.text(rng, 60),) for word in sentence.replace(".", "").lower().split()]
    return " ".join(rng.choice(words) for _ in range(rng.randint(250, 500)))


def tongues_salad(rng: random.Random) -> str:
    return " ".join(rng.choice(rng.choice(ALL).text(rng, 1).split()) for _ in range(rng.randint(200, 400)))


def haikus(rng: random.Random) -> str:
    poem = "\n".join(ENGLISH.sentence(rng).strip() for _ in range(3))
    return until(rng, poem + "\n\n", 900, 2500)


def note_notes(rng: random.Random) -> str:
    return ENGLISH.text(rng, 3) + "\n\n" + until(rng, f"Note: {ENGLISH.sentence(rng).strip()}\n\n", 600, 2500)


def questions_again(rng: random.Random) -> str:
    town = rng.choice(TOWNS)
    return "\n".join(f"Q{n}: Where is {town}? A{n}: {town} is a town." for n in range(1, rng.randint(25, 80)))


def short_cut(rng: random.Random) -> str:
    unit = rng.choice(
        (" and on it goes", " I think so, yes.", " the same as before,", " so it is, and", " right, right, and")
    )
    return "It is so." + until(rng, unit, 240, 420)


def stopped_loop(rng: random.Random) -> str:
    return until(rng, ENGLISH.sentence(rng), 900, 2500)


def stopped_answers(rng: random.Random) -> str:
    return f"The answer is {rng.randint(3, 99)}.\n" * rng.randint(40, 120)


def stopped_paragraph(rng: random.Random) -> str:
    return (ENGLISH.text(rng, 5) + "\n\n") * rng.randint(6, 14)


RECIPES: tuple[Recipe, ...] = (
    *fourth_decayed_data.RECIPES,
    one_token, few_tokens, hundred_words, four_hundred_words, foreign, foreign_unspaced, characters_unspaced,
    counted_foreign, counted_chinese, ordinals, lettered, chapters, sections, right_then_loop, boxed, thanks,
    self_talk, file_again, great, longer_and_longer, drifting_checks, drifting_praise, waits,
    paragraphs_alternate, word_salad, tongues_salad, haikus, note_notes, questions_again, short_cut, stopped_loop,
    stopped_answers, stopped_paragraph,
)  # fmt: skip
ENDED: tuple[Recipe, ...] = (stopped_loop, stopped_answers, stopped_paragraph)
