"""A fifth set, written after the detector was corrected by the fourth: sound answers, code and data."""

import random
import string

from labelled.fourth_sound import ANIMALS, COLOURS, TOWNS, Recipe
from labelled.tongues import ALL, ENGLISH, GERMAN, KOREAN, UNSPACED


def translated_lines(rng: random.Random) -> str:
    tongue = rng.choice(ALL)
    return "\n".join(f"{n}. {ENGLISH.sentence(rng).strip()} — {tongue.sentence(rng).strip()}" for n in range(1, 16))


def korean_tech(rng: random.Random) -> str:
    words = ("API", "GPU", "JSON", "HTTP", "SQL", "CPU", "URL")
    return " ".join(
        f"{rng.choice(words)}{rng.choice(('를', '에서', '는', '와'))} {KOREAN.sentence(rng).strip()}" for _ in range(16)
    )


def japanese_tech(rng: random.Random) -> str:
    words = ("API", "GPU", "JSON", "Docker", "Linux", "Python")
    return "".join(f"{rng.choice(words)}の設定について、{UNSPACED[2].sentence(rng)}" for _ in range(14))


def chinese_list(rng: random.Random) -> str:
    digits = "一二三四五六七八九"
    return "\n".join(f"{digits[n]}、{UNSPACED[1].sentence(rng)}{UNSPACED[1].sentence(rng)}" for n in range(9))


def weather(rng: random.Random) -> str:
    return "\n".join(
        f"**{town}**: {rng.choice(('sunny', 'cloudy', 'light rain', 'fog', 'windy'))}, {rng.randint(-5, 30)} °C, wind {rng.randint(0, 60)} km/h from the {rng.choice(('north', 'south', 'east', 'west'))}"
        for town in rng.sample(TOWNS, 14)
    )


def prayer(rng: random.Random) -> str:
    return "\n".join(f"For {rng.choice(ENGLISH.objects)}, we give thanks." for _ in range(12)) + "\nAmen."


def rounds(rng: random.Random) -> str:
    return (
        "Row, row, row your boat,\nGently down the stream.\nMerrily, merrily, merrily, merrily,\nLife is but a dream.\n\n"
        "Frère Jacques, Frère Jacques,\nDormez-vous? Dormez-vous?\nSonnez les matines, sonnez les matines,\nDing, dang, dong. Ding, dang, dong.\n\n"
        f"Twinkle, twinkle, little {rng.choice(ANIMALS)},\nHow I wonder what you are.\nUp above the world so high,\nLike a diamond in the sky.\n"
    )


def yaml_hosts(rng: random.Random) -> str:
    return "all:\n  hosts:\n" + "\n".join(
        f"    {town.lower()}{n:02d}:\n      ansible_host: 10.{rng.randint(0, 9)}.{rng.randint(0, 255)}.{rng.randint(1, 254)}\n      ansible_user: deploy\n      role: {rng.choice(COLOURS)}"
        for n, town in enumerate(TOWNS)
    )


def kotlin(rng: random.Random) -> str:
    return "\n\n".join(
        f"data class {name.title()}(\n    val id: Long,\n    val name: String,\n    val {rng.choice(COLOURS)}: Int = {rng.randint(0, 99)},\n)"
        for name in rng.sample(ANIMALS, 10)
    )


def haskell(rng: random.Random) -> str:
    return "\n".join(
        f"step {rng.choice(ANIMALS).title()} ({rng.choice(COLOURS).title()} n) | n > {rng.randint(1, 90)} = {rng.choice(COLOURS).title()} (n - {rng.randint(1, 9)})"
        for _ in range(28)
    )


def matlab(rng: random.Random) -> str:
    return (
        "A = [\n"
        + "\n".join("  " + " ".join(f"{rng.gauss(0, 1):8.4f}" for _ in range(8)) + ";" for _ in range(20))
        + "\n];"
    )


def terraform(rng: random.Random) -> str:
    return "\n\n".join(
        f'resource "aws_instance" "{name}" {{\n  ami           = "ami-{rng.randrange(16**12):012x}"\n  instance_type = "t3.{rng.choice(("micro", "small", "large"))}"\n  tags = {{\n    Name = "{name}"\n  }}\n}}'
        for name in rng.sample(ANIMALS, 9)
    )


def crontab(rng: random.Random) -> str:
    return "\n".join(
        f"{rng.randint(0, 59)} {rng.randint(0, 23)} * * {rng.randint(0, 6)} /usr/local/bin/{rng.choice(ANIMALS)} --{rng.choice(COLOURS)}"
        for _ in range(25)
    )


