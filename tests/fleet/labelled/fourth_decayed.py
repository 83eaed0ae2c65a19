"""The fourth set: answers that decayed, in ways that were not looked at before."""

import random

from labelled.fourth_data import go, json_people, markdown_numbers
from labelled.fourth_sound import ANIMALS, COLOURS, TOWNS, Recipe, second_thoughts
from labelled.tongues import ALL, ENGLISH, SPACED, UNSPACED


def _until(rng: random.Random, unit: str, least: int = 900, most: int = 3500) -> str:
    """A passage again and again, cut anywhere."""
    size = max(rng.randint(least, most), 3 * len(unit))
    return (unit * (size // len(unit) + 2))[:size]


def one_token(rng: random.Random) -> str:
    return (
        ENGLISH.text(rng, rng.randint(0, 5))
        + " "
        + _until(rng, rng.choice((" the", "0", " and", ">", " I", "ла", "啊", "ก", "ا", "!", "\\", "▁", " –", "/")))
    )


def few_tokens(rng: random.Random) -> str:
    return (
        ENGLISH.text(rng, rng.randint(0, 4))
        + " "
        + _until(
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
    return ENGLISH.text(rng, 4) + " " + _until(rng, ENGLISH.text(rng, rng.randint(8, 13)) + " ")


def four_hundred_words(rng: random.Random) -> str:
    return _until(rng, ENGLISH.text(rng, rng.randint(33, 42)) + "\n\n", 9000, 14000)


def foreign(rng: random.Random) -> str:
    tongue = rng.choice(SPACED)
    return tongue.text(rng, 3) + " " + _until(rng, tongue.text(rng, rng.randint(1, 4)) + " ")


def foreign_unspaced(rng: random.Random) -> str:
    tongue = rng.choice(UNSPACED)
    return tongue.text(rng, 3) + _until(rng, tongue.text(rng, rng.randint(1, 4)), 400, 1800)


def characters_unspaced(rng: random.Random) -> str:
    tongue = rng.choice(UNSPACED)
    part = rng.choice(tongue.objects)
    return tongue.text(rng, 2) + _until(rng, part, 250, 1500)


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
    return second_thoughts(rng) + "\n\n" + _until(rng, f"The final answer is {rng.randint(10, 999)}.\n\n", 500, 2500)


def boxed(rng: random.Random) -> str:
    return second_thoughts(rng) + "\n" + _until(rng, f"$\\boxed{{{rng.randint(10, 9999)}}}$\n", 300, 1500)


def code_then_loop(rng: random.Random) -> str:
    return "```go\n" + go(rng) + "\n" + _until(rng, "\n// end of file\n}\n", 500, 1500)


def if_branches(rng: random.Random) -> str:
    name = rng.choice(ANIMALS)
    return "```python\ndef check(x):\n" + _until(rng, f"    if x is None:\n        return {name}\n", 1200, 3000)


def elif_counted(rng: random.Random) -> str:
    return "```python\nif n == 0:\n    pass\n" + "".join(
        f"elif n == {n}:\n    pass\n" for n in range(1, rng.randint(60, 150))
    )


def same_test(rng: random.Random) -> str:
    name = rng.choice(ANIMALS)
    return "```python\n" + "".join(
        f"def test_{name}_{n}():\n    assert {name}(1) == 1\n\n" for n in range(1, rng.randint(30, 80))
    )


def comments(rng: random.Random) -> str:
    return "```js\nfunction run() {\n" + _until(rng, f"  // TODO: handle the {rng.choice(ANIMALS)} case\n", 800, 2500)


def sql_ands(rng: random.Random) -> str:
    return "SELECT * FROM zoo WHERE 1 = 1" + _until(rng, f" AND {rng.choice(ANIMALS)} IS NOT NULL", 700, 2500)


def json_same(rng: random.Random) -> str:
    return (
        json_people(rng)[:-2]
        + ",\n"
        + _until(rng, f'  {{"name": "{rng.choice(TOWNS)}", "active": true}},\n', 900, 3000)
    )


def json_string(rng: random.Random) -> str:
    return (
        '{"summary": "'
        + ENGLISH.text(rng, 2)
        + _until(rng, f" The {rng.choice(ANIMALS)} is {rng.choice(COLOURS)}.", 700, 2500)
    )


def json_deep(rng: random.Random) -> str:
    return '{"root": ' + _until(rng, '{"child": {"next": ', 500, 2000)


def json_list(rng: random.Random) -> str:
    return '{"tags": [' + _until(rng, ", ".join(f'"{one}"' for one in rng.sample(COLOURS, 3)) + ", ", 500, 2000)


def xml_same(rng: random.Random) -> str:
    return "<items>\n" + _until(rng, f"  <item>\n    <name>{rng.choice(TOWNS)}</name>\n  </item>\n", 900, 2500)


def divs(rng: random.Random) -> str:
    return "<body>\n" + _until(rng, '<div class="row"><div class="col">', 600, 2500)


def css_same(rng: random.Random) -> str:
    return "```css\n" + _until(rng, f".{rng.choice(ANIMALS)} {{\n  margin: 0;\n  padding: 0;\n}}\n\n", 800, 2500)


def table_rows(rng: random.Random) -> str:
    return markdown_numbers(rng) + "\n" + _until(rng, f"| {rng.choice(TOWNS)} | 0.0 | 0.0 | 0.0 |\n", 700, 2500)


def table_head(rng: random.Random) -> str:
    return "| town " + _until(rng, "| --- ", 600, 2000)


def columns(rng: random.Random) -> str:
    return "| " + " | ".join(f"Column {n}" for n in range(1, rng.randint(90, 250)))


def svg_loop(rng: random.Random) -> str:
    return '<path d="M 10 10 ' + _until(rng, f"l {rng.randint(1, 9)} {rng.randint(1, 9)} ", 400, 2000)


def latex_loop(rng: random.Random) -> str:
    return "The limit is $" + _until(rng, "\\frac{1}{1+", 400, 1500)


def path_loop(rng: random.Random) -> str:
    return "See https://example.org/" + _until(rng, f"{rng.choice(ANIMALS)}/{rng.choice(COLOURS)}/", 500, 1500)


def a_runs(rng: random.Random) -> str:
    return "-----BEGIN KEY-----\nMIIEvQIB" + _until(rng, "A", 600, 2000)


def hashtags(rng: random.Random) -> str:
    few = [f"#{one}" for one in rng.sample(COLOURS, 5)]
    return ENGLISH.text(rng, 2) + "\n" + " ".join(rng.choice(few) for _ in range(rng.randint(120, 300)))


def repeating_digits(rng: random.Random) -> str:
    return f"The quotient is {rng.randint(0, 9)}." + _until(
        rng, rng.choice(("3", "142857", "09", "076923", "9", "6")), 500, 2000
    )


def blank_lines(rng: random.Random) -> str:
    return ENGLISH.text(rng, 3) + rng.choice(("\n", " ", "\t", "\u00a0", "\n\n \n", "\u3000", "\r\n")) * rng.randint(
        250, 900
    )


def mojibake(rng: random.Random) -> str:
    return (
        ENGLISH.text(rng, 2)
        + " "
        + _until(rng, rng.choice(("Ã©", "â€™", "锟斤拷", "ï¿½", "Ð°Ð", "Ã¢â‚¬â„¢", "烫烫烫", "�")), 400, 1500)
    )


def mojibake_mixed(rng: random.Random) -> str:
    bits = ("Ã©", "â€™", "Ã¨", "ï¿½", "â€œ", "Ã¼", "Â£", "â€¦", "Ã±", "Â°")
    return ENGLISH.text(rng, 1) + "".join(rng.choice(bits) for _ in range(rng.randint(250, 600)))


def emojis(rng: random.Random) -> str:
    return ENGLISH.text(rng, 1) + _until(rng, rng.choice(("😀", "🎉🎊", "✨ ", "👍🏽", "❤️ ")), 250, 900)


def thanks(rng: random.Random) -> str:
    return (
        ENGLISH.text(rng, 2)
        + "\n\n"
        + _until(rng, "User: Thank you!\nAssistant: You're welcome! Is there anything else?\n", 700, 2500)
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


def same_call(rng: random.Random) -> str:
    name = rng.choice(ANIMALS)
    return "".join(
        f'<tool_call>\n{{"name": "read_file", "arguments": {{"path": "src/{name}.py"}}, "id": "call_{rng.randrange(16**8):08x}"}}\n</tool_call>\n'
        for _ in range(rng.randint(15, 50))
    )


def file_again(rng: random.Random) -> str:
    name = rng.choice(ANIMALS)
    return "".join(f"Step {n}: I open {name}.py again and see nothing new.\n\n" for n in range(1, rng.randint(25, 80)))


def great(rng: random.Random) -> str:
    return f"She was his {_until(rng, 'great-', 500, 1500)}"


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


def subwords(rng: random.Random) -> str:
    bits = (
        "ing",
        "tion",
        "Ġthe",
        "##ed",
        "pre",
        "ularly",
        "xx",
        "Ċ",
        "ment",
        "ąd",
        "ización",
        "__",
        "}})",
        "ktor",
        "iç",
        "ness",
        "Qu",
        "ppt",
        "ôn",
        "zz",
    )
    return ENGLISH.text(rng, 1) + "".join(rng.choice(bits) for _ in range(rng.randint(300, 600)))


def haikus(rng: random.Random) -> str:
    poem = "\n".join(ENGLISH.sentence(rng).strip() for _ in range(3))
    return _until(rng, poem + "\n\n", 900, 2500)


def note_notes(rng: random.Random) -> str:
    return ENGLISH.text(rng, 3) + "\n\n" + _until(rng, f"Note: {ENGLISH.sentence(rng).strip()}\n\n", 600, 2500)


def questions_again(rng: random.Random) -> str:
    town = rng.choice(TOWNS)
    return "\n".join(f"Q{n}: Where is {town}? A{n}: {town} is a town." for n in range(1, rng.randint(25, 80)))


def short_cut(rng: random.Random) -> str:
    unit = rng.choice(
        (" and on it goes", " I think so, yes.", " the same as before,", " so it is, and", " right, right, and")
    )
    return "It is so." + _until(rng, unit, 240, 420)


def stopped_loop(rng: random.Random) -> str:
    return _until(rng, ENGLISH.sentence(rng), 900, 2500)


def stopped_answers(rng: random.Random) -> str:
    return f"The answer is {rng.randint(3, 99)}.\n" * rng.randint(40, 120)


def stopped_paragraph(rng: random.Random) -> str:
    return (ENGLISH.text(rng, 5) + "\n\n") * rng.randint(6, 14)


RECIPES: tuple[Recipe, ...] = (
    one_token, few_tokens, hundred_words, four_hundred_words, foreign, foreign_unspaced, characters_unspaced, counted_foreign,
    counted_chinese, ordinals, lettered, chapters, sections, right_then_loop, boxed, code_then_loop, if_branches, elif_counted, same_test,
    comments, sql_ands, json_same, json_string, json_deep, json_list, xml_same, divs, css_same, table_rows, table_head, columns, svg_loop,
    latex_loop, path_loop, a_runs, hashtags, repeating_digits, blank_lines, mojibake, mojibake_mixed, emojis, thanks, self_talk, same_call,
    file_again, great, longer_and_longer, drifting_checks, drifting_praise, waits, paragraphs_alternate, word_salad, tongues_salad,
    subwords, haikus, note_notes, questions_again, short_cut, stopped_loop, stopped_answers, stopped_paragraph,
)  # fmt: skip
ENDED: tuple[Recipe, ...] = (stopped_loop, stopped_answers, stopped_paragraph)
