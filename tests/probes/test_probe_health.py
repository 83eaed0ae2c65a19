from pathlib import Path

from wire import reply, serving

from lab.standin.process import running
from probes.asking.load import load
from probes.evidence import Endpoint, Limits
from probes.health import probe


def test_a_process_that_lives_passes_though_it_cannot_answer(model: Path, limits: Limits) -> None:
    with running(model, environ={"VLLM_STANDIN_FAULT": "completion-500"}) as engine:
        evidence = probe(Endpoint(url=engine.url, model="any"), limits)
    assert evidence.passed
    assert evidence.found == "HTTP 200"


def test_what_is_not_200_fails(limits: Limits) -> None:
    with serving(lambda connection, _: connection.sendall(reply("", "503 Service Unavailable"))) as endpoint:
        evidence = probe(endpoint, limits)
    assert not evidence.passed
    assert evidence.found == "HTTP 503: no text"
    assert evidence.wanted == f"HTTP 200 to GET {endpoint.url}/health"


def test_a_name_that_does_not_resolve_fails() -> None:
    evidence = probe(Endpoint(url="http://no-such-host.invalid:8000", model="any"), Limits(total_s=10))
    assert not evidence.passed
    assert "no-such-host.invalid" in evidence.found
    assert evidence.seconds < 10.5


def test_a_name_that_resolves_passes(model: Path, limits: Limits) -> None:
    with running(model) as engine:
        port = engine.url.rsplit(":", 1)[1]
        assert probe(Endpoint(url=f"http://localhost:{port}", model="any"), limits).passed


def test_a_heartbeat_finds_the_hang_that_health_hides(model: Path) -> None:
    name = ("--served-model-name", "glm")
    with running(model, *name, environ={"VLLM_STANDIN_FAULT": "hang"}) as engine:
        endpoint = Endpoint(url=engine.url, model="glm")
        assert probe(endpoint, Limits(total_s=5)).passed
        hangs = load("heartbeat")(endpoint, Limits(total_s=30, first_token_s=0.5))
    with running(model, *name) as engine:
        lives = load("heartbeat")(Endpoint(url=engine.url, model="glm"), Limits(total_s=5))
    assert (hangs.status, lives.status) == ("failed", "passed")
    assert hangs.seconds < 2
