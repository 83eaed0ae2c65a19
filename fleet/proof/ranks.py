"""Whether numbers of one run tend to be larger than those of another: ranks, no means, and exact where few."""

import math
from collections.abc import Sequence

EXACT = 60
"""Values of both sides together up to which the chance is counted exactly; beyond that by the normal distribution."""


def rank_sum(left: Sequence[float], right: Sequence[float]) -> float:
    """Two-sided rank-sum test (Wilcoxon 1945, Mann and Whitney 1947): the chance of samples that differ as much.

    Raises ValueError where a side is empty.
    """
    ranks = _doubled_ranks(left, right)
    mean = len(left) * (len(left) + len(right) + 1)
    off = abs(sum(ranks[: len(left)]) - mean)
    if len(ranks) > EXACT:
        return min(1.0, 2 * _normal_tail(off, ranks, len(left)))
    ways = _ways(ranks, len(left))
    return sum(count for total, count in enumerate(ways) if abs(total - mean) >= off) / sum(ways)


def tends_larger(now: Sequence[float], before: Sequence[float]) -> float:
    """The same, one-sided: the chance of a `now` that ranks as high or higher if both came from one distribution."""
    ranks = _doubled_ranks(now, before)
    total = sum(ranks[: len(now)])
    if len(ranks) > EXACT:
        above = total - len(now) * (len(now) + len(before) + 1)
        tail = _normal_tail(abs(above), ranks, len(now))
        return tail if above >= 0 else 1 - tail
    ways = _ways(ranks, len(now))
    return sum(ways[total:]) / sum(ways)


def _doubled_ranks(left: Sequence[float], right: Sequence[float]) -> list[int]:
    """Twice the rank of each value of both, in their order: equal values share the mean of their ranks."""
    if not left or not right:
        raise ValueError("want values on both sides, found none")
    ordered = sorted((*left, *right))
    first = {value: at for at, value in reversed(list(enumerate(ordered, start=1)))}
    last = {value: at for at, value in enumerate(ordered, start=1)}
    return [first[value] + last[value] for value in (*left, *right)]


def _ways(ranks: Sequence[int], size: int) -> list[int]:
    """In how many ways `size` of these ranks add up to 0, 1, 2 and so on: what chance alone could have drawn.

    The generating function of the subsets, held as integers: a coefficient takes `wide` bytes, so that adding and
    shifting numbers adds and multiplies polynomials.
    """
    wide = len(ranks) // 8 + 1  # no coefficient is above 2 ** len(ranks)
    sums = [1] + [0] * size
    for seen, rank in enumerate(ranks, start=1):
        for taken in range(min(seen, size), 0, -1):
            sums[taken] += sums[taken - 1] << (8 * wide * rank)
    raw = sums[size].to_bytes((sum(ranks) + 1) * wide, "little")
    return [int.from_bytes(raw[at : at + wide], "little") for at in range(0, len(raw), wide)]


def _normal_tail(off: float, ranks: Sequence[int], size: int) -> float:
    """The chance of a doubled sum of `size` ranks that lies `off` or more above its mean: normal, ties corrected."""
    every = len(ranks)
    middle = (every + 1) / 2
    spread = sum((rank / 2 - middle) ** 2 for rank in ranks) / every
    variance = size * (every - size) / (every - 1) * spread
    if variance <= 0:
        return 1.0 if off <= 0 else 0.0
    return 0.5 * math.erfc(max(0.0, off / 2 - 0.5) / math.sqrt(2 * variance))
