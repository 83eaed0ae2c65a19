"""A node goes down under the eyes of a controller: the rollout ends soon, says so, and leaves the later nodes alone."""

import subprocess

import pytest
from rollout_midway import ended, expect, expect_pending, results, serves, set_faults
from rollout_site import RolloutSite

from lab import node

pytestmark = pytest.mark.lab
PATIENT = {"start_budget_s": 200, "proof_s": 200}
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
    expect_pending(site, "a1", "activating" if fault.startswith("slow-start") else "active")
    return run


def test_a_node_that_is_silent_from_one_moment_to_the_next_is_given_up(
    site: RolloutSite, old: dict[str, dict[str, str]]
) -> None:
    run = start(site, "slow-start:100")
    site.lab.cut("a1")  # nothing leaves a machine that lost its power, not even the end of a connection
    try:
        node.power_cycle(site.lab.name, "a1")
        ran = ended(run)
    finally:
        site.lab.join("a1")
    assert ran.code == 1 and "the SSH connection ended" in ran.plain, ran.out
    assert "could NOT be restored from here" in ran.plain
    assert {name: row["status"] for name, row in results(site).items()} == {"a1": "failed", "h1": "untouched"}
    expect(site, "a1", 60, current=old["a1"]["proven"], pending="", active="active")
    assert serves(site, "a1")
    assert site.state("h1", "chat") == old["h1"]


def test_a_node_that_restarts_during_its_proof_comes_up_with_its_old_release(
    site: RolloutSite, old: dict[str, dict[str, str]]
) -> None:
    run = start(site, "hang")
    site.lab.reboot("a1", hard=True)
    ran = ended(run)
    assert ran.code == 1, ran.out
    told = results(site)
    assert told["a1"]["status"] in ("failed", "restored"), "whether the boot was over when the controller asked"
    assert told["h1"]["status"] == "untouched"
    expect(site, "a1", 60, current=old["a1"]["proven"], pending="", active="active")
    assert serves(site, "a1")
    assert site.state("h1", "chat") == old["h1"]
