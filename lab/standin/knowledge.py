"""What the stand-in can answer: sums, facts that stand in its context, and what it is told to repeat.

Rules, no model: just enough that a probe of an engine can be right or wrong about it.
"""

from __future__ import annotations

import json
import re

_SUM = re.compile(
    r"(?:what is|what's|compute|calculate)\s+(-?\d{1,9})\s*([-+*/x×]|plus|minus|times)\s*(-?\d{1,9})",
    re.IGNORECASE,
)
_REPEAT = re.compile(r"^repeat the following line exactly[^:]*: (.+)$", re.IGNORECASE | re.MULTILINE)
_COUNT = re.compile(r"\bcount from (\d{1,4}) to (\d{1,4})", re.IGNORECASE)
_ASKED = re.compile(r"\bwhat is (the [^?.]+? of [^?]+?)\?", re.IGNORECASE)


def reply(context: str, question: str, dull: bool = False) -> str | None:
    """The answer to a question by these rules, or None. `dull` gets it wrong."""
    repeat = list(_REPEAT.finditer(question))
    if repeat:
        return repeat[-1][1][: -2 if dull else None]
    found = list(_COUNT.finditer(question))
    if found:
        return " ".join(map(str, range(int(found[-1][1]), int(found[-1][2]) + 1)))
    total = total_of(question, 1 if dull else 0)
    if total is not None:
        return f"The answer is {total}."
    asked = list(_ASKED.finditer(question))
    if not asked or dull:
        return None
    about = asked[-1][1]
    told = re.findall(re.escape(about) + r" is ([^.?\n]+)\.", context, re.IGNORECASE)
    return f"{about[0].upper()}{about[1:]} is {told[-1]}." if told else None


def total_of(text: str, off: int = 0) -> str | None:
    """The last sum that is asked for, `off` by so much; None where none is."""
    sums = list(_SUM.finditer(text))
    if not sums:
        return None
    match = sums[-1]  # the last question is the one that is asked
    left, right, sign = int(match[1]), int(match[3]), match[2].lower()
    if sign in ("+", "plus"):
        return str(left + right + off)
    if sign in ("-", "minus"):
        return str(left - right + off)
    if sign == "/":
        if right == 0:
            return "undefined"
        return str(left // right + off) if left % right == 0 else f"{left / right + off:.6g}"
    return str(left * right + off)


def call(tools: list[dict[str, object]], question: str) -> tuple[str, str]:
    """The call of the first tool: its name, and arguments in JSON. A text is the name that stands behind `in`."""
    function = tools[0].get("function")
    function = function if isinstance(function, dict) else {}
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    place = re.findall(r"\bin ([A-Z]\w+)", question)
    values = {name: place[-1] if place else question for name in (properties or {})}
    return str(function.get("name")), json.dumps(values)


def result(content: str) -> str:
    """The answer from a tool's result."""
    words = re.sub(r'[{}"\[\]]', "", content).strip()
    return f"The tool says {words}."
