"""A fourth set, by another generator: sound answers of kinds that were not looked at before, prose and talk."""

import base64
import random
import uuid
from collections.abc import Callable

from labelled.tongues import ALL, ENGLISH, UNSPACED

Recipe = Callable[[random.Random], str]
COLOURS = "amber azure beige coral crimson ebony fuchsia indigo ivory jade khaki lilac maroon ochre olive pearl plum ruby".split()  # noqa: SIM905
ANIMALS = [
    "otter",
    "heron",
    "badger",
    "lynx",
    "marten",
    "osprey",
    "toad",
    "viper",
    "weasel",
    "plover",
    "stoat",
    "newt",
    "raven",
    "finch",
    "shrew",
    "bison",
    "moose",
]
TOWNS = [
    "Aarhus",
    "Bergamo",
    "Coimbra",
    "Dijon",
    "Esbjerg",
    "Faro",
    "Ghent",
    "Haarlem",
    "Innsbruck",
    "Kaunas",
    "Lugano",
    "Maribor",
    "Namur",
    "Olomouc",
    "Pori",
]


def many_languages(rng: random.Random) -> str:
    return rng.choice(ALL).text(rng, rng.randint(8, 24))


def unspaced_language(rng: random.Random) -> str:
    return rng.choice(UNSPACED).text(rng, rng.randint(8, 24))


def english(rng: random.Random) -> str:
    return "\n\n".join(ENGLISH.text(rng, rng.randint(3, 6)) for _ in range(rng.randint(2, 6)))


def very_short(rng: random.Random) -> str:
    return rng.choice(
        (
            "7",
            "Yes",
            "No.",
            "42.",
            "Paris",
            "ok",
            "是的。",
            "0",
            "true",
            "[]",
            "{}",
            "👍",
            "B",
            "`ls`",
            "-1",
            "$3.50",
            "N/A",
            "C major",
        )
    )


def empty(rng: random.Random) -> str:
    return rng.choice(("", " ", "\n"))


def villanelle(rng: random.Random) -> str:
    first, last = ENGLISH.sentence(rng).strip(), ENGLISH.sentence(rng).strip()
    tercets = [(first, ENGLISH.sentence(rng).strip(), last)]
    tercets += [
        (ENGLISH.sentence(rng).strip(), ENGLISH.sentence(rng).strip(), (n % 2 and first) or last) for n in range(1, 5)
    ]
    return "\n\n".join("\n".join(map(str, each)) for each in tercets) + f"\n\n{ENGLISH.sentence(rng)}\n{first}\n{last}"


def cumulative_song(rng: random.Random) -> str:
    gifts = [f"{n} {rng.choice(COLOURS)} {rng.choice(ANIMALS)}s" for n in range(2, 9)]
    ordinals = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
    verses = ["On the first day of winter my neighbour gave to me\na lantern in a chestnut tree."]
    for n, name in enumerate(ordinals):
        given = ",\n".join(reversed(gifts[: n + 1]))
        verses.append(
            f"On the {name} day of winter my neighbour gave to me\n{given},\nand a lantern in a chestnut tree."
        )
    return "\n\n".join(verses)


def ballad(rng: random.Random) -> str:
    refrain = "\n".join(ENGLISH.sentence(rng).strip() for _ in range(2))
    stanza = "\n".join
    return "\n\n".join(stanza([ENGLISH.sentence(rng).strip() for _ in range(4)]) + "\n\n" + refrain for _ in range(5))


def chant(rng: random.Random) -> str:
    town = rng.choice(TOWNS)
    return (
        f"Here is a chant for the match:\n\n{town}, {town}, {town}!\nOlé, olé, olé, olé!\nWho are we? {town}!\n"
        f"Louder now: {town}!\nClap, clap, clap-clap-clap!\nOlé, olé, olé, olé!\n\n" + ENGLISH.text(rng, 2)
    )


