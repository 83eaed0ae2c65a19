"""The fourth set: sound answers that are code, data and tables."""

import random

from labelled.fourth_sound import ANIMALS, COLOURS, TOWNS, Recipe
from labelled.tongues import ENGLISH


def go(rng: random.Random) -> str:
    names = rng.sample(ANIMALS, 6)
    return 'package store\n\nimport "errors"\n\n' + "\n\n".join(
        f"func (s *Store) Get{name.title()}(id int) (*{name.title()}, error) {{\n\trow, ok := s.{name}s[id]\n\tif !ok {{\n"
        f'\t\treturn nil, errors.New("{name} not found")\n\t}}\n\treturn row, nil\n}}'
        for name in names
    )


def rust(rng: random.Random) -> str:
    arms = "\n".join(f"            Self::{name.title()} => {rng.randint(1, 900)}," for name in rng.sample(ANIMALS, 12))
    return (
        "```rust\nimpl Kind {\n    fn weight(&self) -> u32 {\n        match self {\n"
        + arms
        + "\n        }\n    }\n}\n```\n"
        + ENGLISH.text(rng, 2)
    )


def java(rng: random.Random) -> str:
    fields = rng.sample(ANIMALS, 8)
    body = "\n\n".join(
        f"    public int get{name.title()}() {{\n        return {name};\n    }}\n\n    public void set{name.title()}(int {name}) {{\n        this.{name} = {name};\n    }}"
        for name in fields
    )
    return "public class Zoo {\n" + "".join(f"    private int {name};\n" for name in fields) + "\n" + body + "\n}"


def css(rng: random.Random) -> str:
    return "\n".join(
        f".{rng.choice(COLOURS)}-{n} {{\n  color: #{rng.randrange(16**6):06x};\n  margin: {rng.randint(0, 40)}px;\n  padding: {rng.randint(0, 40)}px;\n}}"
        for n in range(25)
    )


def shell(rng: random.Random) -> str:
    return (
        "```bash\nset -euo pipefail\n"
        + "\n".join(
            f'mkdir -p "/srv/{town.lower()}" && rsync -a "host{rng.randint(1, 90)}:/data/{rng.choice(ANIMALS)}/" "/srv/{town.lower()}/"'
            for town in TOWNS
        )
        + "\n```"
    )


def dockerfile(rng: random.Random) -> str:
    return "FROM debian:bookworm\n" + "\n".join(
        rng.choice(
            (
                f"RUN apt-get install -y lib{rng.choice(ANIMALS)}{rng.randint(1, 9)}",
                f"COPY {rng.choice(ANIMALS)}/ /opt/{rng.choice(COLOURS)}/",
                f"ENV {rng.choice(COLOURS).upper()}={rng.randint(1, 99)}",
            )
        )
        for _ in range(30)
    )


def verilog(rng: random.Random) -> str:
    return (
        "module dec(input [4:0] a, output reg [6:0] y);\nalways @(*) case (a)\n"
        + "\n".join(f"  5'd{n}: y = 7'b{rng.randrange(128):07b};" for n in range(32))
        + "\nendcase\nendmodule"
    )


def assembly(rng: random.Random) -> str:
    ops = ("mov", "add", "sub", "xor", "cmp", "and", "lea", "imul")
    regs = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9")
    return "\n".join(
        f"    {rng.choice(ops)} {rng.choice(regs)}, {rng.choice((*regs, str(rng.randint(1, 255))))}" for _ in range(60)
    )


def abnf(rng: random.Random) -> str:
    names = [f"{a}-{b}" for a in rng.sample(COLOURS, 6) for b in rng.sample(ANIMALS, 4)]
    return "\n".join(
        f"{name:<18} = {rng.choice(('1*', '*', '2*5', ''))}( {rng.choice(names)} / {rng.choice(names)} / %x{rng.randrange(256):02X}-{rng.randrange(256):02X} )"
        for name in names
    )


def svg_path(rng: random.Random) -> str:
    path = " ".join(f"{rng.choice('MLCQlcq')} {rng.uniform(0, 200):.1f} {rng.uniform(0, 200):.1f}" for _ in range(120))
    return f'<svg viewBox="0 0 200 200"><path fill="none" stroke="#333" d="{path} Z"/></svg>'


def hexdump(rng: random.Random) -> str:
    return "\n".join(
        f"{n * 16:08x}  {rng.randbytes(8).hex(' ')}  {rng.randbytes(8).hex(' ')}  |{''.join(rng.choice('.abcdeXYZ019') for _ in range(16))}|"
        for n in range(40)
    )


