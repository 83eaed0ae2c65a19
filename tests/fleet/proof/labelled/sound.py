"""What a healthy engine answers, and what is easily taken for a loop. Each gives a text and whether it may be cut."""

import base64
import json
import random
from collections.abc import Callable

from labelled.material import ANSWERS, CITIES, NOUNS, cjk, person, prose, sentence

Recipe = Callable[[random.Random], str]


def short(rng: random.Random) -> str:
    return rng.choice(ANSWERS)


def essay(rng: random.Random) -> str:
    return prose(rng, rng.randint(12, 60))


def chinese(rng: random.Random) -> str:
    return cjk(rng, rng.randint(8, 30))


def code(rng: random.Random) -> str:
    """Accessors and tests that differ in names only."""
    lines = ["```python", "class Store:"]
    for noun in rng.sample(NOUNS, 9):
        lines += [
            f"    def get_{noun}(self, key: str) -> {noun.title()} | None:",
            f'        """Return the {noun} with this key, or None."""',
            "        row = self.db.fetch_one(",
            f'            "SELECT * FROM {noun}s WHERE id = ?", (key,)',
            "        )",
            "        if row is None:",
            "            return None",
            f"        return {noun.title()}.from_row(row, limit={rng.randint(2, 900)})",
            "",
        ]
    return "\n".join([*lines, "```"])


def assertions(rng: random.Random) -> str:
    lines = [f"    assert parse({n!r}) == {n * 3 + rng.randint(0, 9)}" for n in rng.sample(range(1000), 40)]
    return "def test_parse():\n" + "\n".join(lines)


def table(rng: random.Random) -> str:
    """A Markdown table with few different cells."""
    features = [
        "SSO",
        "audit log",
        "webhooks",
        "SAML",
        "quotas",
        "sharding",
        "backups",
        "alerts",
        "replicas",
        "tracing",
    ]
    rows = ["| feature | free | team | enterprise |", "|---|---|---|---|"]
    rows += [f"| {name} | {' | '.join(rng.choice(('yes', 'no', 'limited')) for _ in range(3))} |" for name in features]
    return "Here is the comparison:\n\n" + "\n".join(rows) + "\n\n" + sentence(rng)


def wide_table(rng: random.Random) -> str:
    rows = ["| node | GPU | memory | state |", "| --- | --- | --- | --- |"]
    rows += [f"| node{i} | {i % 8} | {rng.randint(100, 81920)} MiB | OK |" for i in range(rng.randint(20, 50))]
    return "\n".join(rows)


def numbered(rng: random.Random) -> str:
    count = rng.randint(10, 40)
    return "Steps:\n\n" + "\n".join(f"{n}. {sentence(rng)}" for n in range(1, count + 1))


def capitals(rng: random.Random) -> str:
    """The same sentence with other words in it."""
    lines = [
        f"{n}. {person(rng)} lives in {rng.choice(CITIES)} and works on the {rng.choice(NOUNS)} team."
        for n in range(1, 25)
    ]
    return "\n".join(lines)


def poem(rng: random.Random) -> str:
    refrain = "\n".join(sentence(rng).rstrip(".") for _ in range(rng.choice((2, 4))))
    verses = ["\n".join(sentence(rng).rstrip(".") for _ in range(4)) for _ in range(5)]
    return "\n\n".join(f"{verse}\n\n{refrain}" for verse in verses)


def song(rng: random.Random) -> str:
    """A cumulative song: each verse repeats all before it, and the song ends."""
    gifts = [sentence(rng).rstrip(".").lower() for _ in range(9)]
    verses = []
    for day in range(9):
        lines = [f"On day {day + 1} of the release my true love gave to me"]
        verses.append("\n".join([*lines, *reversed(gifts[: day + 1])]))
    return "\n\n".join(verses)


def json_array(rng: random.Random) -> str:
    rows = [
        {
            "id": n,
            "name": person(rng),
            "city": rng.choice(CITIES),
            "active": rng.random() < 0.5,
            "score": rng.randint(0, 99),
        }
        for n in range(1, rng.randint(15, 60))
    ]
    return json.dumps(rows, indent=rng.choice((None, 2)))


def json_numbers(rng: random.Random) -> str:
    return json.dumps({"values": [round(rng.gauss(0, 3), 4) for _ in range(150)], "unit": "ms"})


