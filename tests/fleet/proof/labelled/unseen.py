"""A third set, written when the thresholds had been corrected after the held-out one: plainer, as other people write tests."""

import random
from collections.abc import Callable

from labelled.material import CITIES, FIRST, NOUNS, cut, person, prose, sentence

Recipe = Callable[[random.Random], str]
LOREM = [
    "lorem",
    "ipsum",
    "dolor",
    "sit",
    "amet",
    "consectetur",
    "adipiscing",
    "elit",
    "sed",
    "do",
    "eiusmod",
    "tempor",
    "incididunt",
    "ut",
    "labore",
    "et",
    "dolore",
    "magna",
    "aliqua",
    "enim",
    "minim",
    "veniam",
    "quis",
    "nostrud",
    "exercitation",
    "ullamco",
    "laboris",
    "nisi",
    "aliquip",
    "ex",
    "ea",
    "commodo",
    "consequat",
    "duis",
    "aute",
    "irure",
    "in",
    "reprehenderit",
]


def test_output(rng: random.Random) -> str:
    names = [
        f"tests/test_{rng.choice(NOUNS)}.py::test_{rng.choice(NOUNS)}_{rng.choice(('saves', 'loads', 'fails'))}"
        for _ in range(45)
    ]
    return "\n".join(f"{name} PASSED [{n * 2:3d}%]" for n, name in enumerate(names, 1))


def lorem(rng: random.Random) -> str:
    def once() -> str:
        text = " ".join(rng.choice(LOREM) for _ in range(rng.randint(6, 14)))
        return text.capitalize() + "."

    return " ".join(once() for _ in range(25))


def questions(rng: random.Random) -> str:
    return "\n\n".join(
        f"**Q: What happens when {sentence(rng)[:-1].lower()}?**\n\nA: {sentence(rng)} {sentence(rng)}"
        for _ in range(12)
    )


def constants(rng: random.Random) -> str:
    names = rng.sample([f"{a}_{b}" for a in NOUNS for b in ("OPEN", "CLOSED", "LOST", "NEW", "DONE")], 40)
    return "class State(enum.IntEnum):\n" + "\n".join(f"    {name.upper()} = {n}" for n, name in enumerate(names))


def switch(rng: random.Random) -> str:
    lines = [f'        case {n}:\n            return "{person(rng).lower()}";' for n in range(1, 40)]
    return "switch (id) {\n" + "\n".join(lines) + "\n}"


def plan_of_days(rng: random.Random) -> str:
    return "\n".join(f"Day {n}: {sentence(rng)}" if n % 3 else f"Day {n}: Rest day." for n in range(1, 31))


def listing(rng: random.Random) -> str:
    rows = [
        f"-rw-r--r-- 1 root root {rng.randint(10, 99999):>6} Mar {rng.randint(1, 30):>2} 10:{rng.randint(0, 59):02d} {rng.choice(NOUNS)}-{rng.randint(1, 999)}.log"
        for _ in range(40)
    ]
    return "total 96\n" + "\n".join(rows)


def contract(rng: random.Random) -> str:
    parts = [
        f"{n}. The Supplier shall ensure that {sentence(rng)[:-1].lower()}, and the Customer shall be notified in writing within {rng.randint(2, 60)} days."
        for n in range(1, 16)
    ]
    return "\n\n".join(parts)


def settings(rng: random.Random) -> str:
    return "\n\n".join(
        f"[{name}]\nenabled = true\nretries = {rng.randint(1, 9)}\ntimeout = {rng.randint(5, 900)}\npath = /var/lib/{name}/{rng.choice(CITIES).lower()}"
        for name in rng.sample(NOUNS, 10)
    )


def trace(rng: random.Random) -> str:
    numbers = rng.sample(range(100), 9)
    lines = [f"Start: {numbers}"]
    for i in range(len(numbers)):
        for j in range(len(numbers) - 1 - i):
            if numbers[j] > numbers[j + 1]:
                numbers[j], numbers[j + 1] = numbers[j + 1], numbers[j]
                lines.append(f"Swap positions {j} and {j + 1}: {numbers}")
    return "\n".join(lines)


def counting(rng: random.Random) -> str:
    return "Here are the numbers:\n" + ", ".join(str(n) for n in range(1, rng.randint(80, 200)))


SOUND: tuple[Recipe, ...] = (
    test_output, lorem, questions, constants, switch, plan_of_days, listing, contract, settings, trace, counting,
)  # fmt: skip
WHOLE = (counting,)


def one_word(rng: random.Random) -> str:
    return f"{rng.choice(FIRST)} " * rng.randint(60, 300)


def recheck(rng: random.Random) -> str:
    answer = rng.randint(2, 99)
    return f"The answer is {answer}." + cut(
        rng, f"\n\nWait, let me re-check. The answer is {answer}." * rng.randint(8, 30)
    )


def increments(rng: random.Random) -> str:
    return "```python\n" + cut(rng, "x = x + 1\n" * rng.randint(30, 90))


def snippet(rng: random.Random) -> str:
    return "```python\n" + cut(
        rng, f"for {rng.choice('ijk')} in range({rng.randint(2, 50)}):\n    print(i)\n" * rng.randint(12, 30)
    )


def objects(rng: random.Random) -> str:
    return "[" + cut(rng, '{"a": 1, "b": 2}, ' * rng.randint(20, 60))


def nested(rng: random.Random) -> str:
    return '{"data": ' + "[" * rng.randint(200, 600)


def few_cities(rng: random.Random) -> str:
    few = rng.sample(CITIES, 3)
    return "Cities to visit:\n" + cut(
        rng, "".join(f"{n}. {rng.choice(few)} is a beautiful city to visit\n" for n in range(1, 120))
    )


def options(rng: random.Random) -> str:
    return "You have these options:\n" + cut(rng, "".join(f"- Option {n}\n" for n in range(1, rng.randint(60, 200))))


def chinese_steps(rng: random.Random) -> str:
    return cut(rng, "".join(f"第{n}步：检查配置文件是否正确。" for n in range(1, rng.randint(20, 80))))


def noise(rng: random.Random) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return (
        sentence(rng)
        + " "
        + " ".join("".join(rng.choice(letters) for _ in range(rng.randint(3, 9))) for _ in range(200))
    )


def dots(rng: random.Random) -> str:
    return prose(rng, 3) + rng.choice((".", "-", " .", "_")) * rng.randint(500, 900)


def tripled(rng: random.Random) -> str:
    return (prose(rng, 6) + "\n\n") * 3


def squares(rng: random.Random) -> str:
    return cut(rng, "".join(f"Item {n} has the value {n * 2}. " for n in range(1, rng.randint(40, 90))))


def synonyms(rng: random.Random) -> str:
    adjectives = ("good", "great", "nice", "fine", "excellent", "wonderful", "perfect", "lovely")
    return (
        sentence(rng)
        + " "
        + cut(rng, "".join(f"This is a {rng.choice(adjectives)} solution to the problem. " for _ in range(60)))
    )


DECAYED: tuple[Recipe, ...] = (
    one_word, recheck, increments, snippet, objects, nested, few_cities, options, chinese_steps, noise, dots, tripled, squares, synonyms,
)  # fmt: skip
ENDED = (tripled,)
