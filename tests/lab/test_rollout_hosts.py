"""One bad host among good ones: left out or stopping all, by the policy; and a failure in a later batch."""

import shlex
from typing import Any

import pytest
from rollout_site import FAULT_FILE, RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """Three nodes that serve a proven release, one after the other."""
    shared_site.rollout = {"batches": [1]}
    shared_site.write(llm=shared_site.service())
    ran = shared_site.deploy("--data", "batches=100%")
    assert ran.code == 0, ran.out
    return shared_site


@pytest.fixture(autouse=True)
def healthy(rolled: RolloutSite) -> Any:
    """Faults are one test's own, and no test leaves a lock."""
    yield
    for node in rolled.nodes:
        rolled.lab.set(node, clear=True)
        rolled.fault(node)
        assert rolled.on(node, f"ls {STATE}/lock {STATE}/*/pending 2>/dev/null; true") == ""


def look(site: RolloutSite) -> dict[str, dict[str, str]]:
    return {node: site.state(node, "llm") for node in site.nodes}


def change(site: RolloutSite, length: int, **more: Any) -> None:
    site.write(llm=site.service(max_model_len=length, **more))


def status(told: dict[str, Any]) -> dict[str, str]:
    return {row["node"]: row["status"] for row in told["results"]}


def test_a_failure_in_a_later_batch_keeps_what_was_proven_before_it(rolled: RolloutSite) -> None:
    before = look(rolled)
    change(rolled, 2048, policy={"start_budget_s": 5, "proof_s": 3})
    rolled.fault("h1", "first-completion-500")
    # The old release reads that file too: it is mended as soon as the new one has failed.
    wait = f"until [ -s {STATE}/llm/undo.log ]; do sleep 0.1; done; : >{FAULT_FILE}"
    rolled.on("h1", f"systemd-run --quiet --collect bash -c {shlex.quote(wait)}")
    code, told = rolled.report()
    now = look(rolled)
    assert code == 1
    assert status(told) == {"a1": "proven", "h1": "restored", "l1": "untouched"}
    assert now["a1"]["previous"] == before["a1"]["current"] and now["a1"]["proven"] == now["a1"]["current"]
    assert now["h1"] | {"pid": ""} == before["h1"] | {"pid": ""}
    assert now["l1"] == before["l1"]
    change(rolled, 2048)
    again = rolled.report()
    assert (again[0], status(again[1])) == (0, {"a1": "proven", "h1": "proven", "l1": "proven"})


def test_a_host_that_a_gate_refuses_is_left_out_where_the_policy_says_so(rolled: RolloutSite) -> None:
    before = look(rolled)
    change(rolled, 1024)
    rolled.lab.set("a1", faults=["gpu-lost:0"])
    dry = rolled.deploy("--dry", "--data", "on_failed_gate=host")
    assert dry.code == 1 and "Left out: a1" in dry.plain
    code, told = rolled.report("--data", "on_failed_gate=host")
    now = look(rolled)
    assert status(told) == {"a1": "refused", "h1": "proven", "l1": "proven"}
    assert now["a1"] == before["a1"]
    assert now["h1"]["previous"] == before["h1"]["current"]
    assert code == 1, "a host did not get what is declared"


def test_an_unreachable_host_stops_all_unless_the_policy_says_otherwise(rolled: RolloutSite) -> None:
    before = look(rolled)
    change(rolled, 512)
    rolled.lab.cut("h1")
    try:
        ran = rolled.deploy()
        assert ran.code == 1
        assert "fail reachable: want an answer over SSH, found no SSH connection" in ran.plain
        assert "on h1; bring the node back, leave it out with --limit, or set rollout.on_unreachable: host" in ran.plain
        assert "refused by 1 failing gates on h1; nothing was changed" in ran.plain
        assert {node: rolled.state(node, "llm") for node in ("a1", "l1")} == {n: before[n] for n in ("a1", "l1")}
        code, told = rolled.report("--data", "on_unreachable=host")
    finally:
        rolled.lab.join("h1")
    assert status(told) == {"a1": "proven", "h1": "unreachable", "l1": "proven"}
    assert code == 1, "a host did not get what is declared"
    assert look(rolled)["h1"] == before["h1"]


def test_a_host_whose_probe_fails_counts_as_unreachable(rolled: RolloutSite) -> None:
    before = look(rolled)
    change(rolled, 256)
    rolled.on("l1", f"echo rubbish >{STATE}/lock")
    try:
        ran = rolled.deploy()
        assert ran.code == 1
        assert f"{STATE}/lock: want `HOLDER SINCE EXPIRES RUN`, found" in ran.plain and "rubbish" in ran.plain
        assert look(rolled) == before
        code, told = rolled.report("--data", "on_unreachable=host")
    finally:
        rolled.on("l1", f"rm {STATE}/lock")
    assert status(told) == {"a1": "proven", "h1": "proven", "l1": "unreachable"}
    assert code == 1
    assert look(rolled)["l1"] == before["l1"]


def test_with_no_good_host_left_nothing_is_done(rolled: RolloutSite) -> None:
    before = look(rolled)
    change(rolled, 128)
    for node in rolled.nodes:
        rolled.lab.set(node, faults=["driver-gone"])
    ran = rolled.deploy("--data", "on_failed_gate=host")
    assert ran.code == 1
    assert "refused: no node is left whose gates pass; nothing was changed" in ran.plain
    assert look(rolled) == before
