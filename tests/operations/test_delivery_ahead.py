"""A look that began while others connected serves the survey that asks the same, once; another one is asked anew."""

from types import SimpleNamespace
from typing import Any

import pytest

from fleet.nodes.request import ProbeRequest
from operations.delivery import ahead

SAME = ProbeRequest(services=(), names=("mirror.example",))
OTHER = ProbeRequest(services=(), names=("a2.example",))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ProbeRequest]]:
    """Every look at a node, in order; it tells its own number."""
    made: list[tuple[str, ProbeRequest]] = []

    def look_at(host: Any, request: ProbeRequest) -> str:
        made.append((host.name, request))
        return f"look {len(made)}"

    monkeypatch.setattr(ahead, "look_at", look_at)
    monkeypatch.setattr(ahead, "requests_for", lambda fleet, nodes, service: {"a1": SAME})
    return made


def connect(*names: str) -> list[Any]:
    """Hosts that connect to a run that is about a1, as pyinfra tells of them."""
    handlers: list[Any] = []
    about = SimpleNamespace(nodes=("a1",), fleet=None, overrides=SimpleNamespace(service=None))
    ahead.begin(SimpleNamespace(add_callback_handler=handlers.append), about)  # type: ignore[arg-type]
    hosts = [SimpleNamespace(name=name) for name in names]
    for host in hosts:
        handlers[0].host_connect(None, host)
    return hosts


def test_what_was_begun_is_told_once(looks: list[tuple[str, ProbeRequest]]) -> None:
    (host,) = connect("a1")
    assert [ahead.look(host, SAME), ahead.look(host, SAME)] == ["look 1", "look 2"]
    assert looks == [("a1", SAME), ("a1", SAME)]


def test_another_question_is_asked_anew(looks: list[tuple[str, ProbeRequest]]) -> None:
    (host,) = connect("a1")
    assert ahead.look(host, OTHER) != ahead.look(host, OTHER)
    assert [request for _, request in looks if request == OTHER] == [OTHER, OTHER]


def test_a_host_that_the_run_is_not_about_is_not_looked_at(looks: list[tuple[str, ProbeRequest]]) -> None:
    connect("b1")
    assert looks == []


def test_a_host_that_connected_before_is_looked_at_when_it_is_asked(looks: list[tuple[str, ProbeRequest]]) -> None:
    assert ahead.look(SimpleNamespace(name="a9"), SAME) == "look 1"  # type: ignore[arg-type]
