"""Several questions at once, by threads: in pyinfra's process, which gevent has patched, these are greenlets.

asyncio would not do there: all greenlets share one thread, which can run one event loop, while a rollout probes many
hosts at once.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from probes.asking.exchange import Deadline, ExchangeError

T = TypeVar("T")
R = TypeVar("R")


class Abandoned(ExchangeError):
    """Nothing more was asked after the first question that failed."""


class Outcome(Generic[R]):
    """What came of one question: its answer, or the error. `began_s` is counted from the start of all."""

    def __init__(self, value: R | None, error: ExchangeError | None, began_s: float) -> None:
        self.value = value
        self.error = error
        self.began_s = began_s


def together(
    work: Callable[[T], R],
    items: Sequence[T],
    width: int,
    deadline: Deadline,
    *,
    keep_on: bool = False,
    told: Callable[[int], None] = lambda _: None,
    starts: Sequence[float] | None = None,
) -> list[Outcome[R]]:
    """`work` for every item, at most `width` at once, in order; an outcome for each that was begun.

    An ExchangeError ends the asking unless `keep_on`; so does the deadline, by which `work` itself must end as well.
    `starts` (seconds from now, rising) begins each at its own moment, however many are under way: `width` does not
    count then.
    Any other exception is raised here once all have ended.
    """
    shared = _Shared(len(items))

    def worker() -> None:
        while (number := shared.next(deadline)) is not None:
            one(number)

    def one(number: int) -> None:
        began = shared.passed_s
        try:
            outcome: Outcome[R] = Outcome(work(items[number]), None, began)
        except ExchangeError as error:
            outcome = Outcome(None, error, began)
            shared.stopped = shared.stopped or not keep_on
        except BaseException as error:
            shared.raised.append(error)
            shared.stopped = True
            return
        told(shared.done(number, outcome))

    threads: list[threading.Thread] = []
    if starts is None:
        threads = [threading.Thread(target=worker, daemon=True) for _ in range(min(width, len(items)))]
        for thread in threads:
            thread.start()
    else:
        for number, start in enumerate(starts):
            time.sleep(max(0.0, min(start - shared.passed_s, deadline.left_s)))
            if shared.stopped or deadline.left_s <= 0:
                break
            threads.append(threading.Thread(target=one, args=(number,), daemon=True))
            threads[-1].start()
    for thread in threads:
        thread.join(max(0.0, deadline.left_s) + 5)  # each exchange ends by the deadline; this is for what cannot be
    if shared.raised:
        raise shared.raised[0]
    return [shared.outcomes[number] for number in sorted(shared.outcomes)]


class _Shared:
    """What the threads of one call share."""

    def __init__(self, count: int) -> None:
        self.outcomes: dict[int, Outcome] = {}
        self.raised: list[BaseException] = []
        self.stopped = False
        self._count = count
        self._given = 0
        self._guard = threading.Lock()
        self._start = time.monotonic()

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self._start

    def next(self, deadline: Deadline) -> int | None:
        with self._guard:
            if self.stopped or self._given >= self._count or deadline.left_s <= 0:
                return None
            self._given += 1
            return self._given - 1

    def done(self, number: int, outcome: Outcome) -> int:
        """How many are done now."""
        with self._guard:
            self.outcomes[number] = outcome
            return len(self.outcomes)
