"""The controller is killed, and nodes reboot, in the middle of a start: each node comes back to what was proven."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from rollout_midway import expect, expect_pending, kill, serves, set_faults, slow_once, states, until
from rollout_site import RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab
POLICY = {"start_budget_s": 10, "proof_s": 8, "stop_grace_s": 1, "undo_margin_s": 1, "proof": ["completion"]}
DEADLINE_S = 20
"""What the policy adds up to: the node waits this long for a proof."""
LOAD, ASKED = "slow-start:60", "hang"
"""Killed here, a1 loads its second release, h1 proves its second, and l1 does one of both with its first ever."""


@pytest.fixture
def old(site: RolloutSite) -> dict[str, str]:
    """The proven release of a1 and of h1; l1 has none."""
    site.rollout = {"lock_lease_s": 5, "batches": ["100%"]}
    site.write(chat=site.service(policy=POLICY))
    first = site.deploy("--limit", "a1", "--limit", "h1")
    assert first.code == 0, first.out
    return {node: site.state(node, "chat")["proven"] for node in ("a1", "h1")}


def start_and_kill(site: RolloutSite, old: dict[str, str], first: str, budget_s: int) -> None:
    """Roll out a change, and kill the controller where every node has activated its release, and none is proven."""
    set_faults(site, {"a1": LOAD, "h1": ASKED, "l1": first})
    site.write(chat=site.service(policy={**POLICY, "start_budget_s": budget_s}, max_model_len=2048))
    run = site.start("deploy.py", "-y")
    try:
        expect_pending(site, "a1", "activating")
        expect_pending(site, "l1", "activating" if first == LOAD else "active")
        expect_pending(site, "h1", "active")
        found = states(site)
    finally:
        kill(run)
    assert "2048" in site.on("a1", "journalctl -b -o cat -u vllm-chat"), "an engine says what it was started with"
    for node, state in found.items():
        assert state["pending"].startswith(state["current"]) and state["current"] != old.get(node), state
        assert state["proven"] == old.get(node, "")


def nothing_runs(site: RolloutSite, node: str) -> None:
    """No unit, no container, nothing that a boot would start."""
    assert site.on(node, "ls /etc/systemd/system/vllm-chat* /etc/systemd/system/*/vllm-chat* 2>/dev/null || true") == ""
    assert site.on(node, "systemctl is-active vllm-chat || true") == "inactive"
    assert site.on(node, "podman ps --all --quiet") == ""
    assert site.on(node, "systemctl --failed --plain --no-legend") == ""


@pytest.mark.parametrize(("how", "first"), [("killed", ASKED), ("rebooted", LOAD), ("power-cut", ASKED)])
def test_nodes_left_alone_come_back_to_what_was_proven(
    site: RolloutSite, old: dict[str, str], how: str, first: str
) -> None:
    start_and_kill(site, old, first, budget_s=POLICY["start_budget_s"] if how == "killed" else 100)
    if how != "killed":
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: site.lab.reboot(node, hard=how == "power-cut"), site.nodes))
    limit_s = DEADLINE_S + 60 if how == "killed" else 60
    for node, release in old.items():
        expect(site, node, limit_s, current=release, proven=release, pending="", active="active")
        assert serves(site, node)
        argv, environment = site.engine(node, "chat")
        assert argv[argv.index("--max-model-len") + 1] == "4096" and "VLLM_STANDIN_FAULT" not in environment
        told = "no proof before the deadline" if how == "killed" else "the node was restarted before the proof"
        undone = site.on(node, f"cat {STATE}/chat/undo.log").split("\t")
        assert undone[1] == told and undone[3] == release
    expect(site, "l1", limit_s, current="", proven="", pending="", active="inactive")
    nothing_runs(site, "l1")
    if how != "killed":
        for node in site.nodes:
            assert "2048" not in site.on(node, "journalctl -b -o cat -u vllm-chat"), "the new release never ran again"
    set_faults(site, {})
    again = site.deploy()
    assert again.code == 0, f"the lock of the dead run is dead: {again.out}"
    for node in site.nodes:
        state = site.state(node, "chat")
        assert state["current"] == state["proven"] != old.get(node) and serves(site, node)


def test_a_controller_killed_while_it_stages_has_changed_nothing_that_serves(
    site: RolloutSite, old: dict[str, str]
) -> None:
    before = states(site)
    site.write(chat=site.service(policy=POLICY, max_model_len=2048))
    with slow_once(site, "h1", "systemd-analyze", 3) as staging:
        run = site.start("deploy.py", "-y", "--limit", "a1", "--limit", "h1")
        try:
            until(staging, 60, "the unit is verified on h1")
        finally:
            kill(run)
        time.sleep(4)
        assert states(site) == before
    until(lambda: site.deploy("--limit", "a1", "--limit", "h1").code == 0, 60, "the lock of the dead run is dead")
    for node in old:
        left = site.on(node, f"ls -A {STATE}/chat/releases").split()
        assert sorted(left) == sorted([old[node], site.state(node, "chat")["proven"]]), "nothing half staged stays"
