import pytest

from fleet.proof.lengths import Lengths, lengths_of, shift

USUAL = tuple(40 + n * 7 % 30 for n in range(40))


def lengths(*tokens: int, most: int = 2048) -> Lengths:
    return Lengths(tokens=tokens, max_tokens=most)


def test_answers_of_the_usual_length_are_no_finding() -> None:
    again = shift(lengths(*reversed(USUAL)), lengths(*USUAL))
    assert not again.longer
    assert again.chance > 0.9


def test_answers_that_are_half_as_long_again_are_one() -> None:
    moved = shift(lengths(*(tokens * 3 // 2 for tokens in USUAL)), lengths(*USUAL))
    assert moved.longer
    assert str(moved).startswith("median length 81 tokens beside 54 before (p = ")


@pytest.mark.parametrize("share", [0.5, 0.9, 1.15])
def test_shorter_ones_and_ones_that_are_a_little_longer_are_none(share: float) -> None:
    assert not shift(lengths(*(int(tokens * share) for tokens in USUAL)), lengths(*USUAL)).longer


def test_a_few_long_ones_may_be_chance() -> None:
    assert not shift(lengths(*(200, 210, 220)), lengths(60, 61, 62)).longer, "3 of 3 come by chance once in 20 times"


def test_where_one_run_was_allowed_less_both_are_taken_as_cut_there() -> None:
    long = lengths(*(500 + n for n in range(40)))
    cut = lengths(*(64,) * 40, most=64)
    assert not shift(long, cut).longer
    assert shift(long, cut).now == 64


@pytest.mark.parametrize(
    "details", [None, [], {}, {"tokens": []}, {"tokens": [1]}, {"tokens": [True], "max_tokens": 4}, {"tokens": 3}]
)
def test_what_keeps_no_lengths_is_no_baseline(details: object) -> None:
    assert lengths_of(details) is None


def test_what_a_run_kept_is_read_back() -> None:
    assert lengths_of({"tokens": [3, 9], "max_tokens": 64}) == lengths(3, 9, most=64)
