"""The best cut of a model's layers into pipeline stages: exact, for any cost of a stage, also with forbidden cuts."""

from bisect import bisect_left
from collections.abc import Callable

from fleet.layouts.boundary import Partition

Tokens = Callable[[int, int, int], int]
"""(stage, first layer, end) -> KV tokens that the stage holds with the layers first..end-1; negative: too few by it."""
Weight = Callable[[int, int, int], int]
"""(stage, first layer, end) -> compute of the stage in any unit, for the tie-break."""
MayStart = Callable[[int], bool]
"""May a later stage start on this layer?"""
Range = tuple[int, int]
Cut = tuple[int, int, int]
"""First layer, end, weight."""

_NONE = -(1 << 62)


def best_partition(
    layers: int,
    stages: int,
    tokens: Tokens,
    weight: Weight,
    may_start: MayStart = lambda layer: True,
    enough: int | None = None,
    monotone: bool = False,
) -> Partition | None:
    """The partition with the largest pool, which is the smallest `tokens` of all stages; None where no cut is allowed.

    Ties: the smallest compute of the busiest stage, then the smallest sum of squares of the stages' compute (the most
    even), then the shortest first stages. `enough` tokens count as well as more, so that a pool that suffices leaves
    the choice to balance. Every stage has a layer. Exact: each criterion is solved over all partitions that are best
    in the ones before it. `monotone` promises that a stage with fewer of the same layers never holds fewer tokens;
    the answer is the same, found with far fewer calls of `tokens`.
    """
    starts = [0, *(layer for layer in range(1, layers) if may_start(layer))]
    if not 1 <= stages <= len(starts):
        return None

    def pool(stage: int, first: int, end: int) -> int:
        held = tokens(stage, first, end)
        return held if enough is None else min(held, enough)

    found = _shorter(layers, stages, starts, pool, weight) if monotone else None
    found = found or _any(layers, stages, starts, pool)
    if found is None:
        return None
    cuts = [[(first, end, weight(stage, first, end)) for first, end in row] for stage, row in enumerate(found)]
    busiest = _smallest_maximum(layers, cuts)
    return _most_even([[cut for cut in row if cut[2] <= busiest] for row in cuts])


def _any(layers: int, stages: int, starts: list[int], pool: Tokens) -> list[list[Range]] | None:
    """For each stage the ranges that are part of no partition with a smaller pool than the best; None: no partition."""
    best = _largest_minimum(layers, stages, starts, pool)
    if best == _NONE:
        return None
    found = []
    for stage in range(stages):
        firsts = starts[1:] if stage else [0]
        ends = [layers] if stage == stages - 1 else starts[1:]
        found.append([(a, b) for a in firsts for b in ends if a < b and pool(stage, a, b) >= best])
    return found


def _largest_minimum(layers: int, stages: int, starts: list[int], pool: Tokens) -> int:
    """The largest possible minimum over the stages. A range is asked for only where it could still be better."""
    before = {0: 1 << 62}
    for stage in range(stages):
        now: dict[int, int] = {}
        for end in [layers] if stage == stages - 1 else starts[1:]:
            best = _NONE
            for first, held in sorted(((f, h) for f, h in before.items() if f < end), key=lambda way: -way[1]):
                if held <= best:
                    break
                best = max(best, min(held, pool(stage, first, end)))
            if best > _NONE:
                now[end] = best
        before = now
    return before.get(layers, _NONE)


def _shorter(layers: int, stages: int, starts: list[int], pool: Tokens, weight: Weight) -> list[list[Range]] | None:
    """The same for monotone stages, without ranges whose compute is larger than it must be; None: cannot tell."""
    rooms = _Monotone(layers, stages, starts, pool)
    most = rooms.best(rooms.evenly())
    some = None if most is None else rooms.latest(most)
    if most is None or some is None:
        return None

    def lightness(stage: int, first: int, end: int) -> int:
        return -weight(stage, first, end) if pool(stage, first, end) >= most else _NONE

    even = _Monotone(layers, stages, starts, lightness)
    busiest = even.best([*some, len(starts)])
    return None if busiest is None else even.between(busiest)


