"""Whether an engine does what its interface promises: each feature once. Whether it is right is for `quality`."""

import json
from collections.abc import Callable
from typing import Any

from pydantic import JsonValue

from probes.asking.ask import Answer, chat, counted
from probes.asking.exchange import Deadline, ExchangeError, get, refused, send, shortened
from probes.asking.load import Say
from probes.asking.served import models, room
from probes.completion import refuse_loop
from probes.evidence import Endpoint, Evidence, Limits

SUM = "What is 17 + 25? Answer with the number alone."
COUNT = "Count from 1 to 30, separated by spaces, and say nothing else."
TOKENS = 512
"""Room for a model that thinks first."""

Check = Callable[[Endpoint, Deadline, int], str]


def probe(endpoint: Endpoint, limits: Limits, say: Say = lambda _: None) -> Evidence:
    """Passes where every check does; the first that fails is told. What the engine has not (Responses) is skipped."""
    deadline = Deadline(limits.total_s, limits.connect_s)
    details: dict[str, JsonValue] = {}
    wanted, found, passed = f"{len(CHECKS)} checks of the interface within {limits.total_s:g} s", "", False
    name = "models"
    try:
        tokens = limits.max_tokens or room(endpoint, deadline, TOKENS)
        for name, check in CHECKS.items():
            details[name] = endpoint.hide(check(endpoint, deadline, tokens))
            say(f"{name}: {details[name]}")
        skipped = [name for name, told in details.items() if str(told).startswith("not there")]
        found, passed = f"{len(CHECKS) - len(skipped)} checks as wanted", True
        found += f", {', '.join(skipped)} not there" if skipped else ""
    except ExchangeError as error:
        wanted, found = f"{name}: {error.wanted}", error.found
        details[name] = endpoint.hide(f"found {error.found}")
    return Evidence(
        probe="smoke",
        passed=passed,
        wanted=wanted,
        found=endpoint.hide(found),
        seconds=deadline.passed_s,
        details=details,
    )


def _models(endpoint: Endpoint, deadline: Deadline, tokens: int) -> str:
    return ", ".join(models(endpoint, deadline))


def _chat(endpoint: Endpoint, deadline: Deadline, tokens: int) -> str:
    answer = _asked(endpoint, SUM, deadline, tokens)
    return str(answer)


def _again(endpoint: Endpoint, deadline: Deadline, tokens: int) -> str:
    """Twice: the first answer alone does not show an engine that dies of it."""
    return _chat(endpoint, deadline, tokens)


def _asked(endpoint: Endpoint, question: str, deadline: Deadline, tokens: int, **fields: Any) -> Answer:
    answer = chat(endpoint, [{"role": "user", "content": question}], deadline, max_tokens=tokens, **fields)
    refuse_loop(answer)
    if not answer.said.strip():
        raise ExchangeError("an answer with text", f"no text (finish_reason {answer.finish_reason})")
    return answer


def _whole_chat(endpoint: Endpoint, deadline: Deadline, tokens: int) -> str:
    """Not streamed: one JSON document, with usage."""
    body = {"messages": [{"role": "user", "content": SUM}], "max_tokens": tokens, "temperature": 0}
    document = _posted(endpoint, "/v1/chat/completions", body, deadline)
    choice = _first(document, "choices")
    message = choice.get("message")
    said = message.get("content") or message.get("reasoning") if isinstance(message, dict) else None
    if not isinstance(said, str) or not said.strip():
        raise ExchangeError("a message with content", shortened(json.dumps(document)))
    return f"{shortened(said)!r}, {_usage(document, tokens)} tokens"


def _text_completion(endpoint: Endpoint, deadline: Deadline, tokens: int) -> str:
    document = _posted(endpoint, "/v1/completions", {"prompt": "One, two, three,", "max_tokens": 8}, deadline)
    text = _first(document, "choices").get("text")
    if not isinstance(text, str):
        raise ExchangeError("a text", shortened(json.dumps(document)))
    return f"{shortened(text)!r}, {_usage(document, 8)} tokens"


