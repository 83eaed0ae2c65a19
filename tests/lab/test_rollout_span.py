"""One engine over two hosts: started, proven, put back, stopped and kept together as one."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from rollout_midway import kill, until
from rollout_site import RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab
POLICY = {"start_budget_s": 20, "proof_s": 5, "stop_grace_s": 1, "undo_margin_s": 1, "proof": ["completion"]}
NODES = ("a1", "h1")
LAYOUT = {"tp": 2, "pp": 2, "partition": [41, 39]}


@pytest.fixture(scope="module")
def pair(shared_site: RolloutSite) -> Iterator[RolloutSite]:
    """Two hosts of different kinds, which a waiver allows; l1 has nothing."""
    (shared_site.fleet / "l1.yaml").unlink()
    shared_site.nodes = NODES
    reason = "a lab has one node of each kind"
    shared_site.waivers = [{"gate": gate, "reason": reason} for gate in ("hosts-gpus", "hosts-alike")]
    yield shared_site


def declare(site: RolloutSite, **settings: Any) -> None:
    site.write(llm=site.service(**{"nodes": list(NODES), "layout": LAYOUT, "policy": POLICY, **settings}))


def look(site: RolloutSite) -> dict[str, dict[str, str]]:
    """What lies on both hosts; nothing is pending there and nobody holds a lock."""
    for node in NODES:
        assert site.on(node, f"ls {STATE}/lock {STATE}/*/pending 2>/dev/null; true") == ""
    return {node: site.state(node, "llm") for node in NODES}


def without_pid(states: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {node: state | {"pid": ""} for node, state in states.items()}


def answers(site: RolloutSite) -> bool:
    return site.fleet_command("wait", "llm").code == 0


def test_a_dry_run_shows_both_hosts_and_changes_nothing(pair: RolloutSite) -> None:
    declare(pair)
    before = pair.marks()
    ran = pair.pyinfra("deploy.py", "--dry", "--diff")
    assert ran.code == 0, ran.out
    assert "a1/llm: create" in ran.plain and "h1/llm: create" in ran.plain
    assert "+ --headless" in ran.plain and "waived hosts-gpus" in ran.plain
    assert pair.marks() == before


@pytest.mark.parametrize("verb", ["deploy.py", "rollback.py", "gates.py"])
def test_a_limit_that_cuts_the_engine_is_refused(pair: RolloutSite, verb: str) -> None:
    ran = pair.pyinfra(verb, "--limit", "h1", "-y")
    assert ran.code == 1
    assert "--limit: want all of a1, h1, which run llm together, or none of them, found h1 alone" in ran.plain


def test_the_first_roll_makes_one_engine_of_both(pair: RolloutSite) -> None:
    ran = pair.deploy()
    assert ran.code == 0, ran.out
    states = look(pair)
    for node, state in states.items():
        assert state["current"] == state["proven"] and state["active"] == "active"
        argv, env = pair.engine(node, "llm")
        assert argv == pair.plan(node, "llm")["argv"]
        address = pair.lab.node(node).address
        assert env["VLLM_HOST_IP"] == address and env["GLOO_SOCKET_IFNAME"] == env["NCCL_SOCKET_IFNAME"]
        assert env["GLOO_SOCKET_IFNAME"] in pair.on(node, f"ip -o addr show to {address}")
        assert ("--headless" in argv) == (node == "h1")
        assert argv[argv.index("--master-addr") + 1] == pair.lab.node("a1").address
    spans = [pair.plan(node, "llm")["span"] for node in NODES]
    assert spans[0]["digest"] == spans[1]["digest"] and [span["rank"] for span in spans] == [0, 1]
    url = f"http://{pair.lab.node('a1').address}:8000"
    assert ran.plain.count(f"{url} proven completion: ") == 2, "both rows tell where it answers"
    assert "Batch 1 of 1" in ran.plain


def test_a_second_run_changes_nothing(pair: RolloutSite) -> None:
    before = pair.marks()
    ran = pair.deploy()
    assert ran.code == 0 and "Nothing to change" in ran.plain, ran.out
    assert pair.marks() == before


def test_audit_verify_and_status_know_the_engine(pair: RolloutSite) -> None:
    audit = pair.pyinfra("audit.py")
    assert audit.code == 0, audit.out
    status = pair.fleet_command("status")
    assert status.code == 0 and status.plain.count("active (running)") == 2, status.out
    verify = pair.pyinfra("verify.py", "--data", "probes=completion")
    assert verify.code == 0, verify.out
    assert "a1/llm" in verify.plain or "a1 llm" in verify.plain
    assert "h1 llm" not in verify.plain, "a headless host answers nobody"


def fault_of_the_next_release(site: RolloutSite, text: str) -> None:
    """Of the headless host alone; empty: none any more. The hosts differ in it, which a waiver allows."""
    path = site.fleet / "h1.yaml"
    declared = {name: value for name, value in yaml.safe_load(path.read_text()).items() if name != "services"}
    if text:
        declared["services"] = {"llm": {"env": {"VLLM_STANDIN_FAULT": text}}}
    path.write_text(yaml.safe_dump(declared))


def test_a_host_that_dies_in_the_proof_takes_the_old_engine_back_on_all(pair: RolloutSite) -> None:
    before = look(pair)
    fault_of_the_next_release(pair, "crash-after:1")
    declare(pair, max_model_len=2048)
    ran = pair.deploy()
    assert ran.code == 1, ran.out
    assert "completion: want an answer to POST" in ran.plain
    old = ", ".join(f"{before[node]['current']} on {node}" for node in NODES)
    assert f"{old} was restored and proved itself" in ran.plain, ran.out
    assert ran.plain.count("restored") >= 3
    assert without_pid(look(pair)) == without_pid(before)
    assert answers(pair)


def test_a_host_that_cannot_start_fails_the_engine_at_once(pair: RolloutSite) -> None:
    before = look(pair)
    fault_of_the_next_release(pair, "crash-start")
    declare(pair, max_model_len=2048, policy={**POLICY, "start_budget_s": 300})
    began = time.monotonic()
    ran = pair.deploy()
    assert ran.code == 1, ran.out
    assert time.monotonic() - began < 60, "nobody waits for the head's budget"
    assert "it did not start: h1: vllm-llm.service did not become active" in ran.plain
    assert "was restored and proved itself" in ran.plain
    assert without_pid(look(pair)) == without_pid(before)


def test_where_one_host_cannot_note_the_proof_all_go_back(pair: RolloutSite) -> None:
    before = look(pair)
    fault_of_the_next_release(pair, "")
    declare(pair, max_model_len=2048)
    pair.on("h1", f"mkdir {STATE}/llm/.proven.new")  # in the way of the file that would be written
    ran = pair.deploy()
    pair.on("h1", f"rmdir {STATE}/llm/.proven.new")
    assert ran.code == 1, ran.out
    assert "it proved itself, but not every host could note it: h1: cannot write" in ran.plain
    assert "was restored and proved itself" in ran.plain
    after = look(pair)
    for node in NODES:
        assert after[node]["current"] == after[node]["proven"] == before[node]["current"]
    assert answers(pair)


def test_a_change_rolls_and_a_rollback_brings_both_back(pair: RolloutSite) -> None:
    first = look(pair)
    fault_of_the_next_release(pair, "")
    declare(pair, max_model_len=2048)
    ran = pair.deploy()
    assert ran.code == 0, ran.out
    second = look(pair)
    for node in NODES:
        assert second[node]["previous"] == first[node]["current"] != second[node]["current"]
        argv, _ = pair.engine(node, "llm")
        assert argv[argv.index("--max-model-len") + 1] == "2048"
    back = pair.pyinfra("rollback.py", "-y")
    assert back.code == 0, back.out
    third = look(pair)
    for node in NODES:
        assert third[node]["current"] == third[node]["proven"] == first[node]["current"]
        assert third[node]["previous"] == second[node]["current"]
    assert answers(pair)


def test_an_engine_whose_host_died_joins_anew_by_itself(pair: RolloutSite) -> None:
    before = look(pair)
    pair.on("h1", "podman kill vllm-llm")
    until(lambda: all(pair.state(n, "llm")["pid"] not in ("0", before[n]["pid"]) for n in NODES), 60, "two new parts")
    until(lambda: all(pair.state(n, "llm")["active"] == "active" for n in NODES), 30, "both are active")
    assert answers(pair)
    assert "another host of the engine is gone: restarted" in pair.on("a1", f"tail -1 {STATE}/llm/undo.log")


def test_an_engine_whose_head_died_joins_anew_by_itself(pair: RolloutSite) -> None:
    before = look(pair)
    pair.on("a1", "podman kill vllm-llm")
    until(lambda: all(pair.state(n, "llm")["pid"] not in ("0", before[n]["pid"]) for n in NODES), 60, "two new parts")
    until(lambda: all(pair.state(n, "llm")["active"] == "active" for n in NODES), 30, "both are active")
    assert answers(pair)


def test_stop_and_start_of_one_host_are_those_of_the_engine(pair: RolloutSite) -> None:
    stopped = pair.fleet_command("stop", "llm", "h1")
    assert stopped.code == 0, stopped.out
    assert "llm on h1 is one engine with a1: all of it" in stopped.plain
    assert {pair.state(node, "llm")["active"] for node in NODES} == {"inactive"}
    declare(pair)
    dry = pair.pyinfra("deploy.py", "--dry")
    assert "a1/llm: start" in dry.plain and "h1/llm: start" in dry.plain, dry.out
    started = pair.fleet_command("start", "llm", "a1")
    assert started.code == 0, started.out
    assert {pair.state(node, "llm")["active"] for node in NODES} == {"active"}
    assert answers(pair)


def test_both_hosts_go_back_by_themselves_where_the_controller_dies(pair: RolloutSite) -> None:
    before = look(pair)
    fault_of_the_next_release(pair, "crash-after:1")
    declare(pair, policy={**POLICY, "start_budget_s": 8, "proof_s": 8}, shm_gib=2)
    run = pair.start("deploy.py", "-y")
    try:
        until(lambda: all(pair.state(n, "llm")["pending"] for n in NODES), 60, "both are pending")
        until(lambda: pair.state("a1", "llm")["active"] == "active", 60, "it is being proven")
    finally:
        kill(run)

    def back() -> bool:
        now = {node: pair.state(node, "llm") for node in NODES}
        same = all(now[n]["current"] == now[n]["proven"] == before[n]["current"] for n in NODES)
        return same and all(one["active"] == "active" and not one["pending"] for one in now.values())

    until(back, 60, "the old release on both")
    assert answers(pair)