class _Monotone:
    """The best pool, where fewer layers never hold fewer tokens: a stage that reaches farther leaves less to others.

    That holds as long as each stage could take the smallest possible range anywhere (no stage may be empty). Edges are
    the first layers where a stage may start, and the end; stages are told by indices into them.
    """

    def __init__(self, layers: int, stages: int, starts: list[int], pool: Tokens) -> None:
        self.stages, self.pool = stages, pool
        self.edges = [*starts, layers]
        self.last = len(starts)

    def held(self, stage: int, first: int, end: int) -> int:
        """Tokens of a stage between two edges."""
        return self.pool(stage, self.edges[first], self.edges[end])

    def evenly(self) -> list[int]:
        """The edges of a partition that is about as even as the allowed starts make it."""
        found = [0]
        for stage in range(1, self.stages):
            wanted = bisect_left(self.edges, self.edges[-1] * stage / self.stages)
            found.append(max(found[-1] + 1, min(wanted, self.last - self.stages + stage)))
        return [*found, self.last]

    def best(self, some: list[int]) -> int | None:
        """Bisects the pool itself, from that of `some` partition (its edges) to what the outer stages hold at most.

        None where the best pool may be one at which the smallest range of some stage is too large already.
        """
        stages, last = self.stages, self.last
        low = min(self.held(stage, some[stage], some[stage + 1]) for stage in range(stages))
        high = min(self.held(0, 0, 1), self.held(stages - 1, last - 1, last)) if stages > 1 else low
        smallest = min((self.held(s, at, at + 1) for s in range(1, stages - 1) for at in range(1, last)), default=high)
        if low > smallest or (high > smallest and self.latest(smallest) is not None):
            return None
        high = min(high, smallest)
        step = max(abs(low) // 256, 1)  # the first partition is often close: look near it before looking far
        while low < high:
            middle = min(low + step, (low + high + 1) // 2)
            if self.latest(middle) is not None:
                low, step = middle, 2 * step
            else:
                high = middle - 1
        return low if self.latest(low) is not None else None

    def latest(self, least: int) -> list[int] | None:
        """The latest start of each stage at which all before it hold so many tokens; None where that is too many."""
        found = [0]
        for stage in range(self.stages - 1):
            first, beyond = found[-1], self.last - (self.stages - 2 - stage)
            low, high = first, beyond - 1  # the farthest end that still holds enough lies here; `first` is none
            while low < high:
                middle = (low + high + 1) // 2
                if self.held(stage, first, middle) >= least:
                    low = middle
                else:
                    high = middle - 1
            if low == first:
                return None
            found.append(low)
        return found if self.held(self.stages - 1, found[-1], self.last) >= least else None

    def earliest(self, least: int) -> list[int]:
        """The earliest start of each stage at which it and all after it hold so many tokens; that much is possible."""
        found = [self.last]
        for stage in range(self.stages - 1, 0, -1):
            low, high = stage, found[0] - 1
            while low < high:
                middle = (low + high) // 2
                if self.held(stage, middle, found[0]) >= least:
                    high = middle
                else:
                    low = middle + 1
            found.insert(0, low)
        return [0, *found]

    def between(self, least: int) -> list[list[Range]] | None:
        """All ranges that can be part of a partition with so many tokens."""
        latest, earliest = self.latest(least), self.earliest(least)
        if latest is None:
            return None
        latest = [*latest, self.last]
        found = []
        for stage in range(self.stages):
            firsts = range(earliest[stage], latest[stage] + 1)
            ends = range(earliest[stage + 1], latest[stage + 1] + 1)
            pairs = [(a, b) for a in firsts for b in ends if a < b and self.held(stage, a, b) >= least]
            found.append([(self.edges[a], self.edges[b]) for a, b in pairs])
        return found


def _smallest_maximum(layers: int, stages: list[list[Cut]]) -> int:
    before = {0: 0}
    for row in stages:
        now: dict[int, int] = {}
        for first, end, weight in row:
            if first in before:
                busiest = max(before[first], weight)
                if busiest < now.get(end, busiest + 1):
                    now[end] = busiest
        before = now
    return before[layers]


def _most_even(stages: list[list[Cut]]) -> Partition:
    """The partition with the smallest sum of squares; among equals the one whose first stages are shortest."""
    before: dict[int, tuple[int, Partition]] = {0: (0, ())}
    for row in stages:
        now: dict[int, tuple[int, Partition]] = {}
        for first, end, weight in row:
            if first in before:
                uneven, parts = before[first]
                way = uneven + weight * weight, (*parts, end - first)
                if end not in now or way < now[end]:
                    now[end] = way
        before = now
    (found,) = before.values()
    return found[1]
