"""The engine as a real process, asked over HTTP."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from lab.standin.process import Engine, running, started
from probes.asking.metrics import cache_config, parse, running_requests

QUESTION = [{"role": "user", "content": "What is 2+2?"}]
FLAGS = ("--served-model-name", "glm", "glm-5", "-tp", "4", "-pp", "2", "--max-model-len", "1000")


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[Engine]:
    with running(model, *FLAGS, "-dp", "2", environ={"VLLM_PP_LAYER_PARTITION": "41,37"}) as engine:
        yield engine


@pytest.fixture
def client(engine: Engine) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=engine.url, timeout=10) as client:
        yield client


def _chat(client: httpx.Client, **fields: object) -> httpx.Response:
    return client.post("/v1/chat/completions", json={"model": "glm", "messages": QUESTION, **fields})


def _events(text: str) -> list[dict]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_it_says_what_it_is(client: httpx.Client, engine: Engine) -> None:
    assert engine.output.startswith("vllm-standin (a stand-in, not vLLM)")
    assert client.get("/version").json() == {"version": "0.30.0+standin"}
    models = client.get("/v1/models").json()["data"]
    assert [(each["id"], each["owned_by"], each["max_model_len"]) for each in models] == [
        ("glm", "vllm-standin", 1000),
        ("glm-5", "vllm-standin", 1000),
    ]


def test_it_prints_the_lines_of_a_start(engine: Engine) -> None:
    order = [
        r"non-default args: \{'model_tag': '/",
        r"Loading safetensors checkpoint shards: 100% Completed \| 4/4",
        r"Model loading took [\d.]+ GiB memory and [\d.]+ seconds",
        r"Available KV cache memory: [\d.]+ GiB",
        r"GPU KV cache size: [\d,]+ tokens, Maximum concurrency for 1,000 tokens per request: [\d.]+x",
        r"Starting vLLM server on http://127\.0\.0\.1:\d+",
        r"Application startup complete\.",
    ]
    assert re.search(".*".join(order), engine.output, re.DOTALL)


def test_health(client: httpx.Client) -> None:
    answer = client.get("/health")
    assert (answer.status_code, answer.content) == (200, b"")
    assert client.head("/health").status_code == 200


def test_a_chat_completion(client: httpx.Client) -> None:
    answer = _chat(client).json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "The answer is 4."
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens"] == 3
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["usage"]["total_tokens"] == 7


def test_a_streamed_chat_completion(client: httpx.Client) -> None:
    answer = _chat(client, stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, usage = _events(answer.text)
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content", "") for delta in deltas) == "The answer is 4."
    assert [event["choices"][0]["finish_reason"] for event in events] == [None] * 5 + ["stop"]
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 4)
    assert all(event["object"] == "chat.completion.chunk" for event in events)
    assert all("usage" not in event for event in _events(_chat(client, stream=True).text))


def test_a_text_completion_whole_and_streamed(client: httpx.Client) -> None:
    body = {"model": "glm-5", "prompt": "Say something", "max_tokens": 5}
    whole = client.post("/v1/completions", json=body).json()
    streamed = _events(client.post("/v1/completions", json={**body, "stream": True}).text)
    assert whole["object"] == "text_completion"
    assert whole["choices"][0]["finish_reason"] == "length"
    assert len(whole["choices"][0]["text"].split()) == 5
    assert "".join(event["choices"][0]["text"] for event in streamed) == whole["choices"][0]["text"]
    tokens = client.post("/v1/completions", json={**body, "prompt": [1, 2, 3]}).json()
    assert tokens["usage"]["prompt_tokens"] == 3


def test_limits_are_obeyed(client: httpx.Client) -> None:
    assert _chat(client, max_tokens=2).json()["choices"][0]["finish_reason"] == "length"
    assert _chat(client, max_completion_tokens=2).json()["usage"]["completion_tokens"] == 2
    stopped = _chat(client, stop=["is"]).json()["choices"][0]
    assert (stopped["message"]["content"], stopped["finish_reason"], stopped["stop_reason"]) == (
        "The answer ",
        "stop",
        "is",
    )


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"model": "other"}, 404, "The model `other` does not exist."),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"content": "no role"}]}, 400, "role"),
        ({"max_tokens": 0}, 400, "max_tokens must be at least 1"),
        ({"max_tokens": 1000}, 400, "maximum context length is 1000 tokens"),
        ({"n": 2}, 400, "n must be 1"),
    ],
)
def test_errors_have_vllms_shape(client: httpx.Client, fields: dict, status: int, says: str) -> None:
    answer = _chat(client, **fields)
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]
    assert answer.json()["error"]["code"] == status


def test_what_is_not_there(client: httpx.Client) -> None:
    assert client.get("/nothing").status_code == 404
    assert client.get("/v1/chat/completions").status_code == 405
    assert client.post("/v1/chat/completions", content=b"{").status_code == 400
    assert client.post("/v1/chat/completions", content=b"[]").status_code == 400


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"hello\r\n\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /health HTTP/1.0\r\n\r\n", b"200"),
        (
            b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            b'10\r\n{"prompt": "What\r\n9\r\n is 1+1"}\r\n0\r\n\r\n',
            b"200",
        ),
    ],
)
def test_raw_requests(engine: Engine, sent: bytes, status: bytes) -> None:
    port = int(engine.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(sent)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    assert received.split(b" ")[1] == status


def test_metrics(client: httpx.Client, engine: Engine) -> None:
    def total(name: str, **labels: str) -> float:
        samples = parse(client.get("/metrics").text)
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    stops, tokens = total("vllm:request_success_total", finished_reason="stop"), total("vllm:generation_tokens_total")
    prompts = total("vllm:prompt_tokens_total")
    _chat(client)
    assert total("vllm:request_success_total", finished_reason="stop") == stops + 1
    assert total("vllm:generation_tokens_total") == tokens + 4
    assert total("vllm:prompt_tokens_total") == prompts + 3
    config = cache_config(engine.url)
    assert config["engine"] == "0"
    assert f"GPU KV cache size: {int(config['kv_cache_size_tokens']):,} tokens" in engine.output
    assert config["block_size"] == "64"
    assert int(float(config["kv_cache_max_concurrency"]) * 1000) == int(config["kv_cache_size_tokens"])
    engines = {sample.labels["engine"] for sample in parse(client.get("/metrics").text)}
    assert engines == {"0", "1"}


def test_many_streams_at_once(model: Path) -> None:
    pace = {"VLLM_STANDIN_TOKENS_PER_S": "20"}
    wide = httpx.Limits(max_connections=90)
    body = {"prompt": "a", "max_tokens": 40, "ignore_eos": True, "stream": True}
    with running(model, "--max-num-seqs", "80", environ=pace) as engine, httpx.Client(limits=wide) as client:
        url = f"{engine.url}/v1/completions"
        with ThreadPoolExecutor(90) as pool:
            answers = [pool.submit(client.post, url, json=body, timeout=20) for _ in range(90)]
            _wait_for(lambda: running_requests(engine.url) == 90)
            samples = {s.name: s.value for s in parse(httpx.get(f"{engine.url}/metrics").text)}
            texts = [answer.result().text for answer in answers]
        assert samples["vllm:num_requests_running"] == 80
        assert samples["vllm:num_requests_waiting"] == 10
        assert all(text.endswith("data: [DONE]\n\n") and text.count("data: ") == 42 for text in texts)
        _wait_for(lambda: running_requests(engine.url) == 0)
        memory = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{engine.process.pid}/status").read_text())
        assert memory and int(memory[1]) < 30_000, "kilobytes, with 90 connections"


def _wait_for(condition: Callable[[], bool], within_s: float = 5) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_client_that_leaves_is_forgotten(model: Path) -> None:
    with running(model, environ={"VLLM_STANDIN_TOKENS_PER_S": "5"}) as engine:
        body = {"prompt": "a", "max_tokens": 500, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", f"{engine.url}/v1/completions", json=body) as response:
            lines = response.iter_lines()  # kept: the stream ends with its iterator
            next(lines)
            assert running_requests(engine.url) == 1
        _wait_for(lambda: running_requests(engine.url) == 0)
        assert 'finished_reason="abort",model_name=' in httpx.get(f"{engine.url}/metrics").text


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_a_key_is_asked_for(model: Path, how: str) -> None:
    flags = ("--api-key", "hush") if how == "flag" else ()
    with running(model, *flags, environ={"VLLM_API_KEY": "" if flags else "hush"}) as engine:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "hush"}):
            answer = httpx.get(f"{engine.url}/v1/models", headers=headers)
            assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
        assert httpx.get(f"{engine.url}/v1/models", headers={"Authorization": "Bearer hush"}).status_code == 200
        assert httpx.get(f"{engine.url}/health").status_code == 200
        assert httpx.get(f"{engine.url}/metrics").status_code == 200
        assert "hush" not in engine.output


@pytest.mark.parametrize(
    ("flags", "environ", "code", "says"),
    [
        (("-tp", "3"), {}, 1, "attention heads (64) must be divisible by tensor parallel size (3)"),
        (("-pp", "2"), {"VLLM_PP_LAYER_PARTITION": "41,36"}, 1, "sum(partitions)=77 does not match"),
        ((), {"VLLM_PP_LAYER_PARTITION": "41,37"}, 1, "len(partitions)=2 does not match pp_size=1"),
        (("--port", "x"), {}, 2, "invalid int value"),
        ((), {"VLLM_STANDIN_FAULT": "lop"}, 1, "unknown fault 'lop'"),
    ],
)
def test_it_refuses_to_start(model: Path, flags: tuple, environ: dict, code: int, says: str) -> None:
    with started(model, *flags, environ=environ) as engine:
        assert engine.process.wait(10) == code
        assert says in engine.output
        assert "Traceback" not in engine.output


def test_a_taken_port_and_a_missing_model(model: Path, engine: Engine, tmp_path: Path) -> None:
    with started(model, "--port", engine.url.rsplit(":", 1)[1]) as second:
        assert second.process.wait(10) == 1
        assert "Address already in use" in second.output
    with started(tmp_path) as third:
        assert third.process.wait(10) == 1
        assert f"{tmp_path}/config.json: No such file" in third.output


def _slow_stream(engine: Engine) -> subprocess.Popen[str]:
    """A client in a process of its own: about a second of a stream."""
    body = {"prompt": "a", "max_tokens": 20, "ignore_eos": True, "stream": True}
    client = subprocess.Popen(
        ["curl", "-sN", "-d", json.dumps(body), f"{engine.url}/v1/completions"], stdout=subprocess.PIPE, text=True
    )
    _wait_for(lambda: running_requests(engine.url) == 1)
    return client


@pytest.mark.parametrize(("timeout", "whole"), [("0", False), ("20", True)])
def test_sigterm_cuts_or_lets_finish_as_the_flag_says(model: Path, timeout: str, whole: bool) -> None:
    pace = {"VLLM_STANDIN_TOKENS_PER_S": "20"}
    with running(model, "--shutdown-timeout", timeout, environ=pace) as engine:
        client = _slow_stream(engine)
        engine.process.send_signal(signal.SIGTERM)
        if whole:
            time.sleep(0.2)
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"{engine.url}/health")
        text, _ = client.communicate(timeout=10)
        assert engine.process.wait(5) == 0
        assert text.endswith("data: [DONE]\n\n") is whole
        assert ("requests unfinished" in engine.output) is not whole


def test_a_second_signal_ends_it_at_once(model: Path) -> None:
    pace = {"VLLM_STANDIN_TOKENS_PER_S": "20"}
    with running(model, "--shutdown-timeout", "60", environ=pace) as engine:
        client = _slow_stream(engine)
        engine.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        assert engine.process.poll() is None
        engine.process.send_signal(signal.SIGINT)
        assert engine.process.wait(1) == 128 + signal.SIGINT
        client.communicate(timeout=5)


def test_sigterm_while_idle_and_while_it_loads(model: Path) -> None:
    with running(model) as engine:
        engine.process.send_signal(signal.SIGTERM)
        assert engine.process.wait(2) == 0
    with started(model, environ={"VLLM_STANDIN_FAULT": "slow-start:60"}) as engine:
        while "0/4" not in engine.output:
            time.sleep(0.01)
        engine.process.send_signal(signal.SIGTERM)
        assert engine.process.wait(2) == 0


def test_it_is_light(engine: Engine) -> None:
    """Sixty of these start on two cores. The interpreter of a test may be heavier than Debian's."""
    text = Path(f"/proc/{engine.process.pid}/status").read_text()
    memory = re.search(r"RssAnon:\s+(\d+)", text)
    assert memory and int(memory[1]) < 25_000, "kilobytes"
    fields = Path(f"/proc/{engine.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    assert cpu_s < 1.0, "of this whole module's requests"
