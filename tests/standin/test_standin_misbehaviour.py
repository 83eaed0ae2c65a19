"""Each fault, in a real process."""

import os
import time
from pathlib import Path

import httpx
import pytest

from lab.standin.process import Engine, running, started
from probes.asking.metrics import running_requests

CHAT = {"messages": [{"role": "user", "content": "What is 2+2?"}], "max_tokens": 100}


def _ask(engine: Engine, timeout: float = 5) -> httpx.Response:
    return httpx.post(f"{engine.url}/v1/chat/completions", json=CHAT, timeout=timeout)


def _healthy(engine: Engine) -> bool:
    return httpx.get(f"{engine.url}/health").status_code == 200


def test_slow_start(model: Path) -> None:
    begin = time.monotonic()
    with started(model, environ={"VLLM_STANDIN_FAULT": "slow-start:0.8"}) as engine:
        while "2/4" not in engine.output:
            time.sleep(0.01)
        assert "Starting vLLM server" not in engine.output
        engine.wait_ready()
        assert time.monotonic() - begin > 0.8
        assert _ask(engine).status_code == 200


def test_a_slow_start_goes_on_at_once_where_its_file_takes_it_back(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "fault"
    file.write_text("slow-start:600")
    with started(model, environ={"VLLM_STANDIN_FAULT_FILE": str(file)}) as engine:
        while "0/4" not in engine.output:
            time.sleep(0.01)
        assert "Starting vLLM server" not in engine.output
        file.unlink()
        engine.wait_ready()
        assert _ask(engine).status_code == 200


def test_healthy_but_the_first_completion_fails(model: Path) -> None:
    with running(model, environ={"VLLM_STANDIN_FAULT": "first-completion-500"}) as engine:
        assert _healthy(engine)
        first = _ask(engine)
        assert first.status_code == 500
        assert first.json()["error"]["type"] == "InternalServerError"
        assert _healthy(engine)
        assert _ask(engine).status_code == 200


def test_healthy_but_every_completion_fails(model: Path) -> None:
    with running(model, environ={"VLLM_STANDIN_FAULT": "completion-500"}) as engine:
        assert [_ask(engine).status_code for _ in range(3)] == [500] * 3
        assert _healthy(engine)


def test_healthy_but_it_hangs(model: Path) -> None:
    with running(model, environ={"VLLM_STANDIN_FAULT": "hang"}) as engine:
        with pytest.raises(httpx.ReadTimeout):
            _ask(engine, timeout=0.3)
        assert _healthy(engine)
        end = time.monotonic() + 5
        while running_requests(engine.url) and time.monotonic() < end:
            time.sleep(0.01)
        assert running_requests(engine.url) == 0, "the client has gone"


def test_crash_while_it_starts(model: Path) -> None:
    with started(model, environ={"VLLM_STANDIN_FAULT": "crash-start"}) as engine:
        assert engine.process.wait(5) == 1
        assert "Engine core initialization failed" in engine.output
        assert "Starting vLLM server" not in engine.output


def test_crash_after_requests(model: Path) -> None:
    with running(model, environ={"VLLM_STANDIN_FAULT": "crash-after:2"}) as engine:
        assert _ask(engine).status_code == 200
        assert _ask(engine).status_code == 200
        assert engine.process.wait(2) == 1
        assert "EngineDeadError" in engine.output
        with pytest.raises(httpx.ConnectError):
            _healthy(engine)


def test_an_endless_answer(model: Path) -> None:
    with running(model, environ={"VLLM_STANDIN_FAULT": "loop"}) as engine:
        choice = _ask(engine).json()["choices"][0]
        assert choice["finish_reason"] == "length"
        assert choice["message"]["content"].count("and then the same thing again") == 16


def test_an_endless_answer_without_max_tokens_ends_at_the_context(model: Path) -> None:
    environ = {"VLLM_STANDIN_FAULT": "loop", "VLLM_STANDIN_TOKENS_PER_S": "0"}
    with running(model, "--max-model-len", "20000", environ=environ) as engine:
        body = {key: value for key, value in CHAT.items() if key != "max_tokens"}
        answer = httpx.post(f"{engine.url}/v1/chat/completions", json=body, timeout=20).json()
        assert answer["usage"]["total_tokens"] == 20000
        assert answer["choices"][0]["finish_reason"] == "length"


def test_a_fifth_of_the_answers_loop(model: Path) -> None:
    environ = {"VLLM_STANDIN_FAULT": "loop:p=0.2", "VLLM_STANDIN_SEED": "3"}

    def reasons() -> list[str]:
        with running(model, environ=environ) as engine, httpx.Client(base_url=engine.url) as client:
            answers = [client.post("/v1/chat/completions", json=CHAT).json() for _ in range(50)]
        return [answer["choices"][0]["finish_reason"] for answer in answers]

    first = reasons()
    assert 4 <= first.count("length") <= 18
    assert first == reasons(), "the seed repeats the draws"


def test_a_fifth_of_the_starts_crash(model: Path) -> None:
    def starts(seed: int) -> bool:
        environ = {"VLLM_STANDIN_FAULT": "crash-start:p=0.5", "VLLM_STANDIN_SEED": str(seed)}
        with started(model, environ=environ) as engine:
            while engine.process.poll() is None and "startup complete" not in engine.output:
                time.sleep(0.01)
            return engine.process.poll() is None

    outcomes = [starts(seed) for seed in range(8)]
    assert 0 < sum(outcomes) < 8
    assert [starts(seed) for seed in range(2)] == outcomes[:2]


def test_crash_after_requests_with_a_probability(model: Path) -> None:
    environ = {"VLLM_STANDIN_FAULT": "crash-after:1:p=0.2", "VLLM_STANDIN_SEED": "1"}
    with running(model, environ=environ) as engine:
        answered = 0
        while engine.process.poll() is None and answered < 100:
            try:
                answered += _ask(engine).status_code == 200
            except httpx.TransportError:
                break
            time.sleep(0.01)
        assert engine.process.wait(2) == 1
        assert 1 <= answered < 40


def test_faults_can_be_changed_while_it_runs(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "fault"
    with running(model, environ={"VLLM_STANDIN_FAULT_FILE": str(file)}) as engine:
        assert _ask(engine).status_code == 200
        (tmp_path / "new").write_text("completion-500\n")
        os.rename(tmp_path / "new", file)
        assert _ask(engine).status_code == 500
        file.write_text("typo")
        assert "unknown fault 'typo'" in _ask(engine).json()["error"]["message"]
        file.write_text("")
        assert _ask(engine).status_code == 200
        assert _healthy(engine)
