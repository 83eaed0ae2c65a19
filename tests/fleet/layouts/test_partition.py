"""The best cut into stages: exact, with forbidden cuts, and with a stated choice among equals."""

from collections.abc import Callable
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from fleet.layouts.partition import best_partition

Partition = tuple[int, ...]
Tokens = Callable[[int, int, int], int]


def by_brute_force(
    layers: int, stages: int, tokens: Tokens, weight: Tokens, forbidden: frozenset[int], enough: int | None
) -> Partition | None:
    """Every partition, the best by the stated order of criteria."""
    found = []
    for cuts in combinations([layer for layer in range(1, layers) if layer not in forbidden], stages - 1):
        ranges = [(stage, first, end) for stage, (first, end) in enumerate(pairwise((0, *cuts, layers)))]
        pool = min(tokens(*cut) for cut in ranges)
        loads = [weight(*cut) for cut in ranges]
        parts = tuple(end - first for _, first, end in ranges)
        counted = pool if enough is None else min(pool, enough)
        found.append((-counted, max(loads), sum(load * load for load in loads), parts))
    return min(found)[3] if found else None


@given(st.data())
def test_no_partition_that_brute_force_finds_is_better(data: st.DataObject) -> None:
    layers = data.draw(st.integers(1, 8))
    stages = data.draw(st.integers(1, 5))
    forbidden = frozenset(data.draw(st.sets(st.integers(1, 8))))
    small = st.integers(-3, 6)
    held = {(s, a, b): data.draw(small) for s in range(stages) for a in range(layers) for b in range(a + 1, layers + 1)}
    load = {cut: data.draw(st.integers(0, 3)) for cut in held}
    enough = data.draw(st.none() | small)

    def tokens(*cut: int) -> int:
        return held[cut]  # type: ignore[index]

    def weight(*cut: int) -> int:
        return load[cut]  # type: ignore[index]

    wanted = by_brute_force(layers, stages, tokens, weight, forbidden, enough)
    assert best_partition(layers, stages, tokens, weight, lambda layer: layer not in forbidden, enough) == wanted


@given(st.data())
def test_the_short_way_for_monotone_stages_finds_the_same(data: st.DataObject) -> None:
    layers = data.draw(st.integers(1, 9))
    stages = data.draw(st.integers(1, 5))
    forbidden = frozenset(data.draw(st.sets(st.integers(1, 9))))
    size = data.draw(st.lists(st.integers(0, 4), min_size=layers, max_size=layers))
    room = data.draw(st.lists(st.integers(0, 12), min_size=stages, max_size=stages))
    draft = data.draw(st.integers(0, 3))
    enough = data.draw(st.none() | st.integers(-5, 8))

    def tokens(stage: int, first: int, end: int) -> int:
        return room[stage] - sum(size[first:end])

    def weight(stage: int, first: int, end: int) -> int:
        return end - first + draft * (stage == stages - 1)

    def allowed(layer: int) -> bool:
        return layer not in forbidden

    wanted = by_brute_force(layers, stages, tokens, weight, forbidden, enough)
    assert best_partition(layers, stages, tokens, weight, allowed, enough, monotone=True) == wanted


def even(stage: int, first: int, end: int) -> int:
    return -(end - first)


def length(stage: int, first: int, end: int) -> int:
    return end - first


def test_equal_layers_are_cut_evenly() -> None:
    assert best_partition(78, 2, even, length) == (39, 39)
    assert sorted(best_partition(78, 4, even, length) or ()) == [19, 19, 20, 20]


def test_a_stage_with_less_room_gets_fewer_layers() -> None:
    room = {0: 30, 1: 15}
    assert best_partition(9, 2, lambda stage, first, end: room[stage] // (end - first), length) == (6, 3)


def test_among_equal_pools_the_busiest_stage_is_least_busy_and_the_draft_counts() -> None:
    def flat(stage: int, first: int, end: int) -> int:
        return 100

    assert best_partition(10, 2, flat, length) == (5, 5)
    assert best_partition(10, 2, flat, lambda stage, first, end: end - first + (4 if stage else 0)) == (7, 3)


def test_the_busiest_stage_counts_before_evenness() -> None:
    loads = {
        (0, 0, 2): 3,
        (1, 2, 3): 1,
        (2, 3, 4): 1,
        (0, 0, 1): 2,
        (1, 1, 2): 2,
        (2, 2, 4): 2,
    }
    for monotone in (False, True):
        found = best_partition(4, 3, lambda *cut: 1, lambda *cut: loads.get(cut, 9), monotone=monotone)
        assert found == (1, 1, 2)


def test_a_pool_that_is_enough_leaves_the_choice_to_balance() -> None:
    def tokens(stage: int, first: int, end: int) -> int:
        return 100 * (end - first) if stage else 1000

    assert best_partition(10, 2, tokens, length) == (1, 9)
    assert best_partition(10, 2, tokens, length, enough=300) == (5, 5)


def test_where_no_cut_is_allowed_there_is_no_partition() -> None:
    assert best_partition(10, 2, even, length, lambda layer: False) is None
    assert best_partition(3, 4, even, length) is None
    assert best_partition(3, 1, even, length, lambda layer: False) == (3,)
    assert best_partition(10, 2, even, length, lambda layer: False, monotone=True) is None


def test_monotone_stages_are_asked_about_few_ranges() -> None:
    asked = set()

    def tokens(stage: int, first: int, end: int) -> int:
        asked.add((stage, first, end))
        return 10**9 - 10**6 * (end - first) ** 2

    assert best_partition(128, 8, tokens, length, monotone=True) == (16,) * 8
    assert len(asked) < 1200
