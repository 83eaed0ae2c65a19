"""The stand-in over several hosts: head and headless parts as processes of this machine."""

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from lab.standin.arguments import UsageError, parse
from lab.standin.process import Engine, started

LAYOUT = ("--pipeline-parallel-size", "2", "--nnodes", "2", "--master-addr", "127.0.0.1")


@pytest.fixture
def port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        number: int = free.getsockname()[1]
    return number


@pytest.fixture
def parts(model: Path, port: int) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def part(stack: ExitStack, model: Path, port: int, rank: int, **environ: str) -> Engine:
    words = ("--master-port", str(port), "--node-rank", str(rank), *(["--headless"] if rank else []))
    return stack.enter_context(started(model, *LAYOUT, *words, environ=environ))


def complete(engine: Engine, within_s: float) -> str:
    body = json.dumps({"model": "", "prompt": "What is 2 + 2?", "max_tokens": 4}).encode()
    request = urllib.request.Request(f"{engine.url}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=within_s) as answer:
        text: str = json.load(answer)["choices"][0]["text"]
    return text


def test_the_head_serves_when_every_part_has_come(parts: ExitStack, model: Path, port: int) -> None:
    head = part(parts, model, port, 0)
    with pytest.raises(Exception, match="not ready after 1 s"):
        head.wait_ready(1)
    part(parts, model, port, 1)
    head.wait_ready()
    assert complete(head, 10)


def test_who_only_looks_at_the_master_port_is_no_part(parts: ExitStack, model: Path, port: int) -> None:
    part(parts, model, port, 1)
    head = part(parts, model, port, 0)
    head.wait_ready()
    with closing(socket.create_connection(("127.0.0.1", port))):
        assert complete(head, 10)
    assert complete(head, 10)


@pytest.mark.parametrize("how", ["killed", "crash-after:1"])
def test_a_head_that_lost_a_part_is_healthy_and_answers_nothing(
    parts: ExitStack, model: Path, port: int, how: str
) -> None:
    other = part(parts, model, port, 1, VLLM_STANDIN_FAULT="" if how == "killed" else how)
    head = part(parts, model, port, 0)
    head.wait_ready()
    if how == "killed":
        other.process.kill()
    with pytest.raises(OSError, match="timed out"):
        complete(head, 1)
    with urllib.request.urlopen(f"{head.url}/health", timeout=5) as answer:
        assert answer.status == 200
    assert how == "killed" or other.process.wait(5) == 1


def test_a_part_does_not_notice_that_its_head_is_gone_and_ends_when_asked(
    parts: ExitStack, model: Path, port: int
) -> None:
    other = part(parts, model, port, 1)
    head = part(parts, model, port, 0)
    head.wait_ready()
    head.process.kill()
    time.sleep(0.5)
    assert other.process.poll() is None
    other.process.terminate()
    assert other.process.wait(5) == 0


@pytest.mark.parametrize("words", [("--nnodes", "2"), ("-n", "2", "-pp", "2", "-r", "2"), ("--nnodes", "0")])
def test_nodes_that_do_not_divide_the_engine_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"--nnodes|--node-rank"):
        parse(["serve", "/m", *words])
