"""A node watches its own engine: one that hangs is restarted after some misses, and never while it starts."""

import time

import pytest
from rollout_site import RolloutSite

from fleet.releases.command import NODE_SCRIPT, STATE

pytestmark = pytest.mark.lab
BEAT = "vllm-fleet-heartbeat@llm"
BUDGET_S = 6


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """One node with a proven release that is watched, and a key that is asked for."""
    for node in ("h1", "l1"):
        (shared_site.fleet / f"{node}.yaml").unlink()
    shared_site.nodes = ("a1",)
    policy = {"heartbeat": {"deadline_s": 1, "misses": 2}, "start_budget_s": BUDGET_S}
    secrets = {"VLLM_API_KEY": {"env": "LLM_KEY"}}
    shared_site.write(llm=shared_site.service(policy=policy, secrets=secrets, served_model_name='a "named" one'))
    ran = shared_site.deploy(LLM_KEY="key-4711")
    assert ran.code == 0, ran.out
    return shared_site


def beat(site: RolloutSite) -> str:
    """What the watching unit says when it is run once more, as its timer does."""
    # The timer starts it once a minute; systemd refuses more than five starts within ten seconds.
    site.on("a1", f"systemctl reset-failed {BEAT}.service 2>/dev/null; systemctl start {BEAT}.service")
    return site.on("a1", f"cat {STATE}/llm/misses 2>/dev/null; true")


def wait_for_budget(site: RolloutSite) -> None:
    """Until the process is older than its start budget."""
    shown = "$(systemctl show --value -p ExecMainStartTimestampMonotonic vllm-llm)"
    age = float(site.on("a1", f"echo $(( $(cut -d. -f1 /proc/uptime) - {shown} / 1000000 ))"))
    time.sleep(max(0.0, BUDGET_S + 1 - age))


def test_what_is_pending_or_not_watched_is_left_alone(rolled: RolloutSite) -> None:
    wait_for_budget(rolled)
    rolled.fault("a1", "hang")
    try:
        rolled.on("a1", f"touch {STATE}/llm/pending")
        assert beat(rolled) == ""
        rolled.on("a1", f"rm {STATE}/llm/pending")
        assert beat(rolled).startswith("1 ")
    finally:
        rolled.on("a1", f"rm -f {STATE}/llm/pending {STATE}/llm/misses")
        rolled.fault("a1")
    assert rolled.on("a1", f"{NODE_SCRIPT} heartbeat other; echo $?") == "0"


def test_an_engine_that_hangs_is_restarted_after_its_misses_and_never_within_its_start_budget(
    rolled: RolloutSite,
) -> None:
    assert rolled.on("a1", f"systemctl is-active {BEAT}.timer") == "active", "it comes with the service"
    assert beat(rolled) == ""
    wait_for_budget(rolled)
    assert beat(rolled) == "", "a token came, with the key and the name of the service"
    before = rolled.state("a1", "llm")
    rolled.fault("a1", "hang")
    try:
        assert beat(rolled).startswith("1 ")
        assert rolled.state("a1", "llm") == before
        rolled.on("a1", f"echo '1 ,7.0' >{STATE}/llm/misses")
        assert beat(rolled).startswith("1 "), "it has generated since: late, not lost"
        assert beat(rolled) == ""
        log = rolled.on("a1", f"tail -n 1 {STATE}/llm/undo.log")
        assert log.endswith("heartbeat missed 2 times: restarted")
        rolled.on("a1", "for i in $(seq 100); do systemctl is-active -q vllm-llm && break; sleep 0.1; done")
        now = rolled.state("a1", "llm")
        assert now["active"] == "active" and now["pid"] != before["pid"]
        for _ in range(3):
            assert beat(rolled) == "", "it starts: no miss counts"
        assert rolled.state("a1", "llm") == now
    finally:
        rolled.fault("a1")
    journal = rolled.on("a1", "journalctl --no-pager -o cat -t vllm-fleet-heartbeat")
    assert "missed=1 of 2: no answer within 1 s" in journal
    assert "key-4711" not in journal


def test_what_is_stopped_is_not_watched(rolled: RolloutSite) -> None:
    assert rolled.on("a1", "systemctl stop vllm-llm; systemctl is-active vllm-llm; true") == "inactive"
    assert rolled.on("a1", f"systemctl is-active {BEAT}.timer; true") == "inactive", "it goes with the service"
    assert beat(rolled) == ""