def _stop_text(endpoint: Endpoint, deadline: Deadline, tokens: int) -> str:
    """With a stop text that the answer would have in it: it is not in the answer, which ends there."""
    free = _asked(endpoint, COUNT, deadline, tokens)
    words = free.text.split()
    if len(words) < 4 or not free.text.isascii():
        return f"not there: no answer to stop in ({shortened(free.said)!r})"
    stop = words[len(words) // 2]
    answer = chat(
        endpoint, [{"role": "user", "content": COUNT}], deadline, max_tokens=tokens, temperature=0, stop=[stop]
    )
    cut = free.text[: free.text.index(stop)].strip()
    if stop in answer.text or answer.finish_reason != "stop":
        raise ExchangeError(f"an answer that stops before {stop!r}, as after {cut[-40:]!r}", str(answer))
    return f"stopped before {stop!r}"


def _max_tokens(endpoint: Endpoint, deadline: Deadline, tokens: int) -> str:
    """Five tokens are five tokens, and the engine says that it cut."""
    answer = chat(endpoint, [{"role": "user", "content": COUNT}], deadline, max_tokens=5, ignore_eos=True)
    if answer.finish_reason != "length" or answer.completion_tokens != 5:
        raise ExchangeError("finish_reason length after 5 tokens", str(answer))
    return "5 tokens, then length"


def _responses(endpoint: Endpoint, deadline: Deadline, tokens: int) -> str:
    url = f"{endpoint.url}/v1/responses"
    body = {"model": endpoint.model, "input": SUM, "max_output_tokens": tokens, "temperature": 0, "store": False}
    with send("POST", url, deadline, endpoint.headers, body) as response:
        text = response.text()
    if response.status in (404, 405):
        return f"not there: HTTP {response.status}"
    if response.status != 200:
        raise refused(f"POST {url}", response.status, text)
    document = _object(text)
    said = "".join(
        str(part.get("text") or "")
        for item in _objects(document, "output")
        for part in _objects(item, "content")
        if part.get("type") in ("output_text", "reasoning_text")
    )
    if document.get("status") not in ("completed", "incomplete") or not said.strip():
        raise ExchangeError("a response with status and output text", shortened(text))
    return f"{shortened(said)!r} ({document['status']})"


def _refuses(endpoint: Endpoint, deadline: Deadline, tokens: int) -> str:
    """A model name that is not served is an error, not an answer of some other model."""
    url, body = f"{endpoint.url}/v1/completions", {"model": f"not-{endpoint.model}", "prompt": "a", "max_tokens": 1}
    with send("POST", url, deadline, endpoint.headers, body) as response:
        if response.status not in (400, 404):
            raise ExchangeError(f"HTTP 404 for a model that is not served at {url}", f"HTTP {response.status}")
    return f"HTTP {response.status}"


def _health(endpoint: Endpoint, deadline: Deadline, tokens: int) -> str:
    get(f"{endpoint.url}/health", deadline)
    return "HTTP 200 after all this"


CHECKS: dict[str, Check] = {
    "models": _models,
    "chat": _chat,
    "chat again": _again,
    "not streamed": _whole_chat,
    "text completion": _text_completion,
    "stop": _stop_text,
    "max_tokens": _max_tokens,
    "responses": _responses,
    "wrong model": _refuses,
    "health": _health,
}


def _posted(endpoint: Endpoint, path: str, body: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
    url = f"{endpoint.url}{path}"
    with send("POST", url, deadline, endpoint.headers, {"model": endpoint.model, **body}) as response:
        text = response.text()
    if response.status != 200:
        raise refused(f"POST {url}", response.status, text)
    return _object(text)


def _object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ExchangeError("an answer in JSON", shortened(text) or "no text")
    return document


def _objects(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = document.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _first(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = _objects(document, name)
    if not found:
        raise ExchangeError(f"{name} in the answer", shortened(json.dumps(document)))
    return found[0]


def _usage(document: dict[str, Any], tokens: int) -> int:
    return counted(document.get("usage"), tokens, 1000)[1]