def nursery(rng: random.Random) -> str:
    sounds = {"cow": "moo", "pig": "oink", "duck": "quack", "sheep": "baa"}
    return "\n\n".join(
        f"Old MacDonald had a farm, E-I-E-I-O,\nAnd on that farm he had a {animal}, E-I-E-I-O,\n"
        f"With a {sound}-{sound} here and a {sound}-{sound} there,\nHere a {sound}, there a {sound}, everywhere a {sound}-{sound},\n"
        "Old MacDonald had a farm, E-I-E-I-O."
        for animal, sound in rng.sample(sorted(sounds.items()), 4)
    )


def interview(rng: random.Random) -> str:
    return "\n".join(
        f"**{'Interviewer' if n % 2 == 0 else 'Guest'}:** {ENGLISH.text(rng, rng.randint(1, 3))}" for n in range(18)
    )


def second_thoughts(rng: random.Random) -> str:
    a, b = rng.randint(12, 99), rng.randint(12, 99)
    return (
        f"Let me compute {a} * {b}. {a} * {b // 10 * 10} = {a * (b // 10 * 10)}. Then {a} * {b % 10} = {a * (b % 10)}. "
        f"Wait, let me double-check the first product: {a} * {b // 10} = {a * (b // 10)}, times ten is {a * (b // 10) * 10}. Yes. "
        f"The sum is {a * b}. Let me verify by estimation: {round(a, -1)} * {round(b, -1)} = {round(a, -1) * round(b, -1)}, which is close. "
        f"So the answer is **{a * b}**."
    )


def brute_force(rng: random.Random) -> str:
    m, r = rng.randint(23, 97), rng.randint(1, 20)
    lines = [
        f"n = {n}: n² = {n * n}, and {n * n} mod {m} = {n * n % m}{', which is it!' if n * n % m == r else ', no.'}"
        for n in range(2, 40)
    ]
    return f"We look for n with n² ≡ {r} (mod {m}).\n\n" + "\n".join(lines)


def long_division(rng: random.Random) -> str:
    top, bottom = rng.randint(10**11, 10**12), rng.randint(13, 97)
    rest, lines = 0, []
    for digit in str(top):
        now = rest * 10 + int(digit)
        lines.append(f"Bring down {digit}: {now} ÷ {bottom} = {now // bottom}, remainder {now % bottom}.")
        rest = now % bottom
    return f"Divide {top} by {bottom}:\n\n" + "\n".join(lines) + f"\n\nThe result is {top // bottom} remainder {rest}."


def conjugation(rng: random.Random) -> str:
    verbs = rng.sample(("walk", "paint", "visit", "climb", "answer", "open", "follow", "return", "borrow", "notice"), 5)
    return "\n\n".join(
        f"**to {verb}**\n- I {verb}, you {verb}, he {verb}s, we {verb}, they {verb}\n"
        f"- I {verb}ed, you {verb}ed, he {verb}ed, we {verb}ed, they {verb}ed\n- I will {verb}, you will {verb}, she will {verb}"
        for verb in verbs
    )


def recipe_steps(rng: random.Random) -> str:
    things = (
        "flour",
        "butter",
        "two eggs",
        "the dough",
        "sugar",
        "the onions",
        "a pinch of salt",
        "the tomatoes",
        "cream",
        "basil",
    )
    deeds = (
        "Add {}",
        "Stir in {}",
        "Set {} aside",
        "Fold {} into the mixture",
        "Chop {}",
        "Warm {} gently",
        "Cover {}",
    )
    return "\n".join(
        f"{n}. {rng.choice(deeds).format(rng.choice(things))} and wait {rng.randint(1, 40)} minutes."
        for n in range(1, 22)
    )


def minutes_of_meeting(rng: random.Random) -> str:
    return "\n".join(
        f"- **{rng.randint(9, 17):02d}:{rng.randint(0, 59):02d}** {rng.choice(('Decision', 'Action', 'Note', 'Risk'))}: {ENGLISH.sentence(rng).strip()}"
        for _ in range(22)
    )


def bibliography(rng: random.Random) -> str:
    return "\n".join(
        f'[{n}] {rng.choice("ABCDEFGHJKLM")}. {rng.choice(TOWNS)}, "{ENGLISH.sentence(rng).strip()[:-1]}," Journal of {rng.choice(COLOURS).title()} '
        f"Studies, vol. {rng.randint(1, 60)}, pp. {rng.randint(1, 400)}–{rng.randint(401, 800)}, {rng.randint(1960, 2025)}."
        for n in range(1, 20)
    )


