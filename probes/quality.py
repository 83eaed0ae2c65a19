"""A small fixed set of questions whose answers can be checked: did a change make the model worse, and at what?

Not a benchmark of models. Twelve easy items that a sound model answers, at temperature 0.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from pydantic import JsonValue

from probes.asking.ask import chat
from probes.asking.exchange import Deadline, ExchangeError, shortened
from probes.asking.load import Say
from probes.asking.served import room
from probes.asking.side_by_side import together
from probes.evidence import Endpoint, Evidence, Limits

TOKENS = 1024
ENOUGH = 11
"""Right items of twelve that pass where no baseline says how many are usual."""


class Item(NamedTuple):
    """A question, perhaps at the end of a conversation, and the check of its answer."""

    name: str
    messages: tuple[str, ...]
    """By turns of the user and the assistant; the last is the question."""
    right: Callable[[str], bool]


def _number(value: int) -> Callable[[str], bool]:
    """The number stands in the answer, and as the last one."""
    return lambda text: re.findall(r"-?\d+", text.replace(",", ""))[-1:] == [str(value)]


def _word(word: str) -> Callable[[str], bool]:
    return lambda text: re.search(rf"\b{word}\b", text, re.IGNORECASE) is not None


def _is_json(value: object) -> Callable[[str], bool]:
    def right(text: str) -> bool:
        try:
            return bool(json.loads(re.sub(r"^```(?:json)?|```$", "", text.strip()).strip()) == value)
        except (ValueError, RecursionError):
            return False

    return right


_INVOICE = (
    "The number of the invoice is 88213. The date of the invoice is 4 March. The buyer of the invoice is Halvorsen. "
    "The total of the invoice is 1290 kroner. The currency of the refund is euro."
)
_ECHO = "Repeat the following line exactly and say nothing else: "
ITEMS = (
    Item("add", ("What is 478 + 256? Answer with the number alone.",), _number(734)),
    Item("subtract", ("What is 1003 - 458? Answer with the number alone.",), _number(545)),
    Item("multiply", ("What is 17 * 24? Answer with the number alone.",), _number(408)),
    Item("divide", ("What is 391 / 17? Answer with the number alone.",), _number(23)),
    Item("extract a number", (f"{_INVOICE} What is the number of the invoice?",), _number(88213)),
    Item(
        "extract a name", (f"{_INVOICE} What is the buyer of the invoice? Answer with one word.",), _word("Halvorsen")
    ),
    Item("tell two apart", (f"{_INVOICE} What is the currency of the refund? Answer with one word.",), _word("euro")),
    Item("echo", (f"{_ECHO}blue-42 / Grün_7",), lambda text: text.strip().strip('"`') == "blue-42 / Grün_7"),
    Item("echo JSON", (f'{_ECHO}{{"ok": true, "ids": [3, 1, 2]}}',), _is_json({"ok": True, "ids": [3, 1, 2]})),
    Item(
        "remember a word",
        ("The code word of the day is heron.", "Noted.", "What is the code word of the day? Answer with one word."),
        _word("heron"),
    ),
    Item(
        "remember what was changed",
        (
            "The port of the gateway is 8080.",
            "Noted.",
            "A correction: The port of the gateway is 9443.",
            "Noted.",
            "What is the port of the gateway? Answer with the number alone.",
        ),
        _number(9443),
    ),
    Item(
        "answer the last question",
        ("What is 6 * 7? Answer with the number alone.", "42", "What is 60 - 9? Answer with the number alone."),
        _number(51),
    ),
)


def probe(endpoint: Endpoint, limits: Limits, say: Say = lambda _: None) -> Evidence:
    """Passes where enough items are right: all but one of twelve, or no fewer than in `limits.before`."""
    deadline = Deadline(limits.total_s, limits.connect_s)
    try:
        tokens, error = limits.max_tokens or room(endpoint, deadline, TOKENS), None
    except ExchangeError as failed:
        tokens, error = TOKENS, failed

    def one(item: Item) -> tuple[bool, str]:
        roles = ("user", "assistant")
        messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(item.messages)]
        answer = chat(endpoint, messages, deadline, max_tokens=tokens)
        good = item.right(answer.text)
        say(f"{item.name}: {'right' if good else f'WRONG: {shortened(answer.said)!r}'}")
        return good, endpoint.hide(shortened(answer.said))

    items: dict[str, JsonValue] = {}
    outcomes = [] if error else together(one, ITEMS, max(limits.concurrency or (4,)), deadline)
    for item, each in zip(ITEMS, outcomes, strict=False):
        if each.value is not None:
            items[item.name] = {"right": each.value[0], "said": each.value[1]}
    error = error or next((each.error for each in outcomes if each.error is not None), None)
    right = sum(each.value[0] for each in outcomes if each.value is not None)
    usual = _usual(limits.before)
    enough = len(usual & set(_right(items))) >= len(usual) - 1 if usual else right >= ENOUGH
    lost = sorted(usual - set(_right(items))) if usual else [n for n in items if n not in _right(items)]
    broken = error is not None or len(items) < len(ITEMS)
    found = f"{right} of {len(ITEMS)} right" + (f"; wrong now: {', '.join(lost)}" if lost else "")
    if broken:
        found = f"{len(items)} of {len(ITEMS)} answered, then: {error or 'no time was left'}"
    return Evidence(
        probe="quality",
        passed=enough and not broken,
        degraded=not enough and not broken,
        wanted=f"at most one of {len(usual) or len(ITEMS)} items wrong" + (" that were right before" if usual else ""),
        found=endpoint.hide(found),
        seconds=deadline.passed_s,
        details={"right": right, "items": items},
    )


def _right(items: dict[str, JsonValue]) -> list[str]:
    return [name for name, item in items.items() if isinstance(item, dict) and item.get("right")]


def _usual(before: Evidence | None) -> set[str]:
    """Names of items that an earlier run of this probe had right."""
    items = before.details.get("items") if before is not None and before.probe == "quality" else None
    return set(_right(items)) if isinstance(items, dict) else set()
