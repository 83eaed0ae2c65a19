"""A node goes down under the eyes of a controller: the rollout ends soon, says so, and leaves the later nodes alone."""

import json
import subprocess
import time
from typing import Any

import pytest
from rollout_site import RolloutSite
from test_undo_alone import POLICY, expect, serves, set_faults

from lab import node

pytestmark = pytest.mark.lab
PATIENT = {**POLICY, "start_budget_s": 200, "proof_s": 200}
"""Only an end that is noticed ends a rollout with this policy within the time of a test."""
BOTH = ("--limit", "a1", "--limit", "h1")


@pytest.fixture
def old(site: RolloutSite) -> dict[str, dict[str, str]]:
    """The proven release of a1 and of h1."""
    site.rollout = {"batches": [1]}
    site.write(chat=site.service(policy=PATIENT))
    first = site.deploy(*BOTH)
    assert first.code == 0, first.out
    return {name: site.state(name, "chat") for name in ("a1", "h1")}


def start(site: RolloutSite, fault: str) -> "subprocess.Popen[str]":
    """A rollout that came as far as a1's new release, which has this fault."""
    set_faults(site, {"a1": fault})
    site.write(chat=site.service(policy=PATIENT, max_model_len=2048))
    run = site.start("deploy.py", "-y", *BOTH, "--data", f"report={site.root / 'report.json'}")
    deadline = time.monotonic() + 30
    wanted = "activating" if fault.startswith("slow-start") else "active"
    while not ((state := site.state("a1", "chat"))["pending"] and state["active"] == wanted):
        assert time.monotonic() < deadline, state
        time.sleep(0.2)
    return run


def results(site: RolloutSite) -> dict[str, Any]:
    """What the report tells of each node."""
    return {row["node"]: row for row in json.loads((site.root / "report.json").read_text())["results"]}


def test_a_node_that_is_silent_from_one_moment_to_the_next_is_given_up(
    site: RolloutSite, old: dict[str, dict[str, str]]
) -> None:
    run = start(site, "slow-start:100")
    site.lab.cut("a1")  # nothing leaves a machine that lost its power, not even the end of a connection
    try:
        node.power_cycle(site.lab.name, "a1")
        out, _ = run.communicate(timeout=90)
    finally:
        site.lab.join("a1")
    assert run.returncode == 1 and "the SSH connection ended" in out and "could NOT be restored from here" in out, out
    assert {name: row["status"] for name, row in results(site).items()} == {"a1": "failed", "h1": "untouched"}
    expect(site, "a1", 20, current=old["a1"]["proven"], pending="", active="active")
    assert serves(site, "a1")
    assert site.state("h1", "chat") == old["h1"]


def test_a_node_that_restarts_during_its_proof_comes_up_with_its_old_release(
    site: RolloutSite, old: dict[str, dict[str, str]]
) -> None:
    run = start(site, "hang")
    site.lab.reboot("a1", hard=True)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 1, out
    told = results(site)
    assert told["a1"]["status"] in ("failed", "restored"), "whether the boot was over when the controller asked"
    assert told["h1"]["status"] == "untouched"
    expect(site, "a1", 20, current=old["a1"]["proven"], pending="", active="active")
    assert serves(site, "a1")
    assert site.state("h1", "chat") == old["h1"]
