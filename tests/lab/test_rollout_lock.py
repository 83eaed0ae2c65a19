"""Who may change the nodes: one run at a time, all of its nodes or none, for as long as it lives."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rollout_midway import ended, expect_pending, kill, slow_once, states, until
from rollout_site import Ran, RolloutSite

from fleet.releases.command import NODE_SCRIPT, STATE

pytestmark = pytest.mark.lab
LEASE_S = 6


@pytest.fixture
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """A site whose three nodes serve a proven release, of this length, and are held by nobody."""
    site = shared_site
    for node in site.nodes:
        site.on(node, f"rm -f {STATE}/lock")
    site.rollout = {"lock_lease_s": LEASE_S, "batches": ["100%"]}
    site.write(chat=site.service(max_model_len=1000))
    first = site.deploy()
    assert first.code == 0, first.out
    return site


def lengths(site: RolloutSite) -> dict[str, str]:
    """The context length of the release that each node runs, by which these tests tell releases apart."""
    argv = {node: site.plan(node, "chat")["argv"] for node in site.nodes}
    return {node: words[words.index("--max-model-len") + 1] for node, words in argv.items()}


def lock_of(site: RolloutSite, node: str) -> list[str]:
    """Holder, since, expires and run; empty where nobody holds the node."""
    text = site.on(node, f"cat {STATE}/lock 2>/dev/null || true")
    return text.split("\t") if text else []


def change(length: int, *words: str) -> tuple[str, ...]:
    """The words of a rollout that gives every release this context length."""
    return ("--data", f"max_model_len={length}", *words)


@contextmanager
def loading(site: RolloutSite, length: int, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """A rollout in the background whose engine on a1 loads until `loaded`; killed at the end where it still runs."""
    site.fault("a1", "slow-start:300")
    run = site.start("deploy.py", "-y", *change(length, "--data", "start_budget_s=200", *words))
    try:
        expect_pending(site, "a1", "activating")
        yield run
    finally:
        loaded(site)
        if run.poll() is None:
            kill(run)


def loaded(site: RolloutSite) -> None:
    """The engine on a1 needs no longer to load."""
    site.fault("a1")


def names_the_holder(ran: Ran, holder: "subprocess.Popen[str]") -> None:
    """Refused, with who holds the lock and since when."""
    assert ran.code == 1, ran.out
    assert re.search(r"found it held by \S+@\S+ pid \d+ since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", ran.plain), ran.out
    assert f"pid {holder.pid} since" in ran.plain


def test_of_two_simultaneous_rollouts_exactly_one_proceeds(rolled: RolloutSite) -> None:
    for attempt in range(3):
        before = {node: state["proven"] for node, state in states(rolled).items()}
        runs = {length: rolled.start("deploy.py", "-y", *change(length)) for length in (2000 + attempt, 3000 + attempt)}
        done = {length: ended(run) for length, run in runs.items()}
        assert sorted(ran.code for ran in done.values()) == [0, 1], "\n".join(ran.out for ran in done.values())
        winner, loser = sorted(done, key=lambda length: done[length].code)
        names_the_holder(done[loser], runs[winner])
        assert lengths(rolled) == {node: str(winner) for node in rolled.nodes}
        for node, state in states(rolled).items():
            assert (state["current"], state["pending"]) == (state["proven"], "")
            staged = rolled.on(node, f"ls -A {STATE}/chat/releases").split()
            assert set(staged) == {state["proven"], before[node]}, "nothing of the other was staged"
            assert lock_of(rolled, node) == []


def test_of_rollouts_on_overlapping_nodes_the_later_one_changes_none_of_its_own(rolled: RolloutSite) -> None:
    before = states(rolled)
    with loading(rolled, 2000, "--limit", "a1", "--limit", "h1") as run:
        other = rolled.deploy(*change(3000), "--limit", "h1", "--limit", "l1")
        names_the_holder(other, run)
        assert lock_of(rolled, "l1") == [], "what was taken is given back"
        alone = rolled.deploy(*change(3000), "--limit", "l1")
        assert alone.code == 0, f"nodes that nobody holds are free: {alone.out}"
        loaded(rolled)
        assert ended(run).code == 0
    assert lengths(rolled) == {"a1": "2000", "h1": "2000", "l1": "3000"}
    assert states(rolled)["l1"]["previous"] == before["l1"]["proven"]


def test_a_lease_is_renewed_as_long_as_the_run_lives_and_not_longer(rolled: RolloutSite) -> None:
    with loading(rolled, 2000) as run:
        began, expires = time.monotonic(), set[str]()
        while time.monotonic() - began < LEASE_S + 2 or len(expires) < 4:
            assert time.monotonic() - began < 10 * LEASE_S, "it was renewed"
            for node in rolled.nodes:
                now, *held = rolled.on(node, f"printf '%(%s)T\\t' -1; cat {STATE}/lock").split("\t")
                assert int(held[2]) >= int(now), (node, now, held)
                expires.add(held[2])
            time.sleep(1)
        names_the_holder(rolled.deploy(*change(3000)), run)
        kill(run)
        tried = rolled.on("a1", f"{NODE_SCRIPT} lock ann@desk stranger 600 || true")
        assert f"pid {run.pid}" in tried, "the lease of a dead run holds until it is over"
        loaded(rolled)
        until(lambda: int(lock_of(rolled, "a1")[2]) < int(rolled.on("a1", "date +%s")), 2 * LEASE_S, "a dead lease")
        after = rolled.deploy(*change(3000))
    assert after.code == 0, after.out
    assert set(lengths(rolled).values()) == {"3000"}


def test_a_run_whose_lock_was_taken_over_begins_no_other_turn(rolled: RolloutSite) -> None:
    before = states(rolled)
    with loading(rolled, 2000, "--data", "batches=1") as run:
        for node in rolled.nodes:
            rolled.on(node, f"rm {STATE}/lock && {NODE_SCRIPT} lock ann@desk stranger 600")
        time.sleep(LEASE_S)
        loaded(rolled)
        ran = ended(run)
    assert ran.code == 1 and "held by ann@desk" in ran.plain and "is lost" in ran.plain, ran.out
    after = states(rolled)
    assert (after["h1"], after["l1"]) == (before["h1"], before["l1"])
    assert [lock_of(rolled, node)[3] for node in rolled.nodes] == ["stranger"] * 3, "the other's lock is left alone"
    assert after["a1"]["proven"] == before["a1"]["proven"], "what it had activated was not confirmed"


def test_a_controller_that_slept_through_its_lease_changes_nothing_when_it_wakes(rolled: RolloutSite) -> None:
    with loading(rolled, 2000, "--data", "batches=1") as run:
        os.killpg(run.pid, signal.SIGSTOP)
        loaded(rolled)
        time.sleep(LEASE_S + 1)
        other = rolled.deploy(*change(3000))
        assert other.code == 0, other.out
        before = states(rolled)
        os.killpg(run.pid, signal.SIGCONT)
        ran = ended(run)
    assert ran.code == 1, ran.out
    assert states(rolled) == before, "same releases, same processes"
    assert set(lengths(rolled).values()) == {"3000"}


def test_what_changed_between_the_gates_and_the_lock_stops_the_run(rolled: RolloutSite) -> None:
    before = states(rolled)
    staged = {node: rolled.on(node, f"ls -A {STATE}/chat/releases") for node in rolled.nodes}
    with slow_once(rolled, "l1", "nvidia-smi", 4) as looking:
        run = rolled.start("deploy.py", "-y", *change(2000))
        until(looking, 60, "the first look at l1, which holds up the gates of all")
        time.sleep(1)
        rolled.on("h1", f"echo 'HAND=\"made\"' >>{STATE}/chat/current/env")
        ran = ended(run)
    assert ran.code == 1 and "h1/chat changed after the gates had judged it" in ran.plain, ran.out
    assert f"{STATE}/chat/current/env" in ran.plain
    assert states(rolled) == before
    for node in rolled.nodes:
        assert lock_of(rolled, node) == []
        assert rolled.on(node, f"ls -A {STATE}/chat/releases") == staged[node], "nothing was staged"