def access_log(rng: random.Random) -> str:
    return "\n".join(
        f'10.0.{rng.randint(0, 9)}.{rng.randint(1, 254)} - - [12/Mar/2025:06:{n // 60:02d}:{n % 60:02d} +0000] "GET /{rng.choice(ANIMALS)}/{rng.randint(1, 999)} HTTP/1.1" {rng.choice((200, 200, 200, 304, 404))} {rng.randint(90, 9000)}'
        for n in range(0, 150, 3)
    )


def kube_events(rng: random.Random) -> str:
    return "\n".join(
        f"{rng.randint(1, 59)}m  {rng.choice(('Normal', 'Warning'))}  {rng.choice(('Pulled', 'Created', 'Started', 'BackOff', 'Killing', 'Scheduled'))}  pod/{rng.choice(ANIMALS)}-{rng.randrange(16**5):05x}  {ENGLISH.sentence(rng).strip()}"
        for _ in range(30)
    )


def java_trace(rng: random.Random) -> str:
    return 'Exception in thread "main" java.lang.IllegalStateException: closed\n' + "\n".join(
        f"\tat com.example.{rng.choice(COLOURS)}.{rng.choice(ANIMALS).title()}Service.{rng.choice(('get', 'put', 'run', 'apply'))}({rng.choice(ANIMALS).title()}Service.java:{rng.randint(10, 900)})"
        for _ in range(35)
    )


def heartbeat_log(rng: random.Random) -> str:
    lines = []
    for n in range(45):
        text = (
            "heartbeat ok"
            if rng.random() < 0.6
            else f"request {rng.randrange(16**6):06x} took {rng.randint(2, 900)} ms"
        )
        lines.append(f"2025-03-12T06:{n // 4:02d}:{n * 15 % 60:02d}Z INFO {text}")
    return "\n".join(lines)


def markdown_numbers(rng: random.Random) -> str:
    head = "| town | " + " | ".join(str(year) for year in range(2018, 2025)) + " |\n|" + " --- |" * 8
    return (
        head
        + "\n"
        + "\n".join(f"| {town} | " + " | ".join(f"{rng.uniform(0, 99):.1f}" for _ in range(7)) + " |" for town in TOWNS)
    )


def yes_no_table(rng: random.Random) -> str:
    return "| feature | free | team | enterprise |\n| --- | --- | --- | --- |\n" + "\n".join(
        f"| {a} {b} | {rng.choice(('✓', '–'))} | {rng.choice(('✓', '–'))} | ✓ |"
        for a in COLOURS[:7]
        for b in ANIMALS[:4]
    )


def truth_table(rng: random.Random) -> str:
    rows = []
    for n in range(32):
        bits = [n >> k & 1 for k in range(4, -1, -1)]
        rows.append("| " + " | ".join(map(str, bits)) + f" | {(bits[0] & bits[1]) ^ (bits[2] | bits[3]) & bits[4]} |")
    return "| a | b | c | d | e | out |\n|---|---|---|---|---|---|\n" + "\n".join(rows)


def times_table(rng: random.Random) -> str:
    size = rng.randint(9, 12)
    return "\n".join("\t".join(str(a * b) for b in range(1, size + 1)) for a in range(1, size + 1))


def times_lines(rng: random.Random) -> str:
    return "\n".join(f"{a} x {b} = {a * b}" for a in rng.sample(range(2, 13), 4) for b in range(1, 11))


def json_people(rng: random.Random) -> str:
    rows = [
        f'  {{"id": {n}, "name": "{rng.choice(TOWNS)} {rng.choice(ANIMALS)}", "active": {rng.choice(("true", "false"))}, "score": null, "tags": ["{rng.choice(COLOURS)}"]}}'
        for n in range(1, 30)
    ]
    return "[\n" + ",\n".join(rows) + "\n]"


def geojson(rng: random.Random) -> str:
    return (
        '{"type": "LineString", "coordinates": ['
        + ", ".join(f"[{rng.uniform(-9, 9):.5f}, {rng.uniform(40, 55):.5f}]" for _ in range(70))
        + "]}"
    )


def json_schema(rng: random.Random) -> str:
    return (
        '{"type": "object", "properties": {'
        + ", ".join(
            f'"{a}_{b}": {{"type": "{rng.choice(("string", "integer", "boolean"))}"}}'
            for a in COLOURS[:9]
            for b in ANIMALS[:3]
        )
        + "}}"
    )


