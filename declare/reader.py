"""YAML and JSON files with positions. Scalars follow the YAML 1.2 core schema, so that `on` and `1:30` stay text."""

import errno
import json
import math
import re
import stat
from pathlib import Path
from typing import Any, NoReturn

import yaml

from declare.located import Located, Origin, Scalar, locate
from declare.problem import DeclarationError, line

_TAG = "tag:yaml.org,2002:"
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
"""Without .inf and .nan: no setting means them, and JSON cannot carry them on."""
MOST_DIGITS = 1000
"""Of an integer. Python reads no more than 4300."""
SHORTER = f"integers of at most {MOST_DIGITS} digits"


class _CoreLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Nodes only, read by libyaml where it is there: a fleet of 100 nodes takes 0.1 s instead of 0.5."""

    yaml_implicit_resolvers: dict[Any, Any] = {}


for _name, _pattern in (("null", _NULL), ("bool", _BOOL), ("int", _INT), ("float", _FLOAT)):
    _CoreLoader.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern.pattern})$"), None)


def read_yaml(path: Path) -> Located:
    """The mapping in a YAML file. Raises DeclarationError: unreadable, not UTF-8, malformed, empty, no mapping."""
    origin = Origin(file=path, line=1)
    text = text_of(path)
    try:
        node = _CoreLoader(text).get_single_node()
    except yaml.reader.ReaderError as error:
        at = Origin(file=path, line=text.encode().count(b"\n", 0, error.position) + 1)
        raise DeclarationError([line(at, "printable characters", f"U+{error.character:04X}")]) from None
    except yaml.MarkedYAMLError as error:
        raise DeclarationError([_malformed(path, error)]) from None
    except RecursionError:
        raise DeclarationError([line(origin, "a declaration", "YAML that is nested too deep")]) from None
    if node is None:
        raise DeclarationError([line(origin, "a mapping", "an empty file")])
    reading = _Reading()
    tree = reading.located(node, origin)
    if not reading.problems and not isinstance(tree.value, dict):
        kind = "a list" if isinstance(tree.value, list) else "one scalar"
        reading.problems.append(line(origin, "a mapping (field: value)", kind))
    if reading.problems:
        raise DeclarationError(reading.problems)
    return tree


def read_json(path: Path, pipe: bool = False) -> Located:
    """The object in a JSON file; its origins name the file only. Raises DeclarationError.

    `pipe`: it may be one, such as a shell's `<(git show ...)`; a pipe that lies in a site is waited for without end.
    """
    origin = Origin(file=path)

    def pairs(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = {key for key, _ in entries if [name for name, _ in entries].count(key) > 1}
        if twice:
            raise DeclarationError([line(origin.below(key), "each key once", "it twice") for key in sorted(twice)])
        return dict(entries)

    try:
        value = json.loads(
            text_of(path, pipe), object_pairs_hook=pairs, parse_constant=_no_constant, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        at = Origin(file=path, line=error.lineno)
        raise DeclarationError([line(at, "well-formed JSON", f"{error.msg} (column {error.colno})")]) from None
    except DeclarationError:
        raise
    except OverflowError as error:
        raise DeclarationError([line(origin, SHORTER, str(error))]) from None
    except ValueError as error:
        raise DeclarationError([line(origin, "numbers that are JSON", str(error))]) from None
    except RecursionError:
        raise DeclarationError([line(origin, "a JSON object", "JSON that is nested too deep")]) from None
    if not isinstance(value, dict):
        raise DeclarationError([line(origin, "a JSON object", json.dumps(value)[:60])])
    return locate(value, origin)


def _no_constant(name: str) -> NoReturn:
    """For json's `parse_constant`: NaN and the infinities are Python's own, and no JSON. Raises ValueError."""
    raise ValueError(name)


def _integer(text: str, base: int = 10) -> int:
    """Raises OverflowError for a number that no setting could mean."""
    if len(text) > MOST_DIGITS:
        raise OverflowError(f"one of {len(text)}")
    return int(text, base)


def bytes_of(path: Path, pipe: bool = False) -> bytes:
    """A file's bytes, or what comes out of a `pipe`. Raises OSError, also for what may have no end."""
    if not pipe and not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
        raise OSError(errno.EINVAL, "a pipe, a socket or a device")
    return path.read_bytes()


