"""A node on which somebody has damaged what rollouts left there."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tiny_service import TinyHost, TinyRelease

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab


@pytest.fixture
def proven(host: TinyHost) -> Iterator[TinyRelease]:
    """A release that has proven itself, with one before it."""
    first = TinyRelease("damaged", 9400)
    host.prove(first)
    second = replace(first, env={"CHANGE": "1"})
    host.prove(second)
    yield second
    host.call("drop", first.name)


def test_a_proven_release_without_its_plan_still_comes_back(host: TinyHost, proven: TinyRelease) -> None:
    host.out(f"rm {STATE}/{proven.name}/releases/{proven.id}/plan.json")
    bad = replace(proven, env={"CHANGE": "2"})
    assert host.stage(bad).code == 0 and host.activate(bad).code == 0
    reply = host.call("undo", proven.name, "testing")
    assert (reply.code, reply.values["undone"]) == (0, proven.id), reply
    assert host.answer(proven) == proven.id


def test_without_its_unit_nothing_can_come_back_and_that_is_said(host: TinyHost, proven: TinyRelease) -> None:
    bad = replace(proven, env={"CHANGE": "2"})
    assert host.stage(bad).code == 0 and host.activate(bad).code == 0
    host.out(f"rm {STATE}/{proven.name}/releases/{proven.id}/unit")
    reply = host.call("undo", proven.name, "testing")
    assert reply.code == 1 and "is not complete" in str(reply.error)
    assert host.answer(bad) == bad.id, "what runs is left alone"


def test_garbage_in_proven_does_not_cost_the_release_to_go_back_to(host: TinyHost, proven: TinyRelease) -> None:
    before = host.state(proven)["previous"]
    host.out(f"head -c 300 /dev/urandom > {STATE}/{proven.name}/proven")
    third = replace(proven, env={"CHANGE": "3"})
    host.prove(third)
    after = host.state(third)
    assert (after["proven"], after["previous"]) == (third.id, before)
    assert before in after["releases"].split()
