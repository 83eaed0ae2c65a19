"""Chat and text completions: the request's fields, and the response, whole or streamed, as vLLM shapes them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

from . import answers, knowledge, responses
from .arguments import Settings
from .server import Exchange, Pace


class Refused(Exception):
    """An error answer with vLLM's body."""

    def __init__(self, status: int, text: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self._error = {"message": text, "type": kind, "param": param, "code": status}

    def body(self) -> dict[str, object]:
        return {"error": self._error}


class Asked:
    """One completion request. Lengths are in tokens, and a token is a word."""

    def __init__(self, fields: dict[str, object], chat: bool, max_model_len: int) -> None:
        self.chat = chat
        self.model = fields.get("model")
        messages = fields.get("messages")
        self.prompt = _chat_prompt(messages) if chat else _text_prompt(fields.get("prompt"))
        self.question = _chat_prompt(messages[-1:]) if chat and isinstance(messages, list) else self.prompt
        self.tool_result = self.question if chat and _role(messages) == "tool" else None
        self.tools = _tools(fields) if chat else []
        self.cached_tokens = 0
        self.responses = False
        self.prompt_details = False
        self.call: tuple[str, str] | None = None
        self.prompt_tokens = answers.count(self.prompt)
        self.max_tokens = self._limit(fields, max_model_len)
        stop = fields.get("stop") or []
        self.stops = [stop] if isinstance(stop, str) else [str(each) for each in stop]
        self.ignore_eos = bool(fields.get("ignore_eos"))
        self.stream = bool(fields.get("stream"))
        options = fields.get("stream_options") or {}
        self.include_usage = bool(options.get("include_usage")) if isinstance(options, dict) else False
        if fields.get("n") not in (None, 1):
            raise Refused(400, "the stand-in answers one choice: n must be 1", param="n")

    def _limit(self, fields: dict[str, object], max_model_len: int) -> int:
        room = max_model_len - self.prompt_tokens
        given = fields.get("max_completion_tokens") if self.chat else None
        given = fields.get("max_tokens") if given is None else given
        if given is None:
            given = room if self.chat else 16
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise Refused(400, f"max_tokens must be at least 1, got {given}.", param="max_tokens")
        if given > room:
            raise Refused(
                400,
                f"This model's maximum context length is {max_model_len} tokens. However, you requested "
                f"{given} output tokens and your prompt contains {self.prompt_tokens} input tokens.",
                param="input_tokens",
            )
        return given


def read(exchange: Exchange, settings: Settings, max_model_len: int) -> Asked:
    """The request of an exchange. Raises Refused as vLLM does: 400 for what is malformed, 404 for the model."""
    try:
        fields = json.loads(exchange.body)
    except ValueError as error:
        raise Refused(400, f"JSON decode error: {error}") from None
    if not isinstance(fields, dict):
        raise Refused(400, f"wanted a JSON object, found {type(fields).__name__}")
    to_responses = exchange.path.endswith("/responses")
    if to_responses:
        fields = responses.as_chat(fields)
    asked = Asked(fields, to_responses or exchange.path.endswith("/chat/completions"), max_model_len)
    asked.responses = to_responses
    asked.prompt_details = "enable-prompt-tokens-details" in settings.flags
    if asked.tools and fields.get("tool_choice", "auto") == "auto" and "enable-auto-tool-choice" not in settings.flags:
        raise Refused(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    asked.model = asked.model or settings.served_names[0]
    if asked.model not in settings.served_names:
        raise Refused(404, f"The model `{asked.model}` does not exist.", "NotFoundError", "model")
    return asked


def _chat_prompt(messages: object) -> str:
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "messages: wanted a list with at least one message", param="messages")
    texts = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            parts = [part.get("text", "") for part in content if isinstance(part, dict)]
            content = " ".join(str(part) for part in parts)
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refused(400, "messages: each wants a role and a content", param="messages")
        texts.append(str(content or ""))
    return "\n".join(texts)


def _text_prompt(prompt: object) -> str:
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        prompt = " ".join(str(token) for token in prompt)
    if not isinstance(prompt, str) or not prompt:
        raise Refused(400, "prompt: the stand-in wants one text or one list of token ids", param="prompt")
    return prompt


def _role(messages: object) -> object:
    last = messages[-1] if isinstance(messages, list) and messages else None
    return last.get("role") if isinstance(last, dict) else None


def _tools(fields: dict[str, object]) -> list[dict[str, object]]:
    tools = fields.get("tools")
    if fields.get("tool_choice") == "none" or not isinstance(tools, list):
        return []
    return [tool for tool in tools if isinstance(tool, dict)]


def plan(asked: Asked, struck: set[str]) -> answers.Plan:
    """What is answered. `struck` are the faults that strike this time."""
    if asked.tools and asked.tool_result is None:
        name, arguments = knowledge.call(asked.tools, asked.question)
        asked.call = (name, arguments[:-1] if "bad-arguments" in struck else arguments)
        return answers.Plan(iter(arguments.split(" ")), "tool_calls")
    stops = [] if "ignore-stop" in struck else asked.stops
    question = knowledge.result(asked.tool_result) if asked.tool_result is not None else None
    most = asked.max_tokens + 7 if "ignore-max-tokens" in struck else asked.max_tokens
    if question is not None and not struck & {"loop", "ramble"}:
        return answers.Plan(iter([f"{' ' if n else ''}{word}" for n, word in enumerate(question.split())]), "stop")
    return answers.plan(
        asked.prompt,
        most,
        stops,
        "loop" in struck,
        asked.ignore_eos,
        question=asked.question,
        rambling="ramble" in struck,
        dull="dull" in struck,
    )


class Writer:
    """Writes one answer. `tokens` counts what was generated so far, also when the client leaves."""

    def __init__(
        self, exchange: Exchange, asked: Asked, plan: answers.Plan, pace: Pace, struck: set[str] = frozenset()
    ) -> None:
        self._exchange = exchange
        self._asked = asked
        self._plan = plan
        self._pace = pace
        self._struck = struck
        self.tokens = 0
        self._frame = {
            "id": ("chatcmpl-" if asked.chat else "cmpl-") + os.urandom(8).hex(),
            "object": "chat.completion" if asked.chat else "text_completion",
            "created": int(time.time()),
            "model": asked.model,
        }
        if asked.chat and asked.stream:
            self._frame["object"] = "chat.completion.chunk"

    def write(self) -> None:
        """Raises Disconnected where the client leaves early."""
        if self._asked.stream:
            return self._stream()
        text = "".join(self._pieces())
        if self._asked.responses:
            return self._json(responses.document(self._asked, text, self._plan.finish_reason, self.tokens))
        choice: dict[str, object] = {"index": 0, "logprobs": None, **self._ending()}
        if self._asked.call is not None:
            choice["message"] = {"role": "assistant", "content": None, "tool_calls": [self._call(self._asked.call)]}
        elif self._asked.chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        return self._json({**self._frame, "choices": [choice], "usage": self._usage()})

    def _json(self, document: dict[str, object]) -> None:
        if "cut" in self._struck:
            self._exchange.cut()
        if "not-json" in self._struck:
            return self._exchange.answer(200, b"<html>not JSON</html>")
        return self._exchange.json(200, document)

    def _stream(self) -> None:
        self._exchange.start_stream()
        if self._asked.chat:
            self._choice({"role": "assistant", "content": ""}, {"finish_reason": None})
        if self._asked.call is not None:
            self._stream_call(self._asked.call)
        else:
            for piece in self._pieces():
                if self.tokens > 2:
                    self._stumble()
                self._choice({"content": piece} if self._asked.chat else piece, {"finish_reason": None})
        self._stumble()
        self._choice({} if self._asked.chat else "", self._ending())
        if self._asked.include_usage:
            self._event({**self._frame, "choices": [], "usage": self._usage()})
        self._exchange.event("[DONE]")
        self._exchange.end_stream()

    def _stumble(self) -> None:
        if "cut" in self._struck:
            self._exchange.cut()
        if "not-json" in self._struck:
            self._exchange.event("{not JSON")

    def _stream_call(self, call: tuple[str, str]) -> None:
        """The name first, then the arguments bit by bit, as vLLM's tool parsers send them."""
        begun = self._call((call[0], ""))
        self._choice({"tool_calls": [{"index": 0, **begun}]}, {"finish_reason": None})
        list(self._pieces())
        for part in (call[1][: len(call[1]) // 2], call[1][len(call[1]) // 2 :]):
            delta = {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}
            self._choice(delta, {"finish_reason": None})

    def _call(self, call: tuple[str, str]) -> dict[str, object]:
        name, arguments = call
        return {
            "id": "chatcmpl-tool-" + os.urandom(8).hex(),
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }

    def _pieces(self) -> Iterator[str]:
        for piece in self._plan.pieces:
            self._pace.token()
            self.tokens += 1
            yield piece

    def _choice(self, part: object, ending: dict[str, object]) -> None:
        name = "delta" if self._asked.chat else "text"
        self._event({**self._frame, "choices": [{"index": 0, name: part, "logprobs": None, **ending}]})

    def _event(self, value: dict[str, object]) -> None:
        self._exchange.event(json.dumps(value))

    def _ending(self) -> dict[str, object]:
        return {"finish_reason": self._plan.finish_reason, "stop_reason": self._plan.stop_reason}

    def _usage(self) -> dict[str, object]:
        details = {"cached_tokens": self._asked.cached_tokens} if self._asked.prompt_details else None
        tokens = 10**9 if "absurd-usage" in self._struck else self.tokens
        return {
            "prompt_tokens": self._asked.prompt_tokens,
            "total_tokens": self._asked.prompt_tokens + tokens,
            "completion_tokens": tokens,
            "prompt_tokens_details": details,
        }
