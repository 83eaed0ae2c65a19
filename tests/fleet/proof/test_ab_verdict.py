from typing import Any

import pytest

from fleet.proof.ab.verdict import Bounds, Verdict, verdict


def evidence(probe: str, passed: bool = True, **details: Any) -> dict[str, Any]:
    return {"probe": probe, "passed": passed, "degraded": False, "details": details}


def level(width: int, ttft: float, tpot: float, rate: float = 100.0) -> dict[str, Any]:
    return {
        "concurrency": width,
        "rate": None,
        "output_tokens_per_s": rate,
        "ttft_s": {"p50": ttft / 2, "p99": ttft},
        "tpot_s": {"p50": tpot / 2, "p99": tpot},
        "samples": {"ttft_s": [ttft] * 9, "tpot_s": [tpot] * 9},
    }


def arm(
    pool: int = 1000,
    bad: int = 0,
    tpot: float = 0.02,
    right: int = 12,
    found: int = 9,
    tokens: float = 1,
    **more: Any,
) -> dict[str, Any]:
    items = {str(n): {"right": n < right} for n in range(12)}
    return {
        "measured": {"kv_cache_size_tokens": str(pool)},
        "evidence": [
            evidence("smoke"),
            evidence(
                "degeneration", bad=bad, trials=40, max_tokens=512, tokens=[int(n * tokens) for n in range(40, 80)]
            ),
            evidence("needle", found=found, looked=9),
            evidence("quality", right=right, items=items),
            evidence("speed", levels=[level(1, 0.1, tpot), level(8, 0.4, tpot * 2)]),
        ],
        **more,
    }


def broken(found: Verdict) -> list[str]:
    return [line.name for line in found.lines if line.holds is False]


def test_an_arm_that_keeps_every_limit_is_adopted() -> None:
    found = verdict(arm(), arm(pool=1200), Bounds(pool_gain=10))
    assert found.adopt and found.decision == "adopt"
    pool = found.lines[0]
    assert (pool.control, pool.arm, pool.difference, pool.holds) == ("1,000", "1,200", "+20.0 %", True)


@pytest.mark.parametrize(
    ("other", "bounds", "name"),
    [
        (arm(pool=1050), Bounds(pool_gain=10), "KV pool (tokens)"),
        (arm(bad=2), Bounds(), "degenerate answers"),
        (arm(tpot=0.03), Bounds(tpot_loss=20), "TPOT P99 at 1 at once (ms)"),
        (arm(right=5), Bounds(), "quality right"),
        (arm(found=3), Bounds(), "needle found"),
        (arm(tokens=1.5), Bounds(), "answer length (tokens, P50)"),
    ],
)
def test_one_broken_limit_sends_it_back_and_is_named(other: dict[str, Any], bounds: Bounds, name: str) -> None:
    found = verdict(arm(), other, bounds)
    assert not found.adopt
    assert name in broken(found)
    assert name in found.decision


def test_a_small_loss_that_chance_explains_holds() -> None:
    found = verdict(arm(), arm(bad=1, right=11, found=8, tpot=0.021), Bounds(tpot_loss=10))
    assert found.adopt, found.decision
    lines = {line.name: line for line in found.lines}
    assert lines["quality right"].significance == "p = 1.000"


def test_the_length_of_answers_is_told_with_its_significance() -> None:
    lines = {line.name: line for line in verdict(arm(), arm(tokens=1.1), Bounds()).lines}
    line = lines["answer length (tokens, P50)"]
    assert (line.control, line.arm, line.difference, line.holds) == ("59", "64", "+8.5 %", True)
    assert 0.001 < float(line.significance.removeprefix("p = ")) < 0.1


def test_a_probe_that_the_arm_fails_sends_it_back() -> None:
    other = arm()
    other["evidence"][0]["passed"] = False
    assert broken(verdict(arm(), other, Bounds())) == ["probe smoke"]


@pytest.mark.parametrize("missing", ["measured", "evidence"])
def test_what_is_unknown_does_not_hold(missing: str) -> None:
    other = {**arm(), missing: None}
    found = verdict(arm(), other, Bounds(pool_gain=-5))
    assert not found.adopt
    assert any(line.arm in ("unknown", "not asked") for line in found.lines if line.holds is False)


def test_nothing_at_all_is_not_adopted() -> None:
    assert not verdict({}, {}, Bounds()).adopt


def test_the_tightest_gpu_is_told_and_no_mean() -> None:
    before = arm(gpus=[{"index": n, "free_mib": 4000} for n in range(8)])
    after = arm(gpus=[{"index": n, "free_mib": 900 if n == 5 else 4500} for n in range(8)])
    lines = {line.name: line for line in verdict(before, after, Bounds()).lines}
    assert lines["tightest GPU free (MiB)"].arm == "900"
    assert lines["GPU 5 free (MiB)"].difference == "-3,100"


def foretold(figure: str, predicted: float, logged: float) -> dict[str, Any]:
    off = predicted / logged - 1
    return {"figure": figure, "predicted": predicted, "logged": logged, "off": off, "finding": abs(off) > 0.02}


def test_what_was_predicted_stands_beside_what_was_logged_and_a_wrong_prediction_is_a_finding() -> None:
    before = arm(predicted_and_logged=[foretold("pool, tokens", 1000, 1000)])
    after = arm(predicted_and_logged=[foretold("pool, tokens", 1100, 1000), foretold("KV of stage 0, GiB", 5.1, 5.05)])
    found = verdict(before, after, Bounds())
    lines = {line.name: line for line in found.lines}
    pool = lines["pool, tokens: logged (predicted)"]
    assert (pool.control, pool.arm, pool.difference, pool.holds) == ("1,000 (1,000)", "1,000 (1,100)", "+0.0 %", None)
    kept = lines["KV of stage 0, GiB: logged (predicted)"]
    assert (kept.control, kept.arm) == ("unknown", "5.05 (5.10)")
    assert found.findings == ("arm: pool, tokens: predicted 1,100, logged 1,000 (+10.0%)",)
    assert found.adopt, "that the ledger was wrong is not the arm's fault"


def test_graphs_and_the_longest_request_are_told() -> None:
    before = arm(max_model_len=512, started={"ranks": [{"process": "Worker_PP0", "cuda_graph_gib": 0.4}]})
    after = arm(max_model_len=4096, started={"ranks": [{"process": "Worker_PP0", "cuda_graph_gib": 0.55}]})
    lines = {line.name: line for line in verdict(before, after, Bounds()).lines}
    assert (lines["graphs of Worker_PP0 (GiB)"].control, lines["graphs of Worker_PP0 (GiB)"].arm) == ("0.40", "0.55")
    longest = lines["longest request (tokens)"]
    assert (longest.control, longest.arm, longest.difference) == ("512", "1,000", "+488"), "no more than the pool holds"


def test_where_both_are_degraded_alike_the_comparison_decides() -> None:
    """A model that decays in a quarter of its answers on either cut is no worse on the other one."""
    arms = [arm(bad=10), arm(bad=12), arm(bad=25)]
    for one in arms:
        one["evidence"][1] |= {"passed": False, "degraded": True}
    assert verdict(arms[0], arms[1], Bounds()).adopt
    assert broken(verdict(arms[0], arms[2], Bounds())) == ["degenerate answers"]
    assert "probe degeneration" in broken(verdict(arm(), arms[0], Bounds()))
    arms[1]["evidence"][1]["degraded"] = False
    assert "probe degeneration" in broken(verdict(arms[0], arms[1], Bounds())), "it failed"