def midi(rng: random.Random) -> str:
    return " | ".join(
        " ".join(f"{rng.choice('CDEFGAB')}{rng.choice(('', '#'))}{rng.randint(3, 5)}" for _ in range(4))
        for _ in range(35)
    )


def morse(rng: random.Random) -> str:
    return " ".join("".join(rng.choice(".-") for _ in range(rng.randint(1, 4))) for _ in range(140))


def binary(rng: random.Random) -> str:
    return " ".join(f"{rng.randrange(256):08b}" for _ in range(120))


def passwords(rng: random.Random) -> str:
    return "\n".join(
        f"{n}. `{''.join(rng.choice(string.ascii_letters + string.digits + '!$%&?') for _ in range(16))}`"
        for n in range(1, 30)
    )


def nmea(rng: random.Random) -> str:
    return "\n".join(
        f"$GPGGA,{n:06d}.00,4717.{rng.randint(10000, 99999)},N,00833.{rng.randint(10000, 99999)},E,1,08,1.01,{rng.uniform(400, 500):.1f},M,48.0,M,,*{rng.randrange(256):02X}"
        for n in range(92725, 92760)
    )


def dice(rng: random.Random) -> str:
    return "The rolls are: " + ", ".join(str(rng.randint(1, 6)) for _ in range(150))


def labels(rng: random.Random) -> str:
    return "\n".join(f"{n}\t{rng.choice(('positive', 'negative', 'neutral'))}" for n in range(1, 70))


def bmi(rng: random.Random) -> str:
    return "\n".join(f"| {n} | {n * 1.8 + 32:.1f} | {n + 273.15:.2f} |" for n in range(-20, 35))


def pseudocode(rng: random.Random) -> str:
    return "\n".join(
        f"{'  ' * (n % 4)}{rng.choice(('if', 'while', 'for each', 'return', 'set', 'call'))} {rng.choice(ANIMALS)} {rng.choice(('is', 'in', 'to', 'of'))} {rng.choice(COLOURS)}"
        for n in range(45)
    )


def toc(rng: random.Random) -> str:
    return "\n".join(
        f"{a}.{b} {ENGLISH.sentence(rng).strip()[:-1]} {'.' * rng.randint(20, 40)} {a * 20 + b}"
        for a in range(1, 7)
        for b in range(1, 6)
    )


def german_law(rng: random.Random) -> str:
    return "\n\n".join(
        f"§ {n}\n({rng.randint(1, 3)}) {GERMAN.sentence(rng)}{GERMAN.sentence(rng)}Das Nähere regelt eine Verordnung."
        for n in range(1, 14)
    )


def think_then_answer(rng: random.Random) -> str:
    return (
        "<think>\nOkay, the user wants a summary. Let me think about it. "
        + ENGLISH.text(rng, 8)
        + " Wait, I should keep it short. "
        + ENGLISH.text(rng, 4)
        + "\n</think>\n\n"
        + ENGLISH.text(rng, 3)
    )


def proofs(rng: random.Random) -> str:
    return "\n\n".join(
        f"**Lemma {n}.** If {rng.choice('abcxyz')} divides {rng.choice('abcxyz')}{rng.choice('abcxyz')}, then {ENGLISH.sentence(rng).strip()[:-1].lower()}.\n\n*Proof.* {ENGLISH.text(rng, 2)} ∎"
        for n in range(1, 10)
    )


def short_list(rng: random.Random) -> str:
    return "\n".join(f"- {one}" for one in rng.sample(ANIMALS, rng.randint(2, 6)))


def one_line(rng: random.Random) -> str:
    return rng.choice(
        (
            "SELECT 1;",
            "rm -rf build/",
            "The sum is 12.",
            "Lima, Peru",
            "Nein.",
            "お元気ですか",
            "print('ok')",
            "404",
            "x = 3",
            "¡Hola!",
        )
    )


RECIPES: tuple[Recipe, ...] = (
    translated_lines, korean_tech, japanese_tech, chinese_list, weather, prayer, yaml_hosts, kotlin, haskell, matlab, terraform, crontab,
    midi, morse, binary, passwords, nmea, dice, labels, bmi, pseudocode, toc, german_law, think_then_answer, proofs,
)  # fmt: skip
WHOLE: tuple[Recipe, ...] = (short_list, one_line, rounds)
