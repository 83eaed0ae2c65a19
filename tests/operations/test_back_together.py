"""rollback.py and engines over several hosts: all of one go back, or none."""

import json

from fleet.nodes.node import OwnFile
from fleet.policy import ServicePolicy
from operations.back import _halves
from operations.steps import Step
from operations.stored import Stored
from probes.evidence import Endpoint
from tests.fleet.builders import installed, node


def step(name: str, now: str | None, then: str | None) -> tuple[Step, Stored]:
    """glm on a node, from one release to another; each alone (None) or a part of the engine with that digest."""

    def document(digest: str | None) -> str:
        span = f'"span": {{"nodes": ["a1", "a2"], "rank": {0 if name == "a1" else 1}, "digest": "{digest}"}}'
        return f"{{{span if digest else ''}}}"

    path = "/var/lib/vllm-fleet/glm/releases/r1/plan.json"
    file = OwnFile(path=path, sha256="0", mode="600", owner="root:root", text=document(now))
    made = Step(
        node=name,
        service="glm",
        kind="update",
        release="r0",
        endpoint=Endpoint(url="http://192.0.2.1:8000", model="glm"),
        policy=ServicePolicy(),
        layout="TP8/PP2",
        partition="-",
        old=installed(files=(file,)),
    )
    return made, Stored(node=node(name=name), document=json.loads(document(then)))


def test_all_hosts_of_one_engine_may_go_back_to_one_engine_or_to_none() -> None:
    assert _halves([step("a1", "new", "old"), step("a2", "new", "old")]) == []
    assert _halves([step("a1", "new", None), step("a2", "new", None)]) == []
    assert _halves([step("a1", None, "old"), step("a2", None, "old")]) == []
    assert _halves([step("a1", None, None)]) == []


def test_a_host_whose_others_have_nothing_before_does_not_go_back_alone() -> None:
    (line,) = _halves([step("a1", "new", None)])
    assert "want a release before of glm on a2, which runs or ran it with a1" in line


def test_an_engine_does_not_come_back_on_some_of_its_hosts() -> None:
    (line,) = _halves([step("a1", None, "old")])
    assert "on a2" in line
    lines = _halves([step("a1", "new", "old"), step("a2", "new", "older")])
    assert len(lines) == 2
