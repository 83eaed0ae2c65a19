"""NODE.yaml with some fields set anew: only their values change; all else stays as it was written, comments too."""

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 ._/-]*[A-Za-z0-9]")
Edit = tuple[int, int, str]
"""Characters from..to, and what takes their place."""


def refreshed(text: str, fields: Mapping[str, Any]) -> str:
    """The text with these fields set. A field that is not there is added at the end. The text must be a mapping."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise ValueError("want a mapping")
    edits, added = _edits(text, root, fields), _missing(root, fields)
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    if added and root.flow_style:  # the whole file is {...} on one line
        brace = text.rindex("}")
        comma = "" if text[:brace].rstrip().endswith(("{", ",")) else ", "
        return text[:brace] + comma + ", ".join(f"{flow(n)}: {flow(v)}" for n, v in added.items()) + text[brace:]
    if added and not text.endswith("\n"):
        text += "\n"
    return text + "".join(f"{name}: {flow(value)}\n" for name, value in added.items())


def flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _names(node: yaml.MappingNode) -> set[str]:
    return {key.value for key, _ in node.value}


def _missing(node: yaml.MappingNode, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in _names(node)}


def _edits(text: str, node: yaml.MappingNode, fields: Mapping[str, Any]) -> list[Edit]:
    edits: list[Edit] = []
    for key, value in node.value:
        if key.value not in fields:
            continue
        new = fields[key.value]
        if isinstance(value, yaml.MappingNode) and isinstance(new, dict) and _names(value) == set(new):
            edits += [edit for edit in _edits(text, value, new) if _differs(text, edit)]
        else:
            edits.append(_replaced(text, key, value, new))
    return edits


def _differs(text: str, edit: Edit) -> bool:
    start, end, new = edit
    return bool(yaml.safe_load(text[start:end]) != yaml.safe_load(new))


def _replaced(text: str, key: yaml.Node, value: yaml.Node, new: Any) -> Edit:
    """In block style the value ends with its last entry, and moves up to its key where only white space is between."""
    start, end = value.start_mark.index, _end(value)
    if isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
        colon = text.index(":", key.end_mark.index) + 1
        if not text[colon:start].strip():
            return colon, end, f" {flow(new)}"
    between = text[key.end_mark.index : start]
    return start, end, flow(new) if between.endswith((" ", "\n")) else f" {flow(new)}"


def _end(value: yaml.Node) -> int:
    if isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
        last = value.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(value.end_mark.index)
