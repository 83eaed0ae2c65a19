"""An index-sharing model is cut only where that is known to be safe."""

from typing import Any

import pytest

from fleet.declaration import Evidence
from fleet.gate import FleetView
from tests.fleet.builders import GLM, LLAMA, MODEL, UNREAD, facts, fails, fleet_with, passes, run, warns

NO_CONFIG = facts(config=None)
FOUR = [22, 20, 20, 16]
REPAIR = "".join("F" if layer % 4 == 2 or layer in (0, 1, 41) else "S" for layer in range(78))


def cut(*parts: int, evidence: tuple[Evidence, ...] = (), **changes: Any) -> FleetView:
    pp, config = len(parts), changes.pop("config", UNREAD)
    return fleet_with(config=config, layout={"tp": 8 // pp, "pp": pp, "partition": parts}, evidence=evidence, **changes)


@pytest.mark.parametrize(
    ("parts", "orphaned"),
    [((39, 39), "39, 40, 41"), ((40, 38), "40, 41"), ((41, 37), "41"), ((45, 33), "45")],
)
def test_a_stage_that_starts_on_a_sharing_layer_is_refused(parts: tuple[int, int], orphaned: str) -> None:
    fails("stage-boundary", cut(*parts), f"(orphaned: {orphaned})", f"stage 1 starts on layer {parts[0]}")


@pytest.mark.parametrize("parts", [(42, 36), (38, 40), (78, 0), (77 - 3, 4)])
def test_a_stage_that_starts_on_a_computing_layer_passes(parts: tuple[int, int]) -> None:
    passes("stage-boundary", cut(*parts))


def test_the_refusal_names_source_nearest_aligned_partitions_and_the_repair() -> None:
    message = "reuses the indices of layer 38", "use partition 42,36 or 38,40", "boundary_repaired: true"
    fails("stage-boundary", cut(41, 37), *message)


def test_the_engines_even_split_is_judged_like_a_declared_one() -> None:
    fails("stage-boundary", fleet_with(layout={"tp": 4, "pp": 2}), "39,39", "orphaned: 39, 40, 41")


def test_a_boundary_declared_repaired_passes_at_two_stages() -> None:
    passes("stage-boundary", cut(41, 37, boundary_repaired=True))


def test_a_boundary_repaired_by_pattern_has_no_orphans() -> None:
    passes("stage-boundary", cut(41, 37, hf_overrides={"index_topk_pattern": REPAIR}))


def test_a_boundary_declared_repaired_does_not_pass_at_four_stages() -> None:
    broken = cut(20, 20, 20, 18, boundary_repaired=True)
    fails("stage-boundary", broken, "stage 1", "stage 2", "stage 3", "counts only with the stored run")


def test_a_stored_run_opens_a_repaired_boundary_at_four_stages_and_no_unrepaired_one() -> None:
    proven = (run(partition=[20, 20, 20, 18]),)
    passes("stage-boundary", cut(20, 20, 20, 18, boundary_repaired=True, evidence=proven))
    fails("stage-boundary", cut(20, 20, 20, 18, evidence=proven))


def test_models_that_share_no_indices_may_be_cut_anywhere() -> None:
    passes("stage-boundary", cut(41, 39, config=LLAMA))
    passes("stage-boundary", cut(20, 20, 20, 20, config=LLAMA))
    passes("pp-evidence", cut(20, 20, 20, 20, config=LLAMA))
    passes("stage-boundary", cut(41, 3, config=LLAMA))  # a wrong sum is for `partition-sum` to say
    passes("stage-boundary", cut(41, 37, config=GLM | {"index_topk_freq": None}))


def test_one_stage_has_no_boundary() -> None:
    passes("stage-boundary", fleet_with(layout={"tp": 8}))
    passes("pp-evidence", fleet_with(layout={"tp": 8}))


@pytest.mark.parametrize("parts", [(41, 36), (80, -2), (20, 20, 38)])
def test_a_partition_that_is_not_of_this_model_has_no_known_boundary(parts: tuple[int, ...]) -> None:
    fails("stage-boundary", fleet_with(layout={"tp": 4, "pp": 2, "partition": parts}), "a partition of 78 layers")


def test_the_boundary_of_an_unknown_model_is_not_safe() -> None:
    for gate in ("stage-boundary", "pp-evidence"):
        fails(gate, fleet_with(told=NO_CONFIG, layout={"tp": 2, "pp": 4}), "model unknown")


def test_two_stages_need_no_stored_run() -> None:
    passes("pp-evidence", cut(42, 36))
    passes("pp-evidence", cut(41, 37, boundary_repaired=True))


@pytest.mark.parametrize("repaired", [False, True])
def test_four_stages_are_refused_aligned_and_repaired_included(repaired: bool) -> None:
    fails(
        "pp-evidence",
        cut(*FOUR, boundary_repaired=repaired),
        "PP 4 on an index-sharing model and no run",
        "20 % of answers degenerate without speculation, 45 % with MTP",
        "at least 200 trials with none bad",
        f"{MODEL}, engine 0.30.0, partition 22,20,20,16",
        "use PP 2, or TP without PP, or store that run as evidence (or waive pp-evidence with a reason)",
    )


def test_three_stages_are_more_than_two() -> None:
    fails("pp-evidence", cut(26, 26, 26))


@pytest.mark.parametrize("model", ["glm-5.2", MODEL])
def test_a_stored_run_of_200_with_none_bad_opens_that_partition(model: str) -> None:
    passes("pp-evidence", cut(*FOUR, evidence=(run(model=model),)))


@pytest.mark.parametrize(
    "other",
    [
        {"trials": 199},
        {"bad": 1},
        {"engine": "0.30.1"},
        {"engine": "0.30"},
        {"model": "glm-5.1"},
        {"model": "5.2"},
        {"partition": [20, 22, 20, 16]},
        {"partition": [42, 36]},
    ],
)
def test_any_other_run_opens_nothing(other: dict[str, Any]) -> None:
    fails("pp-evidence", cut(*FOUR, evidence=(run(**other),)))


def test_a_run_that_is_too_short_is_told() -> None:
    fails("pp-evidence", cut(*FOUR, evidence=(run(trials=40, bad=2),)), "and 40 trials with 2 bad")


def test_a_good_run_beside_a_bad_one_is_a_warning() -> None:
    warns("pp-evidence", cut(*FOUR, evidence=(run(), run(trials=100, bad=21))), "others with 21 of 100 bad")


@pytest.mark.parametrize("overrides", [{"index_topk_freq": 1}, {"index_topk_pattern": "F" * 78}, {"index_topk": None}])
def test_no_override_makes_an_index_sharing_model_another_one(overrides: dict[str, Any]) -> None:
    fails("pp-evidence", cut(*FOUR, hf_overrides=overrides))


def test_an_override_that_makes_layers_share_is_judged_too() -> None:
    plain = GLM | {"index_topk_freq": 1}
    passes("pp-evidence", cut(*FOUR, config=plain))
    fails("pp-evidence", cut(*FOUR, config=plain, hf_overrides={"index_topk_freq": 4}))
