import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.proof.proportion import Sample, at_most, chance_of_missing, degraded, differs, interval, worse


@pytest.mark.parametrize(
    ("bad", "trials", "low", "high"),
    [
        (0, 40, 0.0, 1 - 0.025 ** (1 / 40)),  # closed forms at the ends
        (40, 40, 0.025 ** (1 / 40), 1.0),
        (0, 200, 0.0, 0.0182755),
        (5, 10, 0.1870860, 0.8129140),  # the interval as it is tabulated
    ],
)
def test_the_interval_is_clopper_and_pearsons(bad: int, trials: int, low: float, high: float) -> None:
    assert interval(bad, trials) == pytest.approx((low, high), abs=2e-6)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_has_the_rate_in_it_and_its_ends_are_exact(drawn: tuple[int, int]) -> None:
    bad, trials = drawn
    low, high = interval(bad, trials)
    assert low <= bad / trials <= high
    if bad < trials:
        assert at_most(bad, trials, high) == pytest.approx(0.025, rel=1e-6)
    if bad:
        assert 1 - at_most(bad - 1, trials, low) == pytest.approx(0.025, rel=1e-6)


def test_what_cannot_be_counted_is_refused() -> None:
    for bad, trials in ((-1, 4), (5, 4), (0, 0)):
        with pytest.raises(ValueError, match="want 0 to"):
            interval(bad, trials)


def test_fishers_test_is_exact() -> None:
    assert worse(3, 4, 1, 4) == pytest.approx(17 / 70)  # the lady tasting tea
    assert differs(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert worse(5, 40, 0, 40) == pytest.approx(math.comb(40, 5) / math.comb(80, 5))


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_fishers_test_knows_no_order_of_naming(n: int, m: int, data: st.DataObject) -> None:
    a, b = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    assert differs(a, n, b, m) == pytest.approx(differs(b, m, a, n))
    assert 0 < worse(a, n, b, m) <= 1
    assert worse(a, n, b, m) + worse(b, m, a, n) >= 1 - 1e-12, "the tails overlap in this very table"


def test_two_bad_answers_are_too_many_without_a_baseline_and_beside_a_clean_one() -> None:
    assert not degraded(Sample(bad=1, trials=40))
    assert degraded(Sample(bad=2, trials=40))
    for before in (0, 1):
        assert degraded(Sample(bad=2, trials=40), Sample(bad=before, trials=40))
    assert not degraded(Sample(bad=1, trials=40), Sample(bad=0, trials=40))


def test_a_baseline_with_bad_answers_says_what_is_normal() -> None:
    normal = Sample(bad=4, trials=40)
    assert not degraded(Sample(bad=5, trials=40), normal)
    assert degraded(Sample(bad=12, trials=40), normal)
    assert not degraded(Sample(bad=0, trials=40), normal)


def test_the_chance_to_miss_a_fault_of_a_fifth() -> None:
    assert chance_of_missing(31, 0.2) == pytest.approx(0.8**31 + 31 * 0.2 * 0.8**30)
    assert chance_of_missing(31, 0.2) < 0.01
    assert chance_of_missing(40, 0.2) < 0.0015
    assert chance_of_missing(40, 0.2, Sample(bad=0, trials=40)) == pytest.approx(chance_of_missing(40, 0.2))
    assert chance_of_missing(40, 0.2, Sample(bad=4, trials=40)) > 0.2, "a bad baseline hides what is as bad"


@given(st.integers(1, 200), st.floats(0.001, 0.999))
def test_chances_are_chances(trials: int, rate: float) -> None:
    chances = [at_most(bad, trials, rate) for bad in range(-1, trials + 1)]
    assert chances == sorted(chances)
    assert chances[0] == 0
    assert chances[-1] == 1


def test_a_sample_reads_like_a_finding() -> None:
    assert str(Sample(bad=0, trials=40)) == "0 of 40 bad, rate 0.0% (95 %: 0.0% to 8.8%)"
