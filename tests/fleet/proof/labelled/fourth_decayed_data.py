"""The fourth set: answers that decayed within code, data and characters."""

import random

from labelled.fourth_data import go, json_people, markdown_numbers
from labelled.fourth_sound import ANIMALS, COLOURS, TOWNS, Recipe
from labelled.tongues import ENGLISH


def until(rng: random.Random, unit: str, least: int = 900, most: int = 3500) -> str:
    """A passage again and again, cut anywhere."""
    size = max(rng.randint(least, most), 3 * len(unit))
    return (unit * (size // len(unit) + 2))[:size]


def code_then_loop(rng: random.Random) -> str:
    return "```go\n" + go(rng) + "\n" + until(rng, "\n// end of file\n}\n", 500, 1500)


def if_branches(rng: random.Random) -> str:
    name = rng.choice(ANIMALS)
    return "```python\ndef check(x):\n" + until(rng, f"    if x is None:\n        return {name}\n", 1200, 3000)


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
    return "```js\nfunction run() {\n" + until(rng, f"  // TODO: handle the {rng.choice(ANIMALS)} case\n", 800, 2500)


def sql_ands(rng: random.Random) -> str:
    return "SELECT * FROM zoo WHERE 1 = 1" + until(rng, f" AND {rng.choice(ANIMALS)} IS NOT NULL", 700, 2500)


def json_same(rng: random.Random) -> str:
    return (
        json_people(rng)[:-2] + ",\n" + until(rng, f'  {{"name": "{rng.choice(TOWNS)}", "active": true}},\n', 900, 3000)
    )


def json_string(rng: random.Random) -> str:
    return (
        '{"summary": "'
        + ENGLISH.text(rng, 2)
        + until(rng, f" The {rng.choice(ANIMALS)} is {rng.choice(COLOURS)}.", 700, 2500)
    )


def json_deep(rng: random.Random) -> str:
    return '{"root": ' + until(rng, '{"child": {"next": ', 500, 2000)


def json_list(rng: random.Random) -> str:
    return '{"tags": [' + until(rng, ", ".join(f'"{one}"' for one in rng.sample(COLOURS, 3)) + ", ", 500, 2000)


def xml_same(rng: random.Random) -> str:
    return "<items>\n" + until(rng, f"  <item>\n    <name>{rng.choice(TOWNS)}</name>\n  </item>\n", 900, 2500)


def divs(rng: random.Random) -> str:
    return "<body>\n" + until(rng, '<div class="row"><div class="col">', 600, 2500)


def css_same(rng: random.Random) -> str:
    return "```css\n" + until(rng, f".{rng.choice(ANIMALS)} {{\n  margin: 0;\n  padding: 0;\n}}\n\n", 800, 2500)


def table_rows(rng: random.Random) -> str:
    return markdown_numbers(rng) + "\n" + until(rng, f"| {rng.choice(TOWNS)} | 0.0 | 0.0 | 0.0 |\n", 700, 2500)


def table_head(rng: random.Random) -> str:
    return "| town " + until(rng, "| --- ", 600, 2000)


def columns(rng: random.Random) -> str:
    return "| " + " | ".join(f"Column {n}" for n in range(1, rng.randint(90, 250)))


def svg_loop(rng: random.Random) -> str:
    return '<path d="M 10 10 ' + until(rng, f"l {rng.randint(1, 9)} {rng.randint(1, 9)} ", 400, 2000)


def latex_loop(rng: random.Random) -> str:
    return "The limit is $" + until(rng, "\\frac{1}{1+", 400, 1500)


def path_loop(rng: random.Random) -> str:
    return "See https://example.org/" + until(rng, f"{rng.choice(ANIMALS)}/{rng.choice(COLOURS)}/", 500, 1500)


def a_runs(rng: random.Random) -> str:
    return "-----BEGIN KEY-----\nMIIEvQIB" + until(rng, "A", 600, 2000)


def hashtags(rng: random.Random) -> str:
    few = [f"#{one}" for one in rng.sample(COLOURS, 5)]
    return ENGLISH.text(rng, 2) + "\n" + " ".join(rng.choice(few) for _ in range(rng.randint(120, 300)))


def repeating_digits(rng: random.Random) -> str:
    return f"The quotient is {rng.randint(0, 9)}." + until(
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
        + until(rng, rng.choice(("Ã©", "â€™", "锟斤拷", "ï¿½", "Ð°Ð", "Ã¢â‚¬â„¢", "烫烫烫", "�")), 400, 1500)
    )


def mojibake_mixed(rng: random.Random) -> str:
    bits = ("Ã©", "â€™", "Ã¨", "ï¿½", "â€œ", "Ã¼", "Â£", "â€¦", "Ã±", "Â°")
    return ENGLISH.text(rng, 1) + "".join(rng.choice(bits) for _ in range(rng.randint(250, 600)))


def emojis(rng: random.Random) -> str:
    return ENGLISH.text(rng, 1) + until(rng, rng.choice(("😀", "🎉🎊", "✨ ", "👍🏽", "❤️ ")), 250, 900)


def same_call(rng: random.Random) -> str:
    name = rng.choice(ANIMALS)
    return "".join(
        f'<tool_call>\n{{"name": "read_file", "arguments": {{"path": "src/{name}.py"}}, "id": "call_{rng.randrange(16**8):08x}"}}\n</tool_call>\n'
        for _ in range(rng.randint(15, 50))
    )


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


RECIPES: tuple[Recipe, ...] = (
    code_then_loop, if_branches, elif_counted, same_test, comments, sql_ands, json_same, json_string, json_deep,
    json_list, xml_same, divs, css_same, table_rows, table_head, columns, svg_loop, latex_loop, path_loop, a_runs,
    hashtags, repeating_digits, blank_lines, mojibake, mojibake_mixed, emojis, same_call, subwords,
)  # fmt: skip