def endpoints(rng: random.Random) -> str:
    names = rng.sample(ANIMALS, 8)
    return "\n".join(
        f"- `{verb} /api/v1/{name}s{'/{id}' if verb in ('GET', 'PUT', 'DELETE') else ''}` {word} a {name}"
        for name in names
        for verb, word in (("GET", "returns"), ("POST", "creates"), ("PUT", "replaces"), ("DELETE", "removes"))
    )


def tool_transcript(rng: random.Random) -> str:
    out = []
    for _ in range(9):
        name, n = rng.choice(("read_file", "run", "search", "list_dir")), rng.randint(1, 900)
        out.append(
            f'<tool_call>\n{{"name": "{name}", "arguments": {{"path": "src/{rng.choice(ANIMALS)}.py", "line": {n}}}}}\n</tool_call>'
        )
        out.append(
            f"<tool_response>\n{n}: {ENGLISH.sentence(rng).strip()}\n</tool_response>\n{ENGLISH.sentence(rng).strip()}"
        )
    return "\n".join(out)


def gherkin(rng: random.Random) -> str:
    return "Feature: lending\n\n" + "\n\n".join(
        f"  Scenario: {rng.choice(COLOURS)} {rng.choice(ANIMALS)} {n}\n    Given a member with {rng.randint(0, 9)} books\n"
        f"    When the member borrows {rng.randint(1, 4)} books\n    Then the member has {rng.randint(1, 13)} books\n    And the desk prints a receipt"
        for n in range(1, 12)
    )


def multiple_choice(rng: random.Random) -> str:
    return "\n\n".join(
        f"{n}. What has {ENGLISH.subjects[n % 10]} to do with {rng.choice(ENGLISH.objects)}?\n"
        + "\n".join(f"   {letter}) {rng.choice(ENGLISH.verbs)} {rng.choice(ENGLISH.objects)}" for letter in "ABCD")
        + f"\n   Answer: {rng.choice('ABCD')}"
        for n in range(1, 13)
    )


def subtitles(rng: random.Random) -> str:
    return "\n\n".join(
        f"{n}\n00:{n // 20:02d}:{n * 3 % 60:02d},{rng.randint(0, 999):03d} --> 00:{n // 20:02d}:{(n * 3 + 2) % 60:02d},{rng.randint(0, 999):03d}\n{ENGLISH.sentence(rng).strip()}"
        for n in range(1, 30)
    )


def roman(rng: random.Random) -> str:
    tens, ones = ("", "X", "XX", "XXX", "XL"), ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
    return "The Roman numerals are:\n\n" + "\n".join(
        f"{n} = {tens[n // 10]}{ones[n % 10]}" for n in range(1, rng.randint(30, 50))
    )


def uuids(rng: random.Random) -> str:
    return "\n".join(str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(rng.randint(15, 60)))


def base64_block(rng: random.Random) -> str:
    raw = base64.b64encode(rng.randbytes(rng.randint(300, 2000))).decode()
    return (
        "-----BEGIN CERTIFICATE-----\n"
        + "\n".join(raw[n : n + 64] for n in range(0, len(raw), 64))
        + "\n-----END CERTIFICATE-----"
    )


def letter(rng: random.Random) -> str:
    return f"Dear {rng.choice(TOWNS)} office,\n\n{ENGLISH.text(rng, 5)}\n\n{ENGLISH.text(rng, 4)}\n\nKind regards,\nA. {rng.choice(TOWNS)}"


RECIPES: tuple[Recipe, ...] = (
    many_languages, unspaced_language, english, villanelle, cumulative_song, ballad, nursery, interview, second_thoughts, brute_force,
    long_division, conjugation, recipe_steps, minutes_of_meeting, bibliography, endpoints, tool_transcript, gherkin, multiple_choice,
    subtitles, uuids, base64_block, letter, chant,
)  # fmt: skip
WHOLE: tuple[Recipe, ...] = (very_short, empty, roman)