def text_of(path: Path, pipe: bool = False) -> str:
    """A file's text, or what comes out of a `pipe`. Raises DeclarationError: no file, unreadable, not UTF-8."""
    try:
        data = bytes_of(path, pipe)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DeclarationError([line(Origin(file=path), "a readable file", reason)]) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = Origin(file=path, line=data.count(b"\n", 0, error.start) + 1)
        raise DeclarationError([line(at, "UTF-8 text", f"the byte 0x{data[error.start]:02x}")]) from None


def _malformed(path: Path, error: yaml.MarkedYAMLError) -> str:
    """The parser's own words; its snippet of the file is left out, because it may show a secret."""
    mark = error.problem_mark or error.context_mark
    problem = re.sub(r"^(but )?found |^did not find expected ", "", error.problem or "")
    problem = f"no {problem}" if (error.problem or "").startswith("did not find") else problem
    what = ", ".join(part for part in (problem, error.context) if part)
    column = f" (column {mark.column + 1})" if mark else ""
    return line(Origin(file=path, line=mark.line + 1 if mark else None), "well-formed YAML", f"{what}{column}")


class _Reading:
    """From yaml's nodes to located values, with everything on the way that is not plain YAML."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._seen: set[int] = set()

    def located(self, node: yaml.Node, origin: Origin) -> Located:
        """The value of a node. A node that comes twice is an alias, which can grow without bound, or hold itself."""
        if id(node) in self._seen:
            self.problems.append(line(origin, "the value itself (what is shared goes into group data)", "an alias"))
            return Located(None, origin)
        self._seen.add(id(node))
        if not isinstance(node, yaml.ScalarNode) and node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
            self._tagged(node, origin)
        if isinstance(node, yaml.MappingNode):
            return Located(self._mapping(node, origin), origin)
        if isinstance(node, yaml.SequenceNode):
            places = [(entry, origin.below(index, entry.start_mark.line + 1)) for index, entry in enumerate(node.value)]
            return Located([self.located(entry, place) for entry, place in places], origin)
        quoted = isinstance(node, yaml.ScalarNode) and node.style in ("'", '"', "|", ">")
        try:
            return Located(_scalar(node), origin, None if quoted else node.value)
        except OverflowError as error:
            self.problems.append(line(origin, SHORTER, str(error)))
            return Located(None, origin)
        except (KeyError, ValueError):
            self._tagged(node, origin)
            return Located(None, origin)

    def _mapping(self, node: yaml.MappingNode, origin: Origin) -> dict[str, Located]:
        entries: dict[str, Located] = {}
        for key, value in node.value:
            at = origin.below(key.value if isinstance(key, yaml.ScalarNode) else "?", key.start_mark.line + 1)
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(line(at, "text as a key", "a list or a mapping", field=origin.field))
            elif key.value in entries:
                first = entries[key.value].origin.line
                self.problems.append(line(at, "each key once", f"it again (first on line {first})"))
            else:
                entries[key.value] = self.located(value, at)
        return entries

    def _tagged(self, node: yaml.Node, origin: Origin) -> None:
        self.problems.append(line(origin, "plain YAML without tags", f"the tag {node.tag.replace(_TAG, '!!')}"))


def _scalar(node: yaml.Node) -> Scalar:
    """Raises KeyError or ValueError for a tag that does not belong here, OverflowError for a number without an end."""
    text = str(node.value)
    kind = node.tag.removeprefix(_TAG)
    if kind == "str":
        return text
    if kind == "null" and _NULL.fullmatch(text):
        return None
    if kind == "bool" and _BOOL.fullmatch(text):
        return text.lower() == "true"
    if kind == "int" and _INT.fullmatch(text):
        return _integer(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if kind == "float" and _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    raise KeyError(node.tag)
