"""What some bad answers among many say: exact intervals, exact comparison, and the chance to miss a fault."""

import math
from collections.abc import Callable

from fleet.frozen import Frozen

CONFIDENCE = 0.95
SIGNIFICANCE = 0.05
"""One-sided: the chance that an engine that is no worse than the baseline is called worse."""
ALLOWED = 1
"""Bad answers that are let pass where no baseline tells what is normal."""


def at_most(bad: int, trials: int, rate: float) -> float:
    """The chance of `bad` or fewer among `trials` where each is bad with chance `rate` (binomial)."""
    if bad >= trials or rate <= 0:
        return 1.0
    if bad < 0 or rate >= 1:
        return 0.0
    hit, miss = math.log(rate), math.log1p(-rate)
    terms = (
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * hit + (trials - k) * miss
        for k in range(bad + 1)
    )
    return min(1.0, math.fsum(map(math.exp, terms)))


def interval(bad: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Two-sided exact interval of the rate (Clopper and Pearson 1934). Raises ValueError unless 0 <= bad <= trials."""
    if not 0 <= bad <= trials or trials < 1:
        raise ValueError(f"want 0 to {trials} bad of at least 1 trial, found {bad} of {trials}")
    tail = (1 - confidence) / 2
    low = 0.0 if bad == 0 else _solve(lambda rate: 1 - at_most(bad - 1, trials, rate) > tail)
    high = 1.0 if bad == trials else _solve(lambda rate: at_most(bad, trials, rate) < tail)
    return low, high


def _solve(beyond: Callable[[float], bool]) -> float:
    """The rate from which on `beyond` holds, by halving."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return (low + high) / 2


def worse(bad: int, trials: int, bad_before: int, trials_before: int) -> float:
    """Fisher's exact test, one-sided: the chance of `bad` or more here if both had the same rate."""
    total, every = bad + bad_before, trials + trials_before
    ways = math.comb(every, total)
    tail = sum(math.comb(trials, k) * math.comb(trials_before, total - k) for k in range(bad, min(total, trials) + 1))
    return tail / ways


def differs(bad: int, trials: int, bad_before: int, trials_before: int) -> float:
    """Fisher's exact test, two-sided: all tables with the same margins that are no likelier than this one."""
    total = bad + bad_before
    tables = {
        k: math.comb(trials, k) * math.comb(trials_before, total - k)
        for k in range(max(0, total - trials_before), min(total, trials) + 1)
    }
    return sum(ways for ways in tables.values() if ways <= tables[bad]) / math.comb(trials + trials_before, total)


class Sample(Frozen):
    """Bad answers among trials."""

    bad: int
    trials: int

    @property
    def rate(self) -> float:
        return self.bad / self.trials

    def __str__(self) -> str:
        low, high = interval(self.bad, self.trials)
        return f"{self.bad} of {self.trials} bad, rate {self.rate:.1%} (95 %: {low:.1%} to {high:.1%})"


def degraded(now: Sample, before: Sample | None = None) -> bool:
    """Is this too bad to go on?

    Two bad answers are, unless a baseline had two or more itself and so shows that some are normal for this model; then
    only what is significantly worse. A good baseline makes nothing milder, and a significant difference always counts.
    """
    if before is not None and now.bad and worse(now.bad, now.trials, before.bad, before.trials) < SIGNIFICANCE:
        return True
    return now.bad > ALLOWED and (before is None or before.bad <= ALLOWED)


def chance_of_missing(trials: int, rate: float, before: Sample | None = None) -> float:
    """The chance that a fault which makes `rate` of the answers bad is not called degraded."""
    passing = [bad for bad in range(trials + 1) if not degraded(Sample(bad=bad, trials=trials), before)]
    return at_most(max(passing), trials, rate) if passing else 0.0
