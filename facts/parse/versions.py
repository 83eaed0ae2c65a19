"""The section `versions`: what the container runtime and its companions say of their version, by program."""

import re

from facts.parse.frames import Section
from facts.parse.refusal import quoted

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


def parse_versions(section: Section) -> tuple[dict[str, str], str | None]:
    """Program -> its first line, and the reason where one that is there could not be asked."""
    if section.failure:
        return {}, section.failure
    told: dict[str, list[str]] = {}
    lines: list[str] | None = None
    odd = []
    for line in section.text.splitlines():
        word, _, value = line.partition(" ")
        if word == "program" and _NAME.fullmatch(value):
            lines = told.setdefault(value, [])
        elif lines is not None and line.strip() and word != "program":
            lines.append(line.strip())
        elif line.strip():
            odd.append(line)
    found = {}
    for name, said in told.items():
        if len(said) > 1 and said[-1] == "exit 0":
            found[name] = said[0][:200]
        else:
            odd.append(f"{name}: {'; '.join(said) or 'cut off'}")
    return found, f"want versions, found {quoted('; '.join(odd))}" if odd else None


def parse_names(section: Section, wanted: tuple[str, ...]) -> tuple[dict[str, bool], str | None]:
    """The section `names`: each wanted name -> does it resolve? One that was not told is missing from it."""
    words = {"yes": True, "no": False}
    told = (line.partition(" ") for line in section.text.splitlines())
    found = {name: words[word] for word, _, name in told if word in words and name in wanted}
    return found, section.failure