def log(rng: random.Random) -> str:
    lines = []
    for n in range(rng.randint(20, 60)):
        level = rng.choice(("INFO", "INFO", "INFO", "WARN", "ERROR"))
        request = f"GET /api/{rng.choice(NOUNS)}s/{rng.randint(1, 9999)} {rng.choice((200, 200, 404, 500))} {rng.randint(1, 900)}ms"
        lines.append(f"2026-03-04T10:{n:02d}:{rng.randint(0, 59):02d}Z {level} gateway {request}")
    return "\n".join(lines)


def csv(rng: random.Random) -> str:
    rows = [
        f"{n},{person(rng)},{rng.choice(CITIES)},{rng.randint(18, 80)},{rng.choice(('red', 'blue'))}"
        for n in range(1, 50)
    ]
    return "id,name,city,age,team\n" + "\n".join(rows)


def numbers_csv(rng: random.Random) -> str:
    return "t,x,y\n" + "\n".join(f"{n},{rng.randint(0, 999)},{rng.randint(0, 999)}" for n in range(90))


def translations(rng: random.Random) -> str:
    """Pairs with boilerplate around them."""
    pairs = []
    for _ in range(rng.randint(6, 14)):
        pairs.append(
            "English (source, formal register, please keep the placeholders as they are):\n"
            f"{sentence(rng)}\nChinese (target, formal register, please keep the placeholders as they are):\n{cjk(rng, 2)}"
        )
    return "\n\n".join(pairs)


def encoded(rng: random.Random) -> str:
    return "```\n" + base64.encodebytes(rng.randbytes(900)).decode() + "```"


def genome(rng: random.Random) -> str:
    lines = ["".join(rng.choice("ACGT") for _ in range(60)) for _ in range(20)]
    return f">sequence_{rng.randint(1, 99)}\n" + "\n".join(lines)


def boolean_matrix(rng: random.Random) -> str:
    rows = [" ".join(rng.choice("01") for _ in range(24)) for _ in range(20)]
    return "The adjacency matrix:\n\n" + "\n".join(rows) + "\n\n" + sentence(rng)


def zeros(rng: random.Random) -> str:
    return "import numpy as np\n\nx = np.array(" + json.dumps([0] * 64) + ")\nprint(x.shape)\n\n" + sentence(rng)


def html(rng: random.Random) -> str:
    items = [
        f'  <li class="item"><a href="/{rng.choice(NOUNS)}/{rng.randint(1, 999)}">{person(rng)}</a></li>'
        for _ in range(25)
    ]
    return "<ul>\n" + "\n".join(items) + "\n</ul>"


def sql(rng: random.Random) -> str:
    return "\n".join(
        f"INSERT INTO staff (id, name, city, age) VALUES ({n}, '{person(rng)}', '{rng.choice(CITIES)}', {rng.randint(18, 70)});"
        for n in range(1, 30)
    )


def dialogue(rng: random.Random) -> str:
    who = rng.sample(("Anna", "Bruno", "Clara", "David"), 2)
    return "\n".join(f"{who[n % 2]}: {sentence(rng)}" for n in range(24))


def rulers(rng: random.Random) -> str:
    parts = [f"{sentence(rng)}\n{'=' * 72}\n{prose(rng, 4)}\n{'-' * 72}" for _ in range(4)]
    return "\n".join(parts)


def reasoning(rng: random.Random) -> str:
    """Thinks aloud: takes back what it said, but goes on."""
    turns = ("Wait, let me check that again.", "Hmm, that is not right.", "Let me look at the file once more.", "So:")
    return " ".join(f"{rng.choice(turns)} {sentence(rng)} {sentence(rng)}" for _ in range(20))


def excited(rng: random.Random) -> str:
    return f"Ha ha ha ha ha! No no no no. {sentence(rng)} Very, very, very good!!! {sentence(rng)}"


ENDED_ONLY = (short, zeros, excited, song)
"""Recipes whose answers are not cut: they are short, or would be a loop if they were cut in the wrong place."""
RECIPES: tuple[Recipe, ...] = (
    short, essay, chinese, code, assertions, table, wide_table, numbered, capitals, poem, song, json_array,
    json_numbers, log, csv, numbers_csv, translations, encoded, genome, boolean_matrix, zeros, html, sql, dialogue,
    rulers, reasoning, excited,
)  # fmt: skip
