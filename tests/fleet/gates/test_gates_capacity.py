"""What a service's target asks for is held against what its layout is predicted to hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.gate import FleetView
from tests.fleet.builders import GLM, fails, fleet_with, passes, warns

WHOLE: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[3] / "lab" / "models" / "glm-dsa-78" / "config.json").read_text()
)
AS_RUN: dict[str, Any] = {"kv_cache_dtype": "fp8_ds_mla", "gpu_memory_utilization": 0.95}


def asking(concurrent: int, config: dict[str, Any] = WHOLE, **limits: Any) -> FleetView:
    target = {"context": 131_072, "concurrent": concurrent, **limits}
    return fleet_with(config=config, objective=target, **AS_RUN)


def test_a_target_that_the_pool_holds_passes() -> None:
    passes("target-requests", asking(3))


def test_a_target_that_only_the_middle_of_the_estimate_holds_is_a_warning() -> None:
    warns("target-requests", asking(4), "4 predicted, but 3 where memory is at its worst")


def test_a_target_that_the_pool_does_not_hold_fails_with_what_it_holds() -> None:
    fails("target-requests", asking(16), "want 16 requests of 131,072 tokens resident", "4 predicted, with a pool of 6")


def test_a_target_of_a_model_whose_memory_is_unknown_fails() -> None:
    fails("target-requests", asking(1, config=dict(GLM)), "a capacity that is unknown", "no intermediate_size")


def test_without_a_target_nothing_is_asked() -> None:
    passes("target-requests", fleet_with())
    passes("target-first-token", fleet_with(config=GLM))
    passes("target-first-token", asking(4))


def test_a_limit_on_the_first_token_needs_a_measured_rate() -> None:
    fails("target-first-token", asking(4, ttft_p99_s=60), "no measured prefill rate", "declare prefill_tokens_per_s")


@pytest.mark.parametrize(("seconds", "good"), [(202, True), (201, False)])
def test_the_last_of_all_prompts_waits_for_the_others(seconds: int, good: bool) -> None:
    target = {"context": 131_072, "concurrent": 4, "ttft_p99_s": seconds}
    view = fleet_with(config=WHOLE, objective=target, prefill_tokens_per_s=2_600, **AS_RUN)
    if good:
        passes("target-first-token", view)
    else:
        fails("target-first-token", view, "202 s for the last, at 2600 tokens/s a replica")
