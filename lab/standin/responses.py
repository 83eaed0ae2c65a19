"""The Responses API: its request as one of chat, and its document, as vLLM 0.30 shapes them. Not streamed."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .completions import Asked


def as_chat(fields: dict[str, object]) -> dict[str, object]:
    """The same request as a chat completion has it."""
    from .completions import Refused

    given = fields.get("input")
    if fields.get("stream"):
        raise Refused(400, "the stand-in does not stream responses", param="stream")
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    instructions = fields.get("instructions")
    if isinstance(instructions, str) and isinstance(messages, list):
        messages = [{"role": "system", "content": instructions}, *messages]
    return {
        "model": fields.get("model"),
        "messages": messages,
        "max_tokens": fields.get("max_output_tokens"),
        "responses": fields,
    }


def document(asked: Asked, text: str, finish_reason: str, tokens: int) -> dict[str, object]:
    """The whole response."""
    whole = finish_reason != "length"
    message = {
        "id": "msg_" + os.urandom(8).hex(),
        "content": [{"annotations": [], "text": text, "type": "output_text", "logprobs": None}],
        "role": "assistant",
        "status": "completed" if whole else "incomplete",
        "type": "message",
    }
    return {
        "id": "resp_" + os.urandom(8).hex(),
        "created_at": int(time.time()),
        "incomplete_details": None if whole else {"reason": "max_output_tokens"},
        "instructions": None,
        "metadata": None,
        "model": asked.model,
        "object": "response",
        "output": [message],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "background": False,
        "max_output_tokens": asked.max_tokens,
        "status": "completed" if whole else "incomplete",
        "truncation": "disabled",
        "service_tier": "auto",
        "usage": {
            "input_tokens": asked.prompt_tokens,
            "input_tokens_details": {"cached_tokens": asked.cached_tokens},
            "output_tokens": tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": asked.prompt_tokens + tokens,
        },
    }
