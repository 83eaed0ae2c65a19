"""Whatever a server sends, each probe ends in time with what it wanted and what it found; nothing breaks inside it."""

import json
import socket
import threading
from typing import Any

import pytest
from wire import reply, serving

from probes.asking.load import load
from probes.evidence import Endpoint, Limits

PROBES = ("smoke", "tools", "needle", "degeneration", "quality", "speed", "heartbeat", "completion")
MODELS = json.dumps({"object": "list", "data": [{"id": "glm", "max_model_len": 4096}]})
USAGE = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}


def events(*documents: Any, done: bool = True) -> str:
    """A stream; what is no document is sent as it is."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in documents]
    return "".join(f"data: {line}\n\n" for line in (*lines, *(["[DONE]"] if done else [])))


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
DEEP = "[" * 100_000
STREAMS = {
    "content that is no text": events(delta(content=7), END, {"choices": [], "usage": USAGE}),
    "content that is a list": events(delta(content=[{"type": "text"}]), END, {"choices": [], "usage": USAGE}),
    "thoughts that are an object": events(delta(reasoning={"a": 1}), END, {"choices": [], "usage": USAGE}),
    "choices that are an object": events({"choices": {"0": {}}}),
    "a choice that is null": events({"choices": [None]}),
    "a number": events(3),
    "an event too deep to be read": events(DEEP),
    "tool calls that are text": events(delta(tool_calls="call"), END, {"choices": [], "usage": USAGE}),
    "a tool call without an index": events(delta(tool_calls=[{"function": {}}]), END),
    "finish_reason that is an object": events({"choices": [{"delta": {"content": "4"}, "finish_reason": {"a": 1}}]}),
    "an unknown finish_reason": events({"choices": [{"delta": {"content": "4"}, "finish_reason": "tired"}]}),
    "usage that is text": events(delta(content="4"), END, {"choices": [], "usage": "much"}),
    "usage below zero": events(delta(content="4"), END, {"usage": {**USAGE, "prompt_tokens": -1, "total_tokens": 0}}),
    "usage that is true": events(delta(content="4"), END, {"usage": dict.fromkeys(USAGE, True)}),
    "a prompt of a billion tokens": events(
        delta(content="4"), END, {"usage": {"prompt_tokens": 10**9, "completion_tokens": 1, "total_tokens": 10**9 + 1}}
    ),
    "an error in the stream": events({"error": ["overloaded"]}),
    "no end": events(delta(content="4"), done=False),
    "nothing": "",
    "bytes that are no UTF-8": "data: \udcff\udcfe\n\n",
    "a line of a megabyte": "data: " + "4" * 2**20,
}
LISTS = {
    "a list": "[1]",
    "null": "null",
    "data that is an object": json.dumps({"data": {"id": "glm"}}),
    "a context that is text": json.dumps({"data": [{"id": "glm", "max_model_len": "long"}]}),
    "a context below zero": json.dumps({"data": [{"id": "glm", "max_model_len": -4}]}),
    "a context of one": json.dumps({"data": [{"id": "glm", "max_model_len": 1}]}),
    "too deep": DEEP,
    "another model": json.dumps({"data": [{"id": "other"}]}),
}


def ends_well(name: str, endpoint: Endpoint, trials: int = 3) -> None:
    limits = Limits(total_s=4, concurrency=(2,), trials=trials, max_tokens=16, lengths=(64,))
    evidence = load(name)(endpoint, limits)
    assert not evidence.passed and not evidence.degraded, str(evidence)
    assert evidence.seconds < limits.total_s + 1
    assert evidence.found and "Evidence from" not in evidence.wanted, f"the probe broke: {evidence.found}"
    assert len(evidence.found) < 2000


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_that_makes_no_sense_is_told(kind: str) -> None:
    def script(connection: socket.socket, request: bytes) -> None:
        if b"/v1/models" in request.split(b"\r\n", 1)[0]:
            connection.sendall(reply(MODELS))
            return
        body = STREAMS[kind].encode("utf-8", "surrogateescape")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        connection.sendall(head + body)

    with serving(script) as endpoint:
        for name in PROBES:
            ends_well(name, endpoint)


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_of_models_that_makes_no_sense_is_told(kind: str) -> None:
    def script(connection: socket.socket, request: bytes) -> None:
        models = b"/v1/models" in request.split(b"\r\n", 1)[0]
        connection.sendall(reply(LISTS[kind]) if models else reply("{}", "503 Service Unavailable"))

    with serving(script) as endpoint:
        for name in PROBES:
            ends_well(name, endpoint)


STATUSES = (
    "429 Too Many Requests",
    "503 Service Unavailable",
    "301 Moved Permanently",
    "204 No Content",
    "401 Unauthorized",
)


@pytest.mark.parametrize("status", STATUSES)
def test_another_status_is_told_by_its_number(status: str) -> None:
    with serving(lambda connection, _: connection.sendall(reply('{"error": 5}', status))) as endpoint:
        for name in PROBES:
            evidence = load(name)(endpoint, Limits(total_s=4))
            assert not evidence.passed and status[:3] in evidence.found, str(evidence)


def test_an_engine_that_is_gone_in_the_middle_is_told() -> None:
    """It answers the first three requests and closes every connection after that."""
    left = iter(range(3))
    guard = threading.Lock()

    def script(connection: socket.socket, request: bytes) -> None:
        with guard:
            if next(left, None) is None:
                return
        if b"/v1/models" in request.split(b"\r\n", 1)[0]:
            connection.sendall(reply(MODELS))
            return
        stream = events(delta(content="4"), END, {"choices": [], "usage": USAGE})
        connection.sendall(reply(stream, kind="text/event-stream"))

    for name in ("smoke", "degeneration", "quality"):
        left = iter(range(3))
        with serving(script) as endpoint:
            ends_well(name, endpoint, trials=9)
