from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.proof import ranks
from fleet.proof.ranks import rank_sum, tends_larger

FEW = st.lists(st.integers(0, 9), min_size=1, max_size=6)
SAMPLE = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


def test_the_rank_sum_test_agrees_with_its_tables() -> None:
    assert rank_sum(range(1, 11), range(11, 21)) == pytest.approx(2 / 184756)
    assert rank_sum([1, 2, 3], [4, 5, 6]) == pytest.approx(2 / 20)
    assert tends_larger([4, 5, 6], [1, 2, 3]) == pytest.approx(1 / 20)
    assert tends_larger([1, 2, 3], [4, 5, 6]) == 1
    assert rank_sum([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7, 8]) == 1.0
    assert rank_sum([1, 1, 1], [1, 1, 1]) == 1.0


@given(FEW, FEW)
def test_the_chance_is_the_share_of_all_ways_to_deal_the_same_values(now: list[int], before: list[int]) -> None:
    """By going through every way: ties and all."""
    every = sorted((*now, *before))
    of = {value: sum(n for n, v in enumerate(every, 1) if v == value) / every.count(value) for value in every}
    sums = [sum(of[every[i]] for i in chosen) for chosen in combinations(range(len(every)), len(now))]
    seen, mean = sum(of[value] for value in now), len(now) * (len(every) + 1) / 2
    assert tends_larger(now, before) == pytest.approx(sum(each >= seen - 1e-9 for each in sums) / len(sums))
    as_far = sum(abs(each - mean) >= abs(seen - mean) - 1e-9 for each in sums)
    assert rank_sum(now, before) == pytest.approx(as_far / len(sums))


@given(SAMPLE, SAMPLE)
def test_the_rank_sum_test_is_a_chance_and_knows_no_sides(left: list[float], right: list[float]) -> None:
    chance = rank_sum(left, right)
    assert 0 <= chance <= 1
    assert chance == pytest.approx(rank_sum(right, left))
    assert tends_larger(left, right) + tends_larger(right, left) >= 1 - 1e-9


@pytest.mark.parametrize("moved", [0, 3, 9])
def test_the_normal_distribution_takes_over_where_it_is_good(moved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before, now = [n * 7 % 41 for n in range(28)], [n * 11 % 41 + moved for n in range(30)]
    exact = rank_sum(now, before), tends_larger(now, before)
    monkeypatch.setattr(ranks, "EXACT", 0)
    assert (rank_sum(now, before), tends_larger(now, before)) == pytest.approx(exact, rel=0.05, abs=0.001)


def test_two_hundred_values_a_side_are_compared_as_well() -> None:
    same = [n * 37 % 200 for n in range(200)]
    assert rank_sum(same, list(reversed(same))) == pytest.approx(1)
    assert tends_larger([value + 60 for value in same], same) < 1e-6


def test_an_empty_side_is_refused() -> None:
    for sides in permutations(([], [1])):
        with pytest.raises(ValueError, match="both sides"):
            rank_sum(*sides)
