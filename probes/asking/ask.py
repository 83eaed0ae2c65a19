"""One chat completion, streamed, as a client sees it."""

import json
from typing import Any

from probes.asking.exchange import Deadline, ExchangeError, refused, send, shortened
from probes.evidence import Endpoint, Frozen, Limits

FINISHED = ("stop", "length", "tool_calls")
TOKENS = 64
"""What an answer may have where the limits do not say."""


class ToolCall(Frozen):
    """A call that the model asks for. `arguments` is text, as the model wrote it."""

    id: str
    name: str
    arguments: str


class Answer(Frozen):
    """What was answered. Times in seconds from the request, tokens as the engine counted them."""

    text: str
    reasoning: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    first_token_s: float
    seconds: float
    tool_calls: tuple[ToolCall, ...] = ()
    cached_tokens: int | None = None
    """Prompt tokens that the engine took from its prefix cache; None where it does not tell."""

    @property
    def said(self) -> str:
        """The answer, or the thoughts where max_tokens ended before it began."""
        return self.text or self.reasoning

    def __str__(self) -> str:
        said = shortened(self.said)
        return f"{said!r} ({self.finish_reason}, {self.completion_tokens} tokens, {self.seconds:.2f} s)"


def ask(endpoint: Endpoint, question: str, limits: Limits, deadline: Deadline | None = None) -> Answer:
    """Asks at temperature 0 and gives the whole answer.

    Raises ExchangeError where the answer is not HTTP 200, not finished, empty or late, or its usage makes no sense.
    `deadline` is the caller's, where the question is a part of something longer.
    """
    deadline = deadline or Deadline(limits.total_s, limits.connect_s)
    answer = chat(
        endpoint,
        [{"role": "user", "content": question}],
        deadline,
        max_tokens=limits.max_tokens or TOKENS,
        first_token_s=limits.first_token_s,
    )
    if not answer.said.strip():
        raise ExchangeError("an answer with text", f"no text (finish_reason {answer.finish_reason})")
    return answer


def chat(
    endpoint: Endpoint,
    messages: list[dict[str, Any]],
    deadline: Deadline,
    *,
    max_tokens: int,
    first_token_s: float | None = None,
    temperature: float = 0,
    **fields: Any,
) -> Answer:
    """The whole answer to messages, streamed; `fields` are more of the request's. An answer may be without text.

    Raises ExchangeError as `ask` does.
    """
    url = f"{endpoint.url}/v1/chat/completions"
    body = {
        "model": endpoint.model,
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        **fields,
    }
    reader = _Reader()
    own = deadline.sooner(None)
    with send("POST", url, own.sooner(first_token_s), endpoint.headers, body) as response:
        if response.status != 200:
            raise refused(f"POST {url}", response.status, response.text())
        if response.content_type != "text/event-stream":
            raise ExchangeError(
                "a stream of events",
                f"{response.content_type or 'no content type'}: " + (shortened(response.text()) or "no text"),
            )
        for line in response.lines():
            if reader.take(line, own.passed_s):
                response.until(own)
            if reader.done:
                break
    return reader.answer(max_tokens, own.passed_s, len(json.dumps(body)))


class _Reader:
    """Puts an answer together from its events."""

    def __init__(self) -> None:
        self.done = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._finish_reason: str | None = None
        self._usage: dict[str, Any] | None = None
        self._first_token_s: float | None = None
        self._calls: dict[int, dict[str, str]] = {}

    def take(self, line: str, passed_s: float) -> bool:
        """One line of the stream. True where it brought the first token."""
        if not line.startswith("data:"):
            return False
        data = line[5:].strip()
        if data == "[DONE]":
            self.done = True
            return False
        event = _parse(data)
        if "error" in event:
            raise ExchangeError("an answer", f"an error in the stream: {shortened(json.dumps(event['error']))}")
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices") or []:
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            delta = choice.get("delta") or {}
            self._text.append(delta.get("content") or "")
            # renamed in vLLM between 0.11 and 0.16; older engines send the second
            self._reasoning.append(delta.get("reasoning") or delta.get("reasoning_content") or "")
            for part in delta.get("tool_calls") or []:
                self._call(part)
        if self._first_token_s is None and (self._calls or any(self._text + self._reasoning)):
            self._first_token_s = passed_s
            return True
        return False

    def _call(self, part: Any) -> None:
        """A piece of a tool call: the name comes once, the arguments bit by bit."""
        function = part.get("function") if isinstance(part, dict) else None
        index = part.get("index") if isinstance(part, dict) else None
        if not isinstance(index, int) or not isinstance(function or {}, dict):
            raise ExchangeError("tool calls with index and function", shortened(json.dumps(part)))
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        call["id"] = call["id"] or str(part.get("id") or "")
        for name in ("name", "arguments"):
            call[name] += str((function or {}).get(name) or "")

    def answer(self, max_tokens: int, seconds: float, asked: int) -> Answer:
        said = "".join(self._text) or "".join(self._reasoning)
        if not self.done:
            raise ExchangeError("a whole answer", f"a stream cut after {shortened(said)!r}")
        if self._finish_reason not in FINISHED:
            raise ExchangeError(f"finish_reason {' or '.join(FINISHED)}", f"{self._finish_reason}")
        prompt, completion = counted(self._usage, max_tokens, asked)
        return Answer(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            finish_reason=self._finish_reason,
            prompt_tokens=prompt,
            completion_tokens=completion,
            first_token_s=seconds if self._first_token_s is None else self._first_token_s,
            seconds=seconds,
            tool_calls=tuple(ToolCall.model_validate(call) for _, call in sorted(self._calls.items())),
            cached_tokens=_cached(self._usage),
        )


def _parse(data: str) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        raise ExchangeError("events in JSON", shortened(data)) from None
    choices = event.get("choices") if isinstance(event, dict) else None
    if not isinstance(event, dict) or not all(map(_is_choice, choices or [])):
        raise ExchangeError("events of a chat completion", shortened(data))
    return event


def _is_choice(choice: Any) -> bool:
    """Has it a delta whose texts are texts?"""
    delta = choice.get("delta") or {} if isinstance(choice, dict) else None
    texts = ("content", "reasoning", "reasoning_content")
    return isinstance(delta, dict) and all(isinstance(delta.get(name), str | None) for name in texts)


TEMPLATE = 32_768
"""Tokens that a chat template may add to what was sent: a system prompt of its own, how tools are called."""


def counted(usage: dict[str, Any] | None, max_tokens: int, asked: int) -> tuple[int, int]:
    """Prompt and completion tokens, where they can be true. `asked`: bytes of the request."""
    wanted = f"a usage of at least 1 prompt token and 1 to {max_tokens} completion tokens that add up"
    if not isinstance(usage, dict):
        raise ExchangeError(wanted, "no usage")
    prompt, completion, total = (usage.get(f"{name}_tokens") for name in ("prompt", "completion", "total"))
    if not (isinstance(prompt, int) and isinstance(completion, int) and total == prompt + completion):
        raise ExchangeError(wanted, shortened(json.dumps(usage)))
    if not 1 <= prompt <= asked + TEMPLATE:
        raise ExchangeError(f"1 to {asked + TEMPLATE} prompt tokens of so long a request", shortened(json.dumps(usage)))
    if not 1 <= completion <= max_tokens:
        raise ExchangeError(wanted, shortened(json.dumps(usage)))
    return prompt, completion


def _cached(usage: dict[str, Any] | None) -> int | None:
    details = (usage or {}).get("prompt_tokens_details")
    found = details.get("cached_tokens") if isinstance(details, dict) else None
    return found if isinstance(found, int) else None
