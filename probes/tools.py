"""Tool calls: the model calls a function, gets its result, calls it again, and says at the end what it found."""

import json
from typing import Any

from pydantic import JsonValue

from probes.asking.ask import Answer, ToolCall, chat
from probes.asking.exchange import Deadline, ExchangeError, shortened
from probes.asking.load import Say
from probes.asking.served import room
from probes.evidence import Endpoint, Evidence, Limits

ROUNDS = 3
LONGEST = 5
"""Rounds of one conversation."""
TOKENS = 1024
CITIES = ("Oslo", "Lima", "Hanoi", "Accra", "Turin", "Quito", "Perth", "Kyoto", "Leeds", "Izmir", "Cork", "Riga")
TOOL = {
    "type": "function",
    "function": {
        "name": "get_temperature",
        "description": "The temperature in a city now, in degrees Celsius.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The name of the city."}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def probe(endpoint: Endpoint, limits: Limits, say: Say = lambda _: None) -> Evidence:
    """Passes where each of `limits.trials` rounds (default 3) is a right call and a right use of its result."""
    deadline, rounds = Deadline(limits.total_s, limits.connect_s), limits.trials or ROUNDS
    messages: list[dict[str, Any]] = []
    wanted, passed, done = f"{rounds} tool calls and answers from their results", False, 0
    details: dict[str, JsonValue] = {"rounds": rounds}
    try:
        tokens = limits.max_tokens or room(endpoint, deadline, TOKENS)
        for done in range(rounds):
            if done % LONGEST == 0:
                messages.clear()  # a conversation that went on for a hundred rounds would be about its length
            text = _round(endpoint, messages, done, tokens, deadline)
            say(f"round {done + 1} of {rounds}: {text}")
        done, passed, found = rounds, True, f"{rounds} of {rounds}, the last {text}"
    except ExchangeError as error:
        wanted, found = f"in round {done + 1} of {rounds}: {error.wanted}", error.found
    details["right"] = done
    return Evidence(
        probe="tools",
        passed=passed,
        wanted=wanted,
        found=endpoint.hide(found),
        seconds=deadline.passed_s,
        details=details,
    )


def _round(endpoint: Endpoint, messages: list[dict[str, Any]], number: int, tokens: int, deadline: Deadline) -> str:
    """One question, the call, its result, the answer. The messages grow by all of these."""
    city, degrees = CITIES[number % len(CITIES)], (number * 37 + 11) % 60 - 15
    messages.append({"role": "user", "content": f"What is the temperature in {city} now? Use the tool."})
    answer = chat(endpoint, messages, deadline, max_tokens=tokens, tools=[TOOL], tool_choice="auto")
    call = _called(answer, city)
    messages += [
        {
            "role": "assistant",
            "content": answer.text or None,
            "tool_calls": [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            ],
        },
        {"role": "tool", "tool_call_id": call.id, "content": json.dumps({"city": city, "celsius": degrees})},
    ]
    answer = chat(endpoint, messages, deadline, max_tokens=tokens, tools=[TOOL], tool_choice="auto")
    if str(abs(degrees)) not in answer.text:
        raise ExchangeError(f"{degrees} degrees in the answer", _told(answer))
    messages.append({"role": "assistant", "content": answer.text})
    return shortened(answer.text)


def _called(answer: Answer, city: str) -> ToolCall:
    """The one call of an answer, if it is the right one."""
    wanted = f'a call of get_temperature with {{"city": "{city}"}}'
    if not answer.tool_calls:
        raise ExchangeError(
            f"{wanted} (does the engine run with --enable-auto-tool-choice and --tool-call-parser?)", _told(answer)
        )
    call = answer.tool_calls[0]
    shown = shortened(f"{call.name}({call.arguments})")
    if not call.id or answer.finish_reason != "tool_calls":
        raise ExchangeError(f"{wanted}, an id and finish_reason tool_calls", f"{shown}, {answer.finish_reason}")
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        raise ExchangeError("arguments in JSON", shown) from None
    if call.name != "get_temperature" or not isinstance(given, dict) or set(given) != {"city"}:
        raise ExchangeError(wanted, shown)
    if city.lower() not in str(given["city"]).lower():
        raise ExchangeError(wanted, shown)
    return call


def _told(answer: Answer) -> str:
    calls = ", ".join(f"{call.name}({call.arguments})" for call in answer.tool_calls)
    return f"{calls}; {answer}" if calls else str(answer)
