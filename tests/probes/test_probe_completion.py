"""The proof, against the stand-in engine and against servers that answer with the wrong bytes."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from wire import drip, reply, serving

from lab.standin.process import Engine, running
from probes.completion import probe
from probes.evidence import Endpoint, Evidence, Limits

MODELS = json.dumps({"data": [{"id": "glm"}]})


def _endpoint(engine: Engine, model: str = "glm", key: str | None = None) -> Endpoint:
    return Endpoint(url=engine.url, model=model, api_key=SecretStr(key) if key else None)


def _probe(model: Path, limits: Limits, fault: str) -> Evidence:
    with running(model, "--served-model-name", "glm", environ={"VLLM_STANDIN_FAULT": fault}) as engine:
        return probe(_endpoint(engine), limits)


def test_a_good_engine_passes(model: Path, limits: Limits) -> None:
    with running(model, "--served-model-name", "glm", environ={"VLLM_API_KEY": "hush"}) as engine:
        evidence = probe(_endpoint(engine, key="hush"), limits)
    assert evidence.passed, str(evidence)
    assert evidence.seconds < 3
    assert evidence.details["text"] == "The answer is 4."
    assert evidence.details["finish_reason"] == "stop"
    assert evidence.details["completion_tokens"] == 4
    assert evidence.details["models"] == ["glm"]
    assert str(evidence).startswith("completion passed in ")
    assert "'The answer is 4.' (stop, 4 tokens, " in str(evidence)
    assert "hush" not in evidence.model_dump_json()


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("first-completion-500", "HTTP 500: EngineCore encountered an issue"),
        ("completion-500", "HTTP 500: EngineCore encountered an issue"),
        ("crash-after:1", "connection"),
        ("loop", "a loop: "),
    ],
)
def test_each_misbehaviour_fails(model: Path, limits: Limits, fault: str, found: str) -> None:
    evidence = _probe(model, limits, fault)
    assert not evidence.passed
    assert found in evidence.found
    assert f"FAILED after {evidence.seconds:.2f} s: wanted {evidence.wanted}, found" in str(evidence)


def test_a_crash_after_the_last_answer_is_seen(model: Path) -> None:
    evidence = _probe(model, Limits(total_s=5, answers=2), "crash-after:2")
    assert not evidence.passed
    assert "/health" in evidence.wanted


def test_an_engine_that_hangs_fails_in_time(model: Path) -> None:
    evidence = _probe(model, Limits(total_s=0.5), "hang")
    assert not evidence.passed
    assert "nothing more after 0." in evidence.found
    assert 0.4 < evidence.seconds < 3
    evidence = _probe(model, Limits(total_s=30, first_token_s=0.3), "hang")
    assert not evidence.passed
    assert evidence.seconds < 3


def test_a_slow_engine_has_its_first_token_in_time(model: Path) -> None:
    """first_token_s ends with the first token; the rest of the answer has the whole time."""
    with running(model, "--served-model-name", "glm", environ={"VLLM_STANDIN_TOKENS_PER_S": "5"}) as engine:
        evidence = probe(_endpoint(engine), Limits(total_s=10, first_token_s=0.6, answers=1))
        assert evidence.passed, str(evidence)
        assert evidence.seconds > 0.7


@pytest.mark.parametrize(
    ("model_name", "key", "wanted", "found"),
    [("other", "hush", "model other at", "glm"), ("glm", None, "HTTP 200", "HTTP 401: Unauthorized")],
)
def test_a_wrong_name_or_key_fails(
    model: Path, limits: Limits, model_name: str, key: str | None, wanted: str, found: str
) -> None:
    with running(model, "--served-model-name", "glm", environ={"VLLM_API_KEY": "hush"}) as engine:
        evidence = probe(_endpoint(engine, model_name, key), limits)
    assert not evidence.passed
    assert wanted in evidence.wanted
    assert found in evidence.found


def test_nobody_there(limits: Limits) -> None:
    with serving(lambda *_: None) as endpoint:
        pass
    evidence = probe(endpoint, limits)
    assert not evidence.passed
    assert "no connection: " in evidence.found
    assert "refused" in evidence.found
    assert evidence.seconds < 3


def _event(delta: dict, finish_reason: str | None = None, **more: object) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return f"data: {json.dumps({'choices': [choice], **more})}\n\n"


USAGE = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
ANSWERED = _event({"content": "4"}, "stop", usage=USAGE)


@pytest.mark.parametrize(
    ("stream", "found"),
    [
        (ANSWERED, "a stream cut after '4'"),
        (_event({"role": "assistant"}, "stop", usage=USAGE) + "data: [DONE]\n\n", "no text (finish_reason stop)"),
        (_event({"content": "4"}, usage=USAGE) + "data: [DONE]\n\n", "None"),
        (_event({"content": "4"}, "abort", usage=USAGE) + "data: [DONE]\n\n", "abort"),
        (_event({"content": "4"}, "stop") + "data: [DONE]\n\n", "no usage"),
        (
            _event({"content": "4"}, "stop", usage={**USAGE, "total_tokens": 9}) + "data: [DONE]\n\n",
            '"total_tokens": 9',
        ),
        (_event({"content": "4"}, "stop", usage={}) + "data: [DONE]\n\n", "no usage"),
        ("data: {4\n\n", "{4"),
        ("data: [1]\n\n", "[1]"),
        ('data: {"choices": [{"delta": "4"}]}\n\n', '"4"'),
        ('data: {"error": {"message": "out of memory"}}\n\n', "out of memory"),
        ("", "a stream cut after ''"),
    ],
)
def test_a_bad_stream_fails(limits: Limits, stream: str, found: str) -> None:
    def script(connection, request: bytes) -> None:
        connection.sendall(reply(MODELS) if b"/v1/models" in request else reply(stream, kind="text/event-stream"))

    with serving(script) as endpoint:
        evidence = probe(endpoint, limits)
    assert not evidence.passed
    assert found in evidence.found


def test_thoughts_alone_are_an_answer(limits: Limits) -> None:
    """max_tokens may end a reasoning model before its answer begins; older engines name the field otherwise."""
    for field in ("reasoning", "reasoning_content"):
        stream = _event({field: "I think"}) + _event({}, "length", usage=USAGE) + "data: [DONE]\n\n"

        def script(connection, request: bytes, stream: str = stream) -> None:
            if b"/v1/models" in request:
                return connection.sendall(reply(MODELS))
            if b"/health" in request:
                return connection.sendall(reply(""))
            return connection.sendall(reply(stream, kind="text/event-stream"))

        with serving(script) as endpoint:
            evidence = probe(endpoint, limits)
        assert evidence.passed, str(evidence)
        assert evidence.details["text"] == "I think"


@pytest.mark.parametrize(
    ("models", "found"),
    [
        (b"this is not HTTP\r\n\r\n", "the connection broke"),
        (b"", "the connection broke"),
        (reply(MODELS)[:-3], "the connection broke"),
        (reply("<html>gateway</html>", kind="text/html"), "<html>gateway</html>"),
        (reply('{"data": 4}'), '{"data": 4}'),
        (reply('{"data": []}'), "no model"),
        (reply("<html>bad gateway</html>", "502 Bad Gateway"), "HTTP 502: <html>bad gateway</html>"),
        (reply("", "503 Service Unavailable"), "HTTP 503: no text"),
        (reply('{"error": null}', "500 Oh"), "HTTP 500: None"),
        (reply("\x00\x01" * 5000), "\x00\x01"),
    ],
)
def test_bad_bytes_fail(limits: Limits, models: bytes, found: str) -> None:
    with serving(lambda connection, _: connection.sendall(models)) as endpoint:
        evidence = probe(endpoint, limits)
    assert not evidence.passed
    assert found in evidence.found
    assert len(evidence.found) < 500


def _drip_all(connection, _: bytes) -> None:
    drip(connection, reply(MODELS) * 10)


def _drip_headers(connection, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    drip(connection, b"X-Slow: yes\r\n" * 100)


def _drip_tokens(connection, request: bytes) -> None:
    if b"/v1/models" in request:
        return connection.sendall(reply(MODELS))
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    for _ in range(1000):
        connection.sendall(_event({"content": "4"}).encode())
        time.sleep(0.05)


def _never_read(connection, _: bytes) -> None:
    time.sleep(20)


@pytest.mark.parametrize("script", [_drip_all, _drip_headers, _drip_tokens, _never_read])
def test_no_server_holds_a_probe_past_its_deadline(script: Callable[..., None]) -> None:
    with serving(script) as endpoint:
        begin = time.monotonic()
        evidence = probe(endpoint, Limits(total_s=0.6))
        took = time.monotonic() - begin
    assert not evidence.passed
    assert "nothing more after 0.6" in evidence.found
    assert 0.5 < took < 3


def test_a_server_that_sends_without_end_is_stopped() -> None:
    def script(connection, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 2**20)

    with serving(script) as endpoint:
        evidence = probe(endpoint, Limits(total_s=20))
    assert "more than that" in evidence.found


def test_a_key_that_comes_back_is_not_shown(limits: Limits) -> None:
    def script(connection, request: bytes) -> None:
        connection.sendall(reply(request.decode(), "500 Oh"))

    with serving(script) as endpoint:
        endpoint = Endpoint(url=endpoint.url, model="glm", api_key=SecretStr("hush-hush"))
        evidence = probe(endpoint, limits)
    assert "Authorization: Bearer ***" in evidence.found
    assert "hush" not in repr(evidence) + repr(endpoint)


@pytest.mark.parametrize("key", ["hush\nhush", "hush\r\nX: y"])
def test_a_key_that_http_cannot_carry(limits: Limits, key: str) -> None:
    with serving(lambda connection, _: connection.sendall(reply(MODELS))) as endpoint:
        evidence = probe(Endpoint(url=endpoint.url, model="glm", api_key=SecretStr(key)), limits)
    assert not evidence.passed
    assert "a request that HTTP cannot carry" in evidence.found
    assert "hush" not in repr(evidence)


def test_the_first_answer_is_asked_for_first(model: Path) -> None:
    """A proof must be the first completion of an engine: what breaks there must not be hidden by a warm-up."""
    with running(model, "--served-model-name", "glm", environ={"VLLM_STANDIN_FAULT": "first-completion-500"}) as engine:
        assert httpx.get(f"{engine.url}/health").status_code == 200
        assert not probe(_endpoint(engine), Limits(total_s=5)).passed
        assert probe(_endpoint(engine), Limits(total_s=5)).passed
