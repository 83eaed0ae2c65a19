"""Quoting for systemd, decided here once: words of ExecStart= and values of an EnvironmentFile=.

Source: systemd.service(5) "COMMAND LINES", systemd.exec(5) EnvironmentFile=, systemd.syntax(7).
"""

import re

_PLAIN = re.compile(r"[A-Za-z0-9_@/:.,=+-]+")


class QuotingError(ValueError):
    """A text that systemd cannot carry."""


_NONCHARACTER = re.compile(
    f"[\ufdd0-\ufdef{''.join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))}]"
)


def _refuse_broken(text: str) -> None:
    """Neither NUL nor a Unicode noncharacter: systemd takes text with one for invalid UTF-8 (utf8_is_valid)."""
    if "\x00" in text:
        raise QuotingError(f"want text without NUL bytes, found {text!r}")
    if bad := _NONCHARACTER.search(text):
        raise QuotingError(f"want text without Unicode noncharacters, found {bad[0]!r}")


def exec_word(word: str) -> str:
    """One argv item as a word of ExecStart=.

    In double quotes systemd takes C escapes; `%` starts a specifier and `$` a variable everywhere, so both are doubled.
    Control characters become escapes, non-ASCII stays as UTF-8. A line may not end inside a word, so newline is `\\n`.
    """
    _refuse_broken(word)
    text = word.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(word):
        return word
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(f"\\x{ord(c):02x}" if ord(c) < 32 or ord(c) == 127 else c for c in escaped) + '"'


def exec_line(argv: tuple[str, ...]) -> str:
    """An ExecStart= value, a flag a line, so that a difference shows the flag that changed.

    A backslash at the end of a line joins it with the next (systemd.syntax(7)). The first word is a path, so none of
    systemd's prefix characters can start it. Raises QuotingError.
    """
    if not argv or not argv[0].startswith("/"):
        raise QuotingError(f"want an absolute path as the first word, found {argv[:1]}")
    lines = [exec_word(argv[0])]
    for word in argv[1:]:
        if word.startswith("--"):
            lines.append(exec_word(word))
        else:
            lines[-1] += " " + exec_word(word)
    return " \\\n    ".join(lines)


def control_character(value: str) -> str | None:
    """The first character of a variable's value for which systemd would drop the variable, or None."""
    bad = (c for c in value if (ord(c) < 32 and c not in "\n\t") or ord(c) == 127 or _NONCHARACTER.match(c))
    return next(bad, None)


def environment_line(name: str, value: str) -> str:
    """One `NAME="value"` line of an EnvironmentFile=.

    In double quotes only backslash, double quote, dollar and backtick need a backslash; a newline may stand as it is.
    Nothing is expanded in an EnvironmentFile. systemd drops values that are not valid UTF-8 text, so control characters
    other than newline and tab are refused.
    """
    bad = control_character(value)
    if bad is not None:
        raise QuotingError(f"{name}: want text without control characters and noncharacters, found {bad!r}")
    return f'{name}="' + re.sub(r'([\\"$`])', r"\\\1", value) + '"\n'


def environment_file(values: dict[str, str]) -> str:
    """A whole EnvironmentFile, names in order."""
    return "".join(environment_line(name, values[name]) for name in sorted(values))


_ASSIGNMENT = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"\n?', re.DOTALL)


def read_environment_file(text: str) -> dict[str, str]:
    """Name -> value of a text that `environment_file` wrote. Raises QuotingError, which shows nothing of it."""
    values, place = dict[str, str](), 0
    while place < len(text):
        match = _ASSIGNMENT.match(text, place)
        if match is None:
            raise QuotingError(f'want lines of NAME="value", found something else after {place} characters')
        values[match[1]] = re.sub(r"\\(.)", r"\1", match[2], flags=re.DOTALL)
        place = match.end()
    return values
