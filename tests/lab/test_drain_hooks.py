"""The owner's hooks run where they are declared; what they cannot do stops the rollout, and what is cut is reported."""

from typing import Any

import pytest
from proxy import Clients
from rollout_midway import results, set_faults, states, until
from rollout_site import RolloutSite

from probes.asking.metrics import running_requests

pytestmark = pytest.mark.lab
NOTES = "/run/hooks"


def note(site: RolloutSite, word: str, more: str = "") -> dict[str, Any]:
    """A hook on the node that notes what it was told, and what the service's unit is at that moment."""
    script = f"echo {word} {{node}} {{service}} {{address}} {{port}} $(systemctl is-active vllm-chat) >>{NOTES}; {more}"
    return {"command": ["/bin/sh", "-c", script], "on": "node"}


def told(site: RolloutSite, node: str) -> list[str]:
    """What the hooks of a node noted in the last rollout."""
    return site.on(node, f"cat {NOTES} 2>/dev/null; rm -f {NOTES}").splitlines()


def report(site: RolloutSite) -> tuple[str, str]:
    """`--data` for the report that `results` reads."""
    return ("--data", f"report={site.root / 'report.json'}")


@pytest.fixture
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """All nodes serve a proven release, and are rolled one by one."""
    shared_site.rollout = {"batches": [1]}
    set_faults(shared_site, {})
    shared_site.write(chat=shared_site.service())
    ran = shared_site.deploy()
    assert ran.code == 0, ran.out
    return shared_site


def test_hooks_on_the_node_run_around_the_change(rolled: RolloutSite) -> None:
    hooks = {"drain": note(rolled, "drain"), "undrain": note(rolled, "undrain")}
    rolled.write(chat=rolled.service(max_model_len=2000, policy=hooks))
    ran = rolled.deploy()
    assert ran.code == 0, ran.out
    for node in rolled.nodes:
        words = f"{node} chat {rolled.lab.node(node).address} 8000 active"
        assert told(rolled, node) == [f"drain {words}", f"undrain {words}"]


def test_a_drain_hook_that_fails_stops_the_rollout_before_anything_changed(rolled: RolloutSite) -> None:
    before = states(rolled)
    failing = {"drain": note(rolled, "drain", "echo no such backend >&2; exit 3"), "undrain": note(rolled, "undrain")}
    rolled.write(chat=rolled.service(max_model_len=2000, policy=failing))
    ran = rolled.deploy(*report(rolled))
    assert ran.code == 1 and "not drained, nothing changed" in ran.plain and "no such backend" in ran.plain, ran.out
    assert states(rolled) == before
    assert [line.split()[0] for line in told(rolled, "a1")] == ["drain", "undrain"], "what was half done is taken back"
    assert told(rolled, "h1") == told(rolled, "l1") == []
    assert [results(rolled)[node]["status"] for node in rolled.nodes] == ["failed", "untouched", "untouched"]


def test_a_replica_that_does_not_come_back_into_traffic_is_the_last_that_is_taken(rolled: RolloutSite) -> None:
    before = states(rolled)
    rolled.write(chat=rolled.service(max_model_len=2000, policy={"undrain": {"command": ["/bin/false"]}}))
    ran = rolled.deploy(*report(rolled))
    assert ran.code == 1 and "NOT back in traffic" in ran.plain, ran.out
    after = states(rolled)
    assert after["a1"]["proven"] == after["a1"]["current"] != before["a1"]["proven"], "its release is good"
    assert (after["h1"], after["l1"]) == (before["h1"], before["l1"])
    assert [results(rolled)[node]["status"] for node in rolled.nodes] == ["proven", "untouched", "untouched"]


def test_a_restored_release_comes_back_into_traffic(rolled: RolloutSite) -> None:
    set_faults(rolled, {"a1": "completion-500"})
    hooks = {"drain": note(rolled, "drain"), "undrain": note(rolled, "undrain")}
    rolled.write(chat=rolled.service(max_model_len=2000, policy=hooks))
    ran = rolled.deploy(*report(rolled))
    assert ran.code == 1 and results(rolled)["a1"]["status"] == "restored", ran.out
    assert [line.split()[0] for line in told(rolled, "a1")] == ["drain", "undrain"]


def test_streams_that_outlast_the_drain_are_cut_and_reported(rolled: RolloutSite) -> None:
    only, address = ("--limit", "a1"), rolled.lab.node("a1").address
    slow = rolled.service(policy={"stop_grace_s": 1, "proof": ["completion"]})
    slow["env"] = {**slow["env"], "VLLM_STANDIN_TOKENS_PER_S": "2"}  # twenty seconds a stream
    rolled.write(chat=slow)
    assert rolled.deploy(*only).code == 0
    rolled.write(chat=rolled.service(policy={"drain": {"command": ["/bin/true"]}, "drain_s": 1}))
    with Clients(8000, 1, host=address) as clients:
        until(lambda: running_requests(f"http://{address}:8000") == 1, 10, "a stream flows")
        ran = rolled.deploy(*only, *report(rolled))
    assert ran.code == 0, ran.out
    assert clients.outcomes[0] == "cut"
    assert "1 requests ran at the stop and were cut" in results(rolled)["a1"]["proof"], ran.out


def test_the_only_proven_replica_is_not_taken(rolled: RolloutSite) -> None:
    keep = {"last_replica": "keep"}
    rolled.on("h1", "/usr/local/lib/vllm-fleet/node stop chat")
    before = states(rolled)
    rolled.write(chat=rolled.service(max_model_len=2000, policy=keep))
    only = ("--limit", "a1", "--limit", "h1")
    ran = rolled.deploy(*only)
    assert ran.code == 1 and "last-replica" in ran.plain and "nothing was changed" in ran.plain, ran.out
    assert states(rolled) == before
    rolled.on("h1", "/usr/local/lib/vllm-fleet/node start chat")
    ran = rolled.deploy(*only)
    assert ran.code == 0, ran.out


def test_a_replica_that_became_the_last_during_the_rollout_is_not_taken(rolled: RolloutSite) -> None:
    rolled.rollout = {"batches": [1], "look_again_s": 0}
    stop = {"undrain": {"command": ["systemctl", "stop", "vllm-chat"], "on": "node"}}
    rolled.write(chat=rolled.service(max_model_len=2000, policy={"last_replica": "keep", **stop}))
    before = states(rolled)
    ran = rolled.deploy("--limit", "a1", "--limit", "h1", *report(rolled))
    assert ran.code == 1 and "a gate that passed fails now: last-replica" in ran.plain, ran.out
    assert [results(rolled)[node]["status"] for node in ("a1", "h1")] == ["proven", "untouched"]
    assert states(rolled)["h1"] == before["h1"]
