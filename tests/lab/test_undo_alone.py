"""The controller is killed, and nodes are rebooted, in the middle of a start: each node comes back to what was proven."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from rollout_site import Ran, RolloutSite

from fleet.command import STATE
from probes.ask import ask
from probes.evidence import Endpoint, Limits

pytestmark = pytest.mark.lab
POLICY = {"start_budget_s": 6, "proof_s": 8, "stop_grace_s": 1, "undo_margin_s": 1}
DEADLINE_S = 16
"""What the policy adds up to: the node waits this long for a proof."""
FAULTS = {"a1": "slow-start:60", "h1": "hang", "l1": "slow-start:60"}
"""Killed here, a1 loads its second release, h1 proves its second, and l1 loads the first that it ever had."""


def until(true: Callable[[], Any], limit_s: float, what: str) -> None:
    """Wait for it."""
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, f"want within {limit_s:g} s: {what}"
        time.sleep(0.2)


def set_faults(site: RolloutSite, faults: dict[str, str]) -> None:
    """The fault is part of the new release's environment: the old release does not have it."""
    for node in site.nodes:
        path = site.fleet / f"{node}.yaml"
        declared = {name: value for name, value in yaml.safe_load(path.read_text()).items() if name != "services"}
        if node in faults:
            declared["services"] = {"chat": {"env": {"VLLM_STANDIN_FAULT": faults[node]}}}
        path.write_text(yaml.safe_dump(declared))


def serves(site: RolloutSite, node: str) -> bool:
    """A completion is answered."""
    endpoint = Endpoint(url=f"http://{site.lab.node(node).address}:8000", model="chat")
    return "4" in ask(endpoint, "What is 2 + 2?", Limits(total_s=10)).text


def kill(run: "subprocess.Popen[str]") -> None:
    """The whole process group, as a power cut of the controller would."""
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()


def expect(site: RolloutSite, node: str, limit_s: float, **wanted: str) -> None:
    """What lies on a node becomes what is wanted."""
    until(lambda: wanted.items() <= site.state(node, "chat").items(), limit_s, f"{node}: {wanted}")


@pytest.fixture
def old(site: RolloutSite) -> dict[str, str]:
    """The proven release of a1 and of h1; l1 has none."""
    site.rollout = {"lock_lease_s": 5, "batches": ["100%"]}
    site.write(chat=site.service(policy=POLICY))
    first = site.deploy("--limit", "a1", "--limit", "h1")
    assert first.code == 0, first.out
    return {node: site.state(node, "chat")["proven"] for node in ("a1", "h1")}


def start_and_kill(site: RolloutSite, old: dict[str, str]) -> None:
    """Roll out a change, and kill the controller where a1 and l1 load and h1 is active and not yet proven."""
    set_faults(site, FAULTS)
    site.write(chat=site.service(policy=POLICY, max_model_len=2048))
    run = site.start("deploy.py", "-y")
    try:
        expect(site, "a1", 30, active="activating")
        expect(site, "l1", 10, active="activating")
        expect(site, "h1", 10, active="active")
        states = {node: site.state(node, "chat") for node in site.nodes}
    finally:
        kill(run)
    assert "2048" in site.on("a1", "journalctl -b -o cat -u vllm-chat"), "an engine says what it was started with"
    for node, state in states.items():
        assert state["pending"].startswith(state["current"]) and state["current"] != old.get(node), state
        assert state["proven"] == old.get(node, "")


def nothing_runs(site: RolloutSite, node: str) -> None:
    """No unit, no container, nothing that a boot would start."""
    assert site.on(node, "ls /etc/systemd/system/vllm-chat* /etc/systemd/system/*/vllm-chat* 2>/dev/null || true") == ""
    assert site.on(node, "systemctl is-active vllm-chat || true") == "inactive"
    assert site.on(node, "podman ps --all --quiet") == ""
    assert site.on(node, "systemctl --failed --plain --no-legend") == ""


@pytest.mark.parametrize("how", ["killed", "rebooted", "power-cut"])
def test_nodes_left_alone_come_back_to_what_was_proven(site: RolloutSite, old: dict[str, str], how: str) -> None:
    start_and_kill(site, old)
    if how != "killed":
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: site.lab.reboot(node, hard=how == "power-cut"), site.nodes))
    limit_s = DEADLINE_S + 20 if how == "killed" else 20
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
    slow = '#!/bin/sh\nsleep 3\nexec /usr/bin/systemd-analyze.real "$@"\n'
    site.on("h1", f"cd /usr/bin && mv systemd-analyze systemd-analyze.real && printf '{slow}' >systemd-analyze")
    try:
        site.on("h1", "chmod 755 /usr/bin/systemd-analyze")
        before = {node: site.state(node, "chat") for node in old}
        site.write(chat=site.service(policy=POLICY, max_model_len=2048))
        run = site.start("deploy.py", "-y", "--limit", "a1", "--limit", "h1")
        try:
            until(lambda: site.on("h1", "pgrep -f systemd-analyze.real || pgrep -fx 'sleep 3' || true"), 30, "staging")
        finally:
            kill(run)
        time.sleep(3.5)
        assert {node: site.state(node, "chat") for node in old} == before
        assert site.on("h1", "ls /etc/systemd/system/vllm-chat.service.d 2>/dev/null || true") == ""
    finally:
        site.on("h1", "cd /usr/bin && mv systemd-analyze.real systemd-analyze")
    until(lambda: site.deploy("--limit", "a1", "--limit", "h1").code == 0, 30, "the lock of the dead run is dead")
    for node in old:
        left = site.on(node, f"ls -A {STATE}/chat/releases").split()
        assert sorted(left) == sorted([old[node], site.state(node, "chat")["proven"]]), "nothing half staged stays"
