"""The best cut of a model's layers into pipeline stages: exact, for any cost of a stage, also with forbidden cuts."""

from collections.abc import Callable, Iterator

from fleet.boundary import Partition

Tokens = Callable[[int, int, int], int]
"""(stage, first layer, end) -> KV tokens that the stage holds with the layers first..end-1; negative: too few by it."""
Weight = Callable[[int, int, int], int]
"""(stage, first layer, end) -> compute of the stage in any unit, for the tie-break."""
MayStart = Callable[[int], bool]
"""May a later stage start on this layer?"""

_NONE = -(1 << 62)


def best_partition(
    layers: int,
    stages: int,
    tokens: Tokens,
    weight: Weight,
    may_start: MayStart = lambda layer: True,
    enough: int | None = None,
) -> Partition | None:
    """The partition with the largest pool, which is the smallest `tokens` of all stages; None where no cut is allowed.

    Ties: the smallest compute of the busiest stage, then the smallest sum of squares of the stages' compute (the most
    even), then the shortest first stages. `enough` tokens count as well as more, so that a pool that suffices leaves
    the choice to balance. Every stage has a layer. Exact: each criterion is solved over all partitions that are best
    in the ones before it. `tokens` is asked at most twice for each of the `stages` x `layers`^2 / 2 ranges.
    """
    if not 1 <= stages <= layers:
        return None
    starts = [0, *(layer for layer in range(1, layers) if may_start(layer))]

    def pool(stage: int, first: int, end: int) -> int:
        held = tokens(stage, first, end)
        return held if enough is None else min(held, enough)

    best = _largest_minimum(layers, stages, starts, pool)
    if best == _NONE:
        return None
    ranges = _ranges(layers, stages, starts)
    open_ = [
        [(first, end, weight(stage, first, end)) for first, end in row if pool(stage, first, end) >= best]
        for stage, row in enumerate(ranges)
    ]
    busiest = _smallest_maximum(layers, open_)
    return _most_even([[cut for cut in row if cut[2] <= busiest] for row in open_])


def _ends(stage: int, stages: int, layers: int, starts: list[int]) -> list[int]:
    """Where a stage may end: on the start of the next one; the last ends with the model."""
    return [layers] if stage == stages - 1 else starts[1:]


def _ranges(layers: int, stages: int, starts: list[int]) -> Iterator[list[tuple[int, int]]]:
    for stage in range(stages):
        firsts = [0] if stage == 0 else starts[1:]
        ends = _ends(stage, stages, layers, starts)
        yield [(first, end) for first in firsts for end in ends if first < end]


def _largest_minimum(layers: int, stages: int, starts: list[int], pool: Tokens) -> int:
    """The largest possible minimum over the stages. A cut is asked for only where it could still be better."""
    before = {0: 1 << 62}
    for stage in range(stages):
        now: dict[int, int] = {}
        for end in _ends(stage, stages, layers, starts):
            best = _NONE
            for first, held in sorted(((f, h) for f, h in before.items() if f < end), key=lambda way: -way[1]):
                if held <= best:
                    break
                best = max(best, min(held, pool(stage, first, end)))
            if best > _NONE:
                now[end] = best
        before = now
    return before.get(layers, _NONE)


Cut = tuple[int, int, int]
"""First layer, end, weight."""


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
