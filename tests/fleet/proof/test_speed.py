import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.proof.speed import Level, Measured, Objective, Request, capacity, percentile, percentiles


def request(began: float, first: float, seconds: float, tokens: int = 11) -> Request:
    return Request(began_s=began, first_token_s=first, seconds=seconds, prompt_tokens=5, completion_tokens=tokens)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert percentiles(values) == {"p50": 50.0, "p90": 90.0, "p99": 99.0}
    assert percentile([3.0, 1.0], 50) == 1.0
    assert percentile([7.0], 99) == 7.0
    with pytest.raises(ValueError, match="want at least one"):
        percentile([], 50)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.1, 100))
def test_so_many_percent_of_the_values_are_no_larger(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= percent / 100 * len(values) - 1e-9


def test_time_per_token_is_counted_after_the_first() -> None:
    assert request(0, 1.0, 3.0).per_token_s == pytest.approx(0.2)
    assert request(0, 1.0, 1.0, tokens=1).per_token_s is None


def test_an_answer_in_one_piece_has_no_time_per_token() -> None:
    """Ten tokens within 0.28 ms: they waited somewhere. An engine of 35 ms a token was once told to take 0.04."""
    held, seen = request(0, 1.0, 1.00028), request(0, 1.0, 1.35)
    assert held.in_one_piece and held.per_token_s is None
    assert not seen.in_one_piece and not request(0, 1.0, 1.0, tokens=1).in_one_piece
    figures = Level(requests=(held, held, seen), concurrency=3).figures()
    assert figures["in_one_piece"] == 2
    assert figures["tpot_s"] == {"p50": 0.035, "p90": 0.035, "p99": 0.035}
    assert Level(requests=(held,), concurrency=1).figures()["tpot_s"] is None


def test_a_levels_rate_is_over_the_time_of_all_of_it() -> None:
    level = Level(requests=(request(0, 0.1, 1.0), request(0.5, 0.1, 1.5)), concurrency=2)
    assert level.seconds == 2.0
    assert level.tokens_a_second == 11.0
    figures = level.figures()
    assert figures["requests_per_s"] == 1.0
    assert figures["e2e_s"] == {"p50": 1.0, "p90": 1.5, "p99": 1.5}


def level(concurrency: int, rate: float, ttft: float, tpot: float, **more: int) -> Measured:
    fields = {"requests": 200, "failed": 0, **more}
    return Measured(
        concurrency=concurrency,
        requests_per_s=rate,
        output_tokens_per_s=rate * 100,
        ttft_s={"p50": 0.01, "p99": ttft},
        tpot_s={"p50": 0.001, "p99": tpot},
        **fields,
    )


CURVE = [level(1, 1.0, 0.2, 0.01), level(8, 5.0, 0.9, 0.03), level(16, 8.0, 2.5, 0.06)]


def test_replicas_are_counted_by_the_fastest_level_that_keeps_the_promise() -> None:
    found = capacity(CURVE, Objective(ttft_s=1.0, tpot_s=0.05, load=20, head_room=0.2, spare=1))
    assert (found.replicas, found.level) == (6, "8 at once")  # 20 / (5 * 0.8) and one to spare
    assert found.rejected == ("16 at once: TTFT P99 2.5 s, want at most 1 s",)


def test_a_promise_that_no_level_keeps_has_no_number_of_replicas() -> None:
    found = capacity(CURVE, Objective(ttft_s=0.1, load=1))
    assert found.replicas is None
    assert len(found.rejected) == 3


def test_a_level_without_a_hundred_requests_or_with_failures_promises_nothing() -> None:
    weak = [level(8, 5.0, 0.1, 0.01, requests=99), level(4, 3.0, 0.1, 0.01, failed=1)]
    found = capacity(weak, Objective(load=1))
    assert found.replicas is None
    assert "want at least 100 requests for a P99, found 99" in found.rejected[0]


def test_a_promise_of_tpot_wants_a_hundred_answers_that_have_one() -> None:
    held = [level(8, 5.0, 0.1, 0.01, in_one_piece=101)]
    assert capacity(held, Objective(load=1)).replicas is not None
    found = capacity(held, Objective(tpot_s=0.05, load=1))
    assert found.replicas is None
    assert found.rejected == ("8 at once: want at least 100 answers with a TPOT, found 101 of 200 in one piece",)
    unknown = [level(8, 5.0, 0.1, 0.01).model_copy(update={"tpot_s": None})]
    assert "TPOT P99 unknown, want at most 0.05 s" in capacity(unknown, Objective(tpot_s=0.05, load=1)).rejected[0]


@given(st.floats(0.1, 1000), st.floats(0, 0.9), st.integers(0, 3))
def test_the_replicas_carry_the_load_with_the_head_room(load: float, room: float, spare: int) -> None:
    found = capacity(CURVE, Objective(load=load, head_room=room, spare=spare))
    assert found.replicas is not None
    needed = found.replicas - spare
    assert needed * found.requests_per_s >= load * (1 - 1e-6)
    assert (needed - 1) * found.requests_per_s < load * (1 + 1e-6)
