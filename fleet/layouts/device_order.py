"""Which GPU is which rank: TP groups on the fastest links, stages along the rest, replicas each near one NUMA node.

What is minimised, in this order, each as a sum over all TP groups:
1. the class of the slowest link inside a group (all-reduce is as fast as its slowest link),
2. the NUMA nodes that a group spans,
3. the distance of its farthest pair, then of all its pairs.
Then the groups are dealt to replicas so that a replica spans few NUMA nodes and its groups are near each other, and the
stages of a replica follow each other so that the pipeline crosses slow links as rarely as it can.

Exact up to eight GPUs (and eight stages); with more, groups grow greedily from the nearest GPUs and are then improved
by exchanging GPUs as long as that helps (up to 32: no node has more).
"""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import combinations

from fleet.layouts.wiring import Wiring

Group = tuple[int, ...]
Cost = Callable[[Group], int]
EXACT = 8
"""Items up to which every division into groups is considered."""
MOST_EXCHANGED = 32
"""Items up to which a greedy division is improved."""


def _group_cost(wiring: Wiring) -> Cost:
    """The three criteria of a TP group as one number, the first in the highest digits; sums never carry over."""
    classes, distances, numa = wiring.classes, wiring.distances, wiring.numa

    def cost(group: Group) -> int:
        worst, farthest, total = 0, 0, 0
        for i, a in enumerate(group):
            for b in group[i + 1 :]:
                worst = max(worst, classes[a][b])
                far = distances[a][b]
                farthest = max(farthest, far)
                total += far
        span = len({numa[gpu] for gpu in group})
        return worst << 72 | span << 56 | farthest << 36 | total

    return cost


def divide(items: Group, size: int, count: int, cost: Cost) -> tuple[Group, ...]:
    """`count` disjoint groups of `size` items with the smallest sum of costs; spare items are left out.

    Among equals the groups with the earliest items. Exact up to EXACT items.
    """
    if size * count == len(items) and count == 1:
        return (items,)
    if size == 1 and size * count == len(items):
        return tuple((item,) for item in items)
    return (
        _divide_exactly(items, size, count, cost) if len(items) <= EXACT else _divide_greedily(items, size, count, cost)
    )


def _divide_exactly(items: Group, size: int, count: int, cost: Cost) -> tuple[Group, ...]:
    priced = {group: cost(group) for group in combinations(items, size)}

    @cache
    def best(left: Group, count: int) -> tuple[int, tuple[Group, ...]]:
        if count == 0:
            return 0, ()
        first, rest = left[0], left[1:]
        found: tuple[int, tuple[Group, ...]] | None = None
        for others in combinations(rest, size - 1):
            group = (first, *others)
            price, groups = best(tuple(item for item in rest if item not in others), count - 1)
            if found is None or priced[group] + price < found[0]:
                found = priced[group] + price, (group, *groups)
        if len(rest) >= size * count:  # one item may be left out
            without = best(rest, count)
            if found is None or without[0] < found[0]:
                found = without
        assert found is not None
        return found

    return best(items, count)[1]


def _divide_greedily(items: Group, size: int, count: int, cost: Cost) -> tuple[Group, ...]:
    left, groups = list(items), []
    for _ in range(count):
        group: Group = (left.pop(0),)
        while len(group) < size:
            _, nearest = min((cost((*group, item)), item) for item in left)
            left.remove(nearest)
            group = (*group, nearest)
        groups.append(tuple(sorted(group)))
    if len(items) > MOST_EXCHANGED:
        return tuple(sorted(groups))
    return tuple(sorted(_exchanged([*groups, *((item,) for item in left)], count, cost)))


