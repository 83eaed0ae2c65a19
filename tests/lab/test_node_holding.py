"""A verb that is called `holding RUN` is refused where the lock of the node is not that run's."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tiny_service import TinyHost, TinyRelease

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab


@pytest.fixture
def release(host: TinyHost) -> Iterator[TinyRelease]:
    """A proven release, and no lock."""
    made = TinyRelease("held", 9300)
    host.prove(made)
    yield made
    host.call("drop", made.name)
    host.run(f"rm -f {STATE}/lock")


def refused(host: TinyHost, release: TinyRelease, why: str) -> None:
    """Every verb of a rollout is refused to run-a, and the node stays as it is."""
    second = replace(release, env={"CHANGE": "1"})
    assert host.stage(second).error is None
    before = host.state(release)
    for words in (
        ("activate", release.name, second.id, "60", "run-a"),
        ("undo", release.name),
        ("stop", release.name),
        ("drop", release.name),
    ):
        reply = host.call("holding", "run-a", *words)
        assert reply.code == 3 and why in (reply.error or ""), (words, reply)
    confirmed = host.call("holding", "run-a", "confirm", release.name, release.id, stdin="{}")
    assert confirmed.code == 3 and why in (confirmed.error or "")
    assert host.state(release) == before
    host.settled_on(release)


def test_a_run_whose_lock_another_has_taken_over_changes_nothing(host: TinyHost, release: TinyRelease) -> None:
    host.call("lock", "bob@desk", "run-b", "60")
    refused(host, release, "held by bob@desk, run run-b")


def test_a_run_whose_lease_is_over_changes_nothing(host: TinyHost, release: TinyRelease) -> None:
    host.call("lock", "ann@desk", "run-a", "1")
    host.run("sleep 1.5")
    refused(host, release, "held by ann@desk, run run-a")


def test_a_run_without_a_lock_changes_nothing(host: TinyHost, release: TinyRelease) -> None:
    refused(host, release, "held by nobody")


def test_the_run_that_holds_the_lock_changes_the_node(host: TinyHost, release: TinyRelease) -> None:
    second = replace(release, env={"CHANGE": "1"})
    host.call("lock", "ann@desk", "run-a", "60")
    host.stage(second)
    assert host.call("holding", "run-a", "activate", release.name, second.id, "60", "run-a").code == 0
    assert host.call("holding", "run-a", "confirm", release.name, second.id, stdin='{"answer": "42"}').code == 0
    host.settled_on(second, previous=release.id)


def test_holding_wants_a_run_and_a_verb(host: TinyHost) -> None:
    for words in (("holding",), ("holding", "'a b'", "unlock", "run-a"), ("holding", "run-a", "reboot")):
        assert host.call(*words).code == 2, words
