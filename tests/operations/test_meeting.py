"""Hosts that take a step together: one does it, all get its answer, and nobody waits for one that does not come."""

import gevent
import pytest

from operations.meeting import Meetings

PAIR = frozenset({"a1", "a2"})


def test_the_last_that_comes_does_it_once_for_all() -> None:
    meetings, done = Meetings(), list[str]()

    def work(name: str) -> bool:
        done.append(name)
        return True

    jobs = [gevent.spawn(meetings.hold, "glm", PAIR, name, lambda name=name: work(name)) for name in ("a2", "a1")]
    gevent.joinall(jobs, timeout=5)
    assert [job.value for job in jobs] == [True, True] and done == ["a1"]


def test_who_waits_is_told_where_another_goes_away() -> None:
    meetings = Meetings()
    waiting = gevent.spawn(meetings.hold, "glm", PAIR, "a1", lambda: True)
    gevent.sleep(0)
    meetings.leave("a3")
    gevent.sleep(0)
    assert not waiting.ready()
    meetings.leave("a2")
    assert waiting.get(timeout=5) is None


def test_who_comes_after_another_went_away_does_not_wait() -> None:
    meetings = Meetings()
    meetings.leave("a2")
    assert meetings.hold("glm", PAIR, "a1", lambda: True) is None


def test_what_one_raises_all_get() -> None:
    meetings = Meetings()

    def work() -> bool:
        raise RuntimeError("no")

    waiting = gevent.spawn(meetings.hold, "glm", PAIR, "a1", work)
    gevent.sleep(0)
    with pytest.raises(RuntimeError, match="no"):
        meetings.hold("glm", PAIR, "a2", work)
    with pytest.raises(RuntimeError, match="no"):
        waiting.get(timeout=5)


def test_a_host_that_leaves_after_its_step_disturbs_nobody() -> None:
    meetings = Meetings()
    first = gevent.spawn(meetings.hold, "glm", PAIR, "a1", lambda: True)
    gevent.sleep(0)
    assert meetings.hold("glm", PAIR, "a2", lambda: True) is True
    meetings.leave("a2")
    assert first.get(timeout=5) is True
