"""One word of the command line becomes a value, as vLLM's parser does it."""

import json
import re
from typing import Any

SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
IN_JSON = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
STRINGS = re.compile(r'("(?:[^"\\]|\\.)*")')
OBJECT = re.compile(r"(?s)^\s*{.*}\s*$")
SIZES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class Refused(ValueError):
    """The parser ends with an error here. `flag`: which flag it is about; `found`: the value, where it is about one."""

    def __init__(
        self, message: str, flag: str | None = None, suggestion: str | None = None, found: object = None
    ) -> None:
        super().__init__(message)
        self.flag = flag
        self.suggestion = suggestion
        self.found = None if found is None else shorten(found)


def human_readable_int(text: str) -> int:
    """1k is 1,000, 1K is 1,024, 25.6k is 25,600; a fraction with a binary suffix is refused."""
    text = text.strip()
    match = SUFFIXED.fullmatch(text)
    if match is None:
        return int(text)
    number, suffix = match.groups()
    if suffix.islower():
        return int(float(number) * SIZES[suffix])
    if "." in number:
        raise Refused("a fraction needs a decimal suffix", found=text, suggestion=f"{number}{suffix.lower()}")
    return int(number) * SIZES[suffix]


def _auto_or_int(text: str) -> int:
    return -1 if text.strip() == "-1" or text.strip().lower() == "auto" else human_readable_int(text)


def expand_numbers(text: str) -> str:
    """80m in JSON becomes 80000000, outside of its strings."""
    parts = STRINGS.split(text)
    parts[::2] = [IN_JSON.sub(lambda found: str(human_readable_int(found[0])), part) for part in parts[::2]]
    return "".join(parts)


def load_json(text: str) -> Any:
    """Any JSON. Refused with the place of the mistake."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Refused(f"want JSON ({error})", suggestion=json_hint(text), found=text) from None
    except RecursionError:
        raise Refused("JSON nested too deeply") from None


def json_hint(text: str) -> str | None:
    """What most likely went wrong with a JSON argument: quotes that a shell kept, took or tore apart."""
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == "'":
        return f"leave the single quotes out: {bare[1:-1]}"
    if "\\" in bare and _loads(unescaped := bare.replace("\\", "")):
        return f"leave the backslashes out: {unescaped}"
    if re.match(r"^\{?\s*\w+\s*[:=]", bare):
        return 'JSON wants quoted names, such as {"name": 1}; in a shell, put single quotes around it'
    return None


def _loads(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def shorten(text: object, room: int = 80) -> str:
    """For a message."""
    shown = str(text)
    return repr(shown if len(shown) <= room else f"{shown[: room - 1]}…")


def _number(kind: type[int] | type[float], text: str) -> int | float:
    try:
        return kind(text)
    except ValueError:
        what = "an integer" if kind is int else "a number"
        raise Refused(f"want {what}", found=text) from None


def convert(kind: str, text: str) -> Any:
    """The value of a word for a flag of this type (all but `config`). Raises Refused where the parser would."""
    if kind.startswith("optional "):
        return None if text in ("", "None") else convert(kind.removeprefix("optional "), text)
    if kind in ("int", "float"):
        return _number(int if kind == "int" else float, text)
    if kind in ("human_readable_int", "human_readable_int_or_auto"):
        try:
            return human_readable_int(text) if kind == "human_readable_int" else _auto_or_int(text)
        except Refused:
            raise
        except (ValueError, OverflowError):
            also = "" if kind == "human_readable_int" else ", or auto"
            wanted = f"want an integer such as 4096, 4k (4,000) or 4K (4,096){also}"
            raise Refused(wanted, found=text) from None
    if kind == "json" or (kind == "json or str" and OBJECT.match(text)):
        return load_json(text)
    if kind == "lower with underscores":
        return text.lower().replace("-", "_")
    if kind == "device ids":
        parts = [part.strip() for part in text.split(",")]
        try:
            return [int(part) if part.isdigit() else part for part in parts]
        except ValueError:
            raise Refused("want GPU numbers or UUIDs with commas between", found=text) from None
    return text
