"""Ctrl-C, SIGTERM and a closed terminal never leave a rollout with exit code 0, nor a node in between."""

import fcntl
import os
import signal
import subprocess
import termios
import time

import pytest
from rollout_midway import ended, expect_pending, results, serves, slow_once, states, until
from rollout_site import BIN, PROJECT, RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab


@pytest.fixture
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """All nodes serve a proven release and are rolled one by one; a1's next one loads until its fault is taken back."""
    site = shared_site
    site.rollout = {"batches": [1]}
    for node in site.nodes:
        site.on(node, f"rm -f {STATE}/lock")
        site.fault(node)
    site.write(chat=site.service(max_model_len=1000))
    ran = site.deploy()
    assert ran.code == 0, ran.out
    site.fault("a1", "slow-start:300")
    site.write(chat=site.service(max_model_len=2000, policy={"start_budget_s": 100}))
    return site


def test_the_turn_that_has_begun_is_ended_and_no_other_begins(rolled: RolloutSite) -> None:
    before = states(rolled)
    run = rolled.start("deploy.py", "-y", "--data", f"report={rolled.root / 'report.json'}")
    expect_pending(rolled, "a1", "activating")
    os.killpg(run.pid, signal.SIGTERM)
    time.sleep(1)
    rolled.fault("a1")
    ran = ended(run)
    assert ran.code == 1 and "stopped: interrupted by SIGTERM" in ran.plain, ran.out
    assert [results(rolled)[node]["status"] for node in rolled.nodes] == ["proven", "untouched", "untouched"]
    after = states(rolled)
    assert after["a1"]["proven"] == after["a1"]["current"] != before["a1"]["proven"] and serves(rolled, "a1")
    assert (after["h1"], after["l1"]) == (before["h1"], before["l1"])
    for node in rolled.nodes:
        assert rolled.on(node, f"ls {STATE}/lock 2>/dev/null || true") == "", "the locks are given back"


def test_asked_twice_it_leaves_at_once_and_says_what_is_unproven(rolled: RolloutSite) -> None:
    """Also where the turn holds the only place of pyinfra's pool, through which it would say good-bye to the hosts."""
    before = states(rolled)
    run = rolled.start("deploy.py", "-y", "--parallel", "1", "--data", f"report={rolled.root / 'report.json'}")
    expect_pending(rolled, "a1", "activating")
    began = time.monotonic()
    for _ in range(2):
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does it
        time.sleep(0.5)
    ran = ended(run)
    assert ran.code == 1 and time.monotonic() - began < 60, ran.out
    told = results(rolled)
    assert [told[node]["status"] for node in rolled.nodes] == ["unproven", "untouched", "untouched"]
    assert "the node puts back what was proven by itself" in told["a1"]["proof"]
    state = rolled.state("a1", "chat")
    assert state["pending"].startswith(state["current"]) and state["proven"] == before["a1"]["proven"]


def test_before_the_lock_it_leaves_at_once(rolled: RolloutSite) -> None:
    before = states(rolled)
    with slow_once(rolled, "l1", "nvidia-smi", 5) as looking:
        run = rolled.start("deploy.py", "-y")
        until(looking, 60, "the gates wait for l1")
        os.killpg(run.pid, signal.SIGINT)
        ran = ended(run)
    assert ran.code == 1 and "SIGINT: left before anything was changed" in ran.plain, ran.out
    assert states(rolled) == before


def test_where_the_terminal_is_closed_the_turn_is_ended_and_the_report_tells_the_whole_of_it(
    rolled: RolloutSite,
) -> None:
    site, before = rolled, states(rolled)
    service = site.service(max_model_len=3000, policy={"start_budget_s": 100})
    site.write(chat={**service, "env": {**service["env"], "VLLM_STANDIN_FAULT": "crash-start"}})
    ours, theirs = os.openpty()
    run = subprocess.Popen(
        [str(BIN / "pyinfra"), "inventory.py", "deploy.py", "-y", "--data", f"report={site.root / 'report.json'}"],
        cwd=PROJECT,
        env=site.environment(),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    expect_pending(site, "a1", "activating")
    os.close(ours)
    time.sleep(1)
    site.fault("a1")
    assert run.wait(100) == 1
    told = results(site)
    assert [told[node]["status"] for node in site.nodes] == ["restored", "untouched", "untouched"], told
    # What the node says of the failed start cannot be shown any more; it is read to its end all the same.
    assert "the worker died while it loaded the model" in told["a1"]["proof"]
    assert f"{before['a1']['proven']} was restored and proved itself" in told["a1"]["proof"]
    state = site.state("a1", "chat")
    assert state["pending"] == "" and state["current"] == before["a1"]["proven"] and serves(site, "a1")
    for node in site.nodes:
        assert site.on(node, f"ls {STATE}/lock 2>/dev/null || true") == "", "the locks are given back"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_start_that_is_interrupted_leaves_no_lock(rolled: RolloutSite, number: signal.Signals) -> None:
    rolled.on("a1", "systemctl stop vllm-chat")
    run = subprocess.Popen(
        [str(BIN / "fleet"), "start", "chat"],
        cwd=PROJECT,
        env=rolled.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until(lambda: rolled.state("a1", "chat")["active"] == "activating", 60, "a1 starts")
    run.send_signal(number)
    ran = ended(run)
    assert (ran.code, ran.plain.strip()) == (1, f"{number.name}: each node ends by itself the start that it began")
    rolled.fault("a1")
    for node in rolled.nodes:
        assert rolled.on(node, f"ls {STATE}/lock 2>/dev/null || true") == "", "the locks are given back"