def _exchanged(groups: list[Group], count: int, cost: Cost) -> list[Group]:
    """Exchange items between two groups while the sum of costs falls. Behind `count` stand the spare items, singly."""
    prices = [cost(group) if at < count else 0 for at, group in enumerate(groups)]
    improved = True
    while improved:
        improved = False
        for one, other in combinations(range(len(groups)), 2):
            for a in groups[one]:
                for b in groups[other]:
                    pair = (_with(groups[one], a, b), _with(groups[other], b, a))
                    price = [cost(group) if at < count else 0 for at, group in zip((one, other), pair, strict=True)]
                    if sum(price) < prices[one] + prices[other]:
                        groups[one], groups[other] = pair
                        prices[one], prices[other] = price
                        improved = True
                        break
                else:
                    continue
                break
    return groups[:count]


def _with(group: Group, old: int, new: int) -> Group:
    return tuple(sorted((set(group) - {old}) | {new}))


def _chained(stages: Sequence[Group], wiring: Wiring) -> tuple[Group, ...]:
    """Stages in the order in which their pipeline is shortest; of the two directions the one that begins earlier."""

    def step(one: Group, other: Group) -> int:
        pairs = [(wiring.classes[a][b], wiring.distances[a][b]) for a, b in zip(one, other, strict=True)]
        return max(kind for kind, _ in pairs) << 40 | sum(far for _, far in pairs)

    stages = sorted(stages)
    if len(stages) <= 2:
        return tuple(stages)
    return _shortest(stages, step) if len(stages) <= EXACT else _nearest_next(stages, step)


def _shortest(stages: Sequence[Group], step: Callable[[Group, Group], int]) -> tuple[Group, ...]:
    """The shortest path through all stages, by the cheapest way to each last stage of every set (Held and Karp)."""
    steps = [[step(one, other) for other in stages] for one in stages]
    ways: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {(1 << i, i): (0, (i,)) for i in range(len(stages))}
    for _ in stages[1:]:
        longer: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        for (seen, last), (price, path) in ways.items():
            row = steps[last]
            for following in range(len(stages)):
                if seen >> following & 1:
                    continue
                key, way = (seen | 1 << following, following), (price + row[following], (*path, following))
                if key not in longer or way < longer[key]:
                    longer[key] = way
        ways = longer
    return tuple(stages[i] for i in min(ways.values())[1])


def _nearest_next(stages: Sequence[Group], step: Callable[[Group, Group], int]) -> tuple[Group, ...]:
    path, left = [stages[0]], list(stages[1:])
    while left:
        nearest = min(left, key=lambda other: step(path[-1], other))
        left.remove(nearest)
        path.append(nearest)
    return tuple(path)


def _replicas(groups: tuple[Group, ...], pp: int, dp: int, wiring: Wiring) -> list[tuple[Group, ...]]:
    if dp == 1 and len(groups) == pp:
        return [groups]

    def cost(chosen: Group) -> int:
        members = [groups[at] for at in chosen]
        gpus = [gpu for group in members for gpu in group]
        span = len({wiring.numa[gpu] for gpu in gpus})
        far = sum(wiring.distances[a][b] for i, a in enumerate(gpus) for b in gpus[i + 1 :])
        return span << 40 | far

    dealt = divide(tuple(range(len(groups))), pp, dp, cost)
    return [tuple(groups[at] for at in chosen) for chosen in dealt]


@lru_cache(maxsize=4096)
def device_order(wiring: Wiring, gpus: Group, tp: int, pp: int, dp: int) -> Group:
    """The GPU of each rank, rank 0 first: TP is the inner dimension, then PP, then DP.

    Fewer ranks than GPUs: the best of them are used. More: the GPUs as they are, for the gates to refuse.
    """
    if tp * pp * dp > len(gpus) or not wiring.fits(gpus):
        return gpus
    single = tp == 1  # then which GPUs are spared is seen only when replicas are put together
    groups = divide(tuple(sorted(gpus)), tp, len(gpus) if single else pp * dp, _group_cost(wiring))
    replicas = [_chained(stages, wiring) for stages in _replicas(groups, pp, dp, wiring)]
    return tuple(gpu for stages in sorted(replicas) for group in stages for gpu in group)