def openapi(rng: random.Random) -> str:
    return "paths:\n" + "\n".join(
        f"  /{name}s:\n    get:\n      summary: List {name}s\n      responses:\n        '200':\n          description: A list of {name}s\n    post:\n      summary: Create a {name}\n      responses:\n        '201':\n          description: Created"
        for name in rng.sample(ANIMALS, 10)
    )


def board(rng: random.Random) -> str:
    return "\n".join("".join(rng.choice("....#.~^") for _ in range(36)) for _ in range(22))


def sudoku(rng: random.Random) -> str:
    rows = [" ".join(str((r * 3 + r // 3 + c) % 9 + 1) for c in range(9)) for r in range(9)]
    return "Here is the solution:\n\n" + "\n".join(rows) + "\n\nEach row, column and box has every digit once."


def tree(rng: random.Random) -> str:
    return "project\n" + "\n".join(
        f"├── {a}\n│   ├── __init__.py\n│   ├── {rng.choice(ANIMALS)}.py\n│   └── test_{rng.choice(ANIMALS)}.py"
        for a in rng.sample(COLOURS, 10)
    )


def chess(rng: random.Random) -> str:
    return " ".join(
        f"{n}. {rng.choice('NBRQ')}{rng.choice('abcdefgh')}{rng.randint(1, 8)} {rng.choice('NBRQ')}{rng.choice('abcdefgh')}{rng.randint(1, 8)}"
        for n in range(1, 45)
    )


def fasta(rng: random.Random) -> str:
    return "\n".join(
        f">seq{n}\n" + "".join(rng.choice("ACDEFGHIKLMNPQRSTVWY") for _ in range(180)) for n in range(1, 6)
    )


def gitlog(rng: random.Random) -> str:
    return "\n".join(
        f"{rng.randrange(16**7):07x} {rng.choice(('fix', 'feat', 'docs', 'test', 'chore'))}({rng.choice(ANIMALS)}): {ENGLISH.sentence(rng).strip()[:-1].lower()}"
        for _ in range(35)
    )


def mermaid(rng: random.Random) -> str:
    return (
        "```mermaid\ngraph TD\n"
        + "\n".join(
            f"    {rng.choice('ABCDEFGH')}{rng.randint(1, 9)}[{rng.choice(COLOURS)}] -->|{rng.choice(ANIMALS)}| {rng.choice('ABCDEFGH')}{rng.randint(1, 9)}"
            for _ in range(35)
        )
        + "\n```"
    )


def prometheus(rng: random.Random) -> str:
    return "\n".join(
        f'http_requests_total{{method="{rng.choice(("get", "post"))}",path="/{name}",code="{code}"}} {rng.randint(0, 99999)}'
        for name in rng.sample(ANIMALS, 12)
        for code in (200, 404, 500)
    )


def parametrised(rng: random.Random) -> str:
    return (
        "@pytest.mark.parametrize(\n    ('n', 'want'),\n    [\n"
        + "\n".join(f"        ({rng.randint(-99, 99)}, {rng.randint(-99, 999)})," for _ in range(45))
        + "\n    ],\n)"
    )


def primes(rng: random.Random) -> str:
    found = [n for n in range(2, rng.randint(300, 900)) if all(n % d for d in range(2, int(n**0.5) + 1))]
    return "The primes are " + ", ".join(map(str, found)) + "."


def latex_sum(rng: random.Random) -> str:
    return (
        "\\begin{align}\n"
        + " \\\\\n".join(
            f"S_{{{n}}} &= \\frac{{{rng.randint(1, 99)}}}{{{rng.randint(2, 99)}}} + \\frac{{{rng.randint(1, 99)}}}{{{rng.randint(2, 99)}}} x^{{{rng.randint(2, 9)}}}"
            for n in range(1, 25)
        )
        + "\n\\end{align}"
    )


RECIPES: tuple[Recipe, ...] = (
    go, rust, java, css, shell, dockerfile, verilog, assembly, abnf, svg_path, hexdump, access_log, kube_events, java_trace, heartbeat_log,
    markdown_numbers, yes_no_table, truth_table, times_table, times_lines, json_people, geojson, json_schema, openapi, board, sudoku, tree,
    chess, fasta, gitlog, mermaid, prometheus, parametrised, primes, latex_sum,
)  # fmt: skip
