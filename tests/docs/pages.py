"""README.md and docs/ as data: their fenced blocks, the commands in them, and the output that is shown of these."""

import re
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(\S*)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"\s+# .*?\bexit (\d)\b.*$")
_COMMENT = re.compile(r"\s+# .*$")

# What differs from run to run in an output.
_VOLATILE = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "HEX"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\+00:00|Z| UTC|\b)"), "WHEN"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) WHEN"), "WHEN"),
    (re.compile(r"\d+(?:\.\d+)? s\b"), "N s"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the file that it is (`file=PATH` behind the language), its text."""

    page: str
    line: int
    language: str
    file: str | None
    text: str


@dataclass(frozen=True)
class Command:
    """One line of a ```sh block, and what it must end with: `# exit 2` in a comment behind it, else 0."""

    page: str
    line: int
    text: str
    code: int = 0

    @property
    def place(self) -> str:
        """`docs/lab.md:12`."""
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(PROJECT))
    return [
        Block(name, text.count("\n", 0, match.start()) + 2, match[1], match[2], match[3])
        for match in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    """The commands of a ```sh block; a backslash at the end of a line joins it with the next."""
    found = []
    lines = block.text.replace("\\\n", "\0").splitlines()
    number = block.line
    for line in lines:
        joined = line.replace("\0", "")
        if joined.strip() and not joined.startswith("#"):
            code = _EXIT.search(joined)
            found.append(Command(block.page, number, _COMMENT.sub("", joined).strip(), int(code[1]) if code else 0))
        number += 1 + line.count("\0")
    return found


def prose(page: Path) -> str:
    """The page without its ```sh blocks and without files and their outputs."""
    return _FENCE.sub(lambda match: match[3] if match[1] in ("", "text") else "", page.read_text(encoding="utf-8"))


def steady(line: str) -> str:
    """A line of output without what differs from run to run."""
    for pattern, word in _VOLATILE:
        line = pattern.sub(word, line)
    return line.strip()


def missing(shown: str, output: str) -> list[str]:
    """Lines of a ```text block that the output does not have. `...` leaves something out."""
    there = [steady(line) for line in output.splitlines()]
    return [line for line in map(steady, shown.splitlines()) if line and not any(_is(line, one) for one in there)]


def _is(shown: str, real: str) -> bool:
    pattern = r"\s*.*\s*".join(re.escape(part.strip()) for part in shown.split("..."))
    return re.fullmatch(pattern, real) is not None


def links(page: Path) -> list[str]:
    """Files that a page links to, as it names them."""
    found = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose(page))
    return [target for target in found if "://" not in target]


def named_commands(page: Path) -> list[list[str]]:
    """Commands named in `code` within the text: the words of each that begins with `fleet` or `make`."""
    spans = re.findall(r"`([^`\n]+)`", _FENCE.sub("", page.read_text(encoding="utf-8")))
    return [words for span in spans if (words := span.split())[0] in ("fleet", "make") and len(words) > 1]
