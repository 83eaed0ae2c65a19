from pathlib import Path

import pytest

from fleet.proof.speed import Level, Measured, Request
from lab.standin.process import running
from probes.asking.load import load
from probes.evidence import Endpoint, Evidence, Limits
from probes.speed import told

LONG = ("--max-model-len", "16384")
NAME = ("--served-model-name", "glm", "--max-num-seqs", "64")


def measured(model: Path, limits: Limits, *flags: str, fault: str = "", **environ: str) -> tuple[Evidence, list[str]]:
    lines: list[str] = []
    with running(model, *NAME, *flags, environ={"VLLM_STANDIN_FAULT": fault, **environ}) as engine:
        evidence = load("speed")(Endpoint(url=engine.url, model="glm"), limits, lines.append)
    return evidence, lines


def levels(evidence: Evidence) -> list[Measured]:
    found = evidence.details["levels"]
    assert isinstance(found, list)
    return [Measured.model_validate(each) for each in found]


def test_every_level_is_told_as_it_ends_with_its_percentiles(model: Path) -> None:
    limits = Limits(total_s=60, concurrency=(1, 4), trials=8, max_tokens=20, lengths=(64,), rate=20)
    evidence, lines = measured(model, limits, VLLM_STANDIN_TOKENS_PER_S="500")
    assert evidence.passed, str(evidence)
    told = [line.split(":")[0] for line in lines if "tokens/s" in line]
    assert told == ["1 at once", "4 at once", "20 requests/s"]
    assert any(line.startswith("4 at once: 4 of 8 answered after ") for line in lines), "while it runs"
    assert [each["arrivals"] for each in evidence.details["levels"]] == [None, None, "poisson"]
    assert [(each.concurrency, each.rate, each.requests) for each in levels(evidence)] == [
        (1, None, 8),
        (4, None, 8),
        (None, 20, 8),
    ]
    for each in evidence.details["levels"]:
        assert each["completion_tokens"] == 8 * 20
        for kind in ("ttft_s", "tpot_s", "e2e_s"):
            assert each[kind]["p50"] <= each[kind]["p90"] <= each[kind]["p99"]
        assert each["e2e_s"]["p50"] >= 19 * 0.002, "a token takes 2 ms"
        assert each["tpot_s"]["p50"] >= 0.0018


def test_a_level_says_how_many_answers_came_in_one_piece() -> None:
    held = Request(began_s=0, first_token_s=0.5, seconds=0.5002, prompt_tokens=5, completion_tokens=9)
    seen = held.model_copy(update={"seconds": 0.9})
    assert told(Level(requests=(held, seen), concurrency=2)) == (
        "2 at once: 20 tokens/s, TTFT P50 500 ms P99 500 ms, TPOT P50 50.0 ms P99 50.0 ms "
        "(2 requests, 1 came in one piece)"
    )
    assert "TPOT unknown (1 requests, 1 came in one piece)" in told(Level(requests=(held,), concurrency=1))


@pytest.mark.parametrize("arrivals", ["even", "poisson"])
def test_an_open_loop_does_not_wait_for_answers(model: Path, arrivals: str) -> None:
    """Answers take half a second; eight at sixteen a second are all under way together."""
    limits = Limits(total_s=30, concurrency=(1,), trials=8, max_tokens=10, lengths=(16,), rate=16, arrivals=arrivals)
    evidence, _ = measured(model, limits, VLLM_STANDIN_TOKENS_PER_S="20")
    closed, opened = levels(evidence)
    assert opened.requests_per_s > 3 * closed.requests_per_s


def test_what_the_prefix_cache_gives_is_told_apart(model: Path) -> None:
    limits = Limits(total_s=30, concurrency=(2,), trials=4, max_tokens=4, lengths=(200,))
    evidence, _ = measured(
        model, limits, *LONG, "--enable-prompt-tokens-details", VLLM_STANDIN_PREFILL_TOKENS_PER_S="20000"
    )
    cache = evidence.details["prefix_cache"]
    assert cache["cold_ttft_s"] > 0.035, "800 tokens at 20,000 a second"
    assert cache["warm_ttft_s"] < cache["cold_ttft_s"] / 2
    assert cache["cached_tokens"] >= 784
    (level,) = evidence.details["levels"]
    assert level["ttft_s"]["p50"] >= 0.009, "the prompts of a level are not cached"


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("busy:p=0.3", "HTTP 503"),
        ("cut:p=0.3", "the connection broke"),
        ("absurd-usage", "1000000000"),
        ("hang", "nothing more"),
    ],
)
def test_a_request_that_fails_fails_the_run(model: Path, fault: str, says: str) -> None:
    evidence, _ = measured(model, Limits(total_s=2, concurrency=(2,), trials=10, max_tokens=8), fault=fault)
    assert evidence.status == "failed"
    assert says in evidence.found
    assert evidence.seconds < 3
