import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.asking.arrivals import arrivals


def gaps(*asked: object) -> list[float]:
    return [b - a for a, b in pairwise(arrivals(*asked))]  # type: ignore[arg-type]


def test_even_arrivals_are_one_period_apart() -> None:
    assert arrivals(4, 2.0, "even", 7) == (0.0, 0.5, 1.0, 1.5)


def test_random_arrivals_are_those_of_a_poisson_process() -> None:
    """Gaps of an exponential distribution: mean 1 / rate, as spread as that, a share of 1 - 1/e below the mean."""
    found = gaps(20_000, 5.0, "poisson", 3)
    mean = sum(found) / len(found)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in found) / len(found))
    assert mean == pytest.approx(0.2, rel=0.03)
    assert spread == pytest.approx(0.2, rel=0.05)
    assert sum(gap < 0.2 for gap in found) / len(found) == pytest.approx(1 - 1 / math.e, abs=0.02)


def test_a_seed_repeats_its_moments_and_another_has_others() -> None:
    assert arrivals(50, 3.0, "poisson", 1) == arrivals(50, 3.0, "poisson", 1) != arrivals(50, 3.0, "poisson", 2)


@given(st.integers(0, 60), st.floats(0.01, 1e4), st.sampled_from(["poisson", "even"]), st.integers())
def test_each_request_has_a_moment_and_the_first_is_sent_at_once(count: int, rate: float, kind: str, seed: int) -> None:
    found = arrivals(count, rate, kind, seed)  # type: ignore[arg-type]
    assert len(found) == count
    assert list(found) == sorted(found)
    assert not found or found[0] == 0
