"""What a canary's proof decides, in fifty runs against real processes of the stand-in, each with a seed of its own."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet.policy import ServicePolicy
from fleet.proof.proportion import chance_of_missing
from lab.standin.process import running
from operations.proof import found_before
from probes.asking.load import load
from probes.evidence import Endpoint, Evidence, Limits

POLICY = ServicePolicy()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 4, "num_attention_heads": 8}))
    return folder


def proof(model: Path, seed: int, fault: str, before: Evidence | None = None) -> list[Evidence]:
    """The default probes, up to the first that does not pass. Short answers, so that fifty loops cost little."""
    environ = {"VLLM_STANDIN_FAULT": fault, "VLLM_STANDIN_SEED": str(seed), "VLLM_STANDIN_TOKENS_PER_S": "0"}
    limits = Limits(total_s=60, max_tokens=160, trials=POLICY.proof_trials)
    evidence: list[Evidence] = []
    with running(model, "--served-model-name", "m", "--disable-uvicorn-access-log", environ=environ) as engine:
        for name in POLICY.proof:
            with_baseline = limits.model_copy(update={"before": before if name == "degeneration" else None})
            evidence.append(load(name)(Endpoint(url=engine.url, model="m"), with_baseline))
            if not evidence[-1].passed:
                break
    return evidence


def test_an_engine_that_loops_in_a_fifth_of_its_answers_is_refused_fifty_times_of_fifty(model: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda seed: proof(model, seed, "loop:p=0.2")[-1], range(50)))
    assert [str(each) for each in found if each.passed] == []
    by_run = [each for each in found if each.probe == "degeneration"]
    assert len(by_run) >= 3, "the run of many trials decides where the smoke test saw no loop"
    assert all(each.degraded for each in by_run)


def test_a_good_engine_is_taken_and_its_run_is_the_baseline_of_the_next(model: Path) -> None:
    first = proof(model, 1, "")
    assert [each.status for each in first] == ["passed", "passed"]
    text = json.dumps({"evidence": [each.model_dump(mode="json") for each in first]})
    before = found_before([text], "degeneration")
    assert before == first[1]
    again = proof(model, 2, "", before)[-1]
    assert again.passed
    assert "beside 0 of 40 before" in again.found


def test_the_defaults_miss_a_fault_in_a_fifth_less_than_once_in_five_hundred() -> None:
    assert POLICY.proof == ("smoke", "degeneration")
    assert chance_of_missing(POLICY.proof_trials, 0.2) < 1 / 500


def run(trials: int, **more: object) -> dict[str, object]:
    base = {"probe": "degeneration", "passed": True, "wanted": "", "found": "", "seconds": 1.0}
    return {**base, "details": {"trials": trials, "bad": 0}, **more}


def test_the_baseline_is_the_longest_run_that_passed() -> None:
    proof_json = json.dumps({"evidence": [run(40), run(50, probe="smoke"), run(400, passed=False)]})
    verify_json = json.dumps({"evidence": [run(200)]})
    best = found_before([proof_json, verify_json], "degeneration")
    assert best is not None
    assert best.details["trials"] == 200


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"evidence": 4}', '{"evidence": [{"probe": 1}]}'])
def test_what_cannot_be_read_is_no_baseline(text: str | None) -> None:
    assert found_before([text], "degeneration") is None
