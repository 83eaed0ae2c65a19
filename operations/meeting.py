"""Hosts that take a step together: the last that comes does it for all, the others wait and get the same answer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gevent.event import AsyncResult


@dataclass
class Meeting:
    """One step of some hosts."""

    names: frozenset[str]
    came: set[str] = field(default_factory=set)
    done: Any = field(default_factory=AsyncResult)


class Meetings:
    """All steps of one run that several hosts take together, by service."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, frozenset[str]], Meeting] = {}
        self._left: set[str] = set()

    def hold(self, service: str, names: frozenset[str], name: str, work: Callable[[], bool]) -> bool | None:
        """What `work` gave, or raises what it raised; None where a host went without coming here."""
        meeting = self._all.setdefault((service, names), Meeting(names))
        meeting.came.add(name)
        if names == meeting.came:
            try:
                meeting.done.set(work())
            except BaseException as error:
                meeting.done.set_exception(error)
                raise
        elif names & self._left:
            meeting.done.set(None)
        result: bool | None = meeting.done.get()
        return result

    def leave(self, name: str) -> None:
        """This host takes no more steps: nobody shall wait for it."""
        self._left.add(name)
        for meeting in self._all.values():
            if name in meeting.names - meeting.came and not meeting.done.ready():
                meeting.done.set(None)
