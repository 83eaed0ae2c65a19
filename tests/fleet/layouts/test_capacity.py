"""What a layout holds, what the running one holds and logged, and what changing one for the other means."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.layouts.capacity import Capacity, capacity_of
from fleet.layouts.repair import Repair, Unrepaired
from fleet.layouts.sizes import Sizes
from fleet.ledger.started import Started, StartedRank
from fleet.nodes.node import Installed, OwnFile
from fleet.plan import Plan
from fleet.releases.current import (
    capacity_words,
    current_document,
    current_plan,
    measured_cut,
    side_by_side,
    started_of,
)
from fleet.releases.difference import compare
from fleet.releases.release import plan_document
from templates.render import render_release
from tests.fleet.builders import facts, fleet_with, installed, node

GLM: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[3] / "lab" / "models" / "glm-dsa-78" / "config.json").read_text()
)
AS_RUN = {"kv_cache_dtype": "fp8_ds_mla", "gpu_memory_utilization": 0.95, "boundary_repaired": True}


def glm(lies: Installed | None = None, config: dict[str, Any] | None = GLM, **changes: Any) -> Plan:
    told = facts(config, services=(lies,) if lies else ())
    (plan,) = fleet_with(node(), told, **(AS_RUN | changes)).plans
    return plan


def cut(*parts: int) -> dict[str, Any]:
    return {"layout": {"tp": 4, "pp": 2, "partition": parts}}


STARTED = Started(
    ranks=(
        StartedRank(process="Worker_PP0_TP0", weights_gib=47.85, available_kv_gib=21.95, cuda_graph_gib=0.76),
        StartedRank(process="Worker_PP1_TP0", weights_gib=52.5, available_kv_gib=15.56, cuda_graph_gib=1.49),
    ),
    pool_tokens=597_760,
)
"""What one operator's engine logged at 39,39 (the last stage's weights are estimated)."""


def running(started: Started | None = STARTED, text: str | None = None, **changes: Any) -> Installed:
    """The service as it runs with another plan."""
    document = text if text is not None else json.dumps(plan_document(glm(**changes)))
    file = OwnFile(
        path="/var/lib/vllm-fleet/glm/releases/r1/plan.json", sha256="0", mode="600", owner="root:root", text=document
    )
    proof = json.dumps({"format": 1, "started": started.model_dump(mode="json") if started else None})
    return installed(files=(file,), proof=proof)


def held(plan: Plan) -> Capacity:
    found = capacity_of(plan)
    assert isinstance(found, Capacity), found
    return found


def test_a_plan_holds_what_its_binding_stage_holds() -> None:
    found = held(glm(**cut(39, 39)))
    assert found.pool == found.stages[found.binding_stage].tokens == min(stage.tokens for stage in found.stages)
    assert found.binding_stage == 1 and found.stages[1].indexers == 13 and found.stages[1].drafts == 1
    assert found.pool_range is not None and found.pool_range[0] < found.pool < found.pool_range[1]


def test_requests_take_whole_blocks_and_are_rounded_down() -> None:
    found = held(glm(**cut(41, 37)))
    assert found.block == 64
    assert found.resident(131_072 + 256) == found.pool // 131_328
    assert found.model_copy(update={"logged": 128}).resident(65) == 1
    assert found.model_copy(update={"logged": 127}).resident(65) == 0


def test_what_is_not_known_is_told_with_its_reason() -> None:
    assert "hidden_size: want a positive integer" in str(capacity_of(glm(config=GLM | {"hidden_size": None})))
    assert capacity_of(glm(config=None)) == "/models/glm-5.2/config.json was not read"
    assert "want 78 layers in all, found 77 (41,36)" in str(capacity_of(glm(**cut(41, 36))))
    assert "want 2 parts for PP 2" in str(capacity_of(glm(**cut(78))))


def test_the_running_release_is_read_back_as_it_is_served() -> None:
    now = current_plan(glm(running(**cut(39, 39), max_model_len=262_144, speculative="none"), **cut(41, 37)))
    assert now is not None and now.layout is not None
    assert (now.layout.partition, now.service.max_model_len, now.service.speculative) == ((39, 39), 262_144, "none")
    assert (now.service.kv_cache_dtype, now.service.gpu_memory_utilization) == ("fp8_ds_mla", 0.95)
    same = current_plan(glm(running(**cut(39, 39)), **cut(41, 37)))
    assert same is not None and held(same).pool == held(glm(**cut(39, 39))).pool


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"argv": 3, "model": "/m", "engine": "0.30.0", "layout": {}}'])
def test_a_damaged_plan_of_the_running_release_is_no_plan(text: str) -> None:
    plan = glm(running(text=text), **cut(41, 37))
    assert current_plan(plan) is None and measured_cut(plan) is None and side_by_side(plan) == ()
    assert capacity_words(plan)[0].startswith("pool: ")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--max-model-len", "0"),
        ("--max-model-len", "-4"),
        ("--max-model-len", "9" * 40),
        ("--gpu-memory-utilization", "nan"),
        ("--gpu-memory-utilization", "7"),
        ("--speculative-config", "[]x"),
        ("--speculative-config", '{"method": 3}'),
        ("--hf-overrides", "{"),
        ("--hf-overrides", "3"),
    ],
)
def test_a_flag_that_no_engine_could_run_with_makes_no_plan_of_what_runs(flag: str, value: str) -> None:
    document = plan_document(glm(**cut(39, 39), hf_overrides={"a": 1}))
    argv = document["argv"]
    argv[argv.index(flag) + 1] = value
    plan = glm(running(text=json.dumps(document)), **cut(41, 37))
    assert current_plan(plan) is None and " -> " not in capacity_words(plan)[0]


def test_a_change_of_the_partition_is_told_as_a_change_of_the_pool() -> None:
    words = capacity_words(glm(running(**cut(39, 39)), **cut(41, 37)))
    assert words[0].startswith("pool: 597,760 (logged) -> 7")
    assert words[1] == "longest request: 524,288 -> 524,288 tokens"
    assert words[2] == "resident requests of 524,288 tokens: 1 -> 1"


def test_what_was_logged_on_one_cut_tells_the_other_within_a_percent_of_what_the_operator_measured() -> None:
    plan = glm(running(**cut(39, 39)), **cut(41, 37))
    measured = measured_cut(plan)
    assert measured is not None and measured.sizes == Sizes(tp=4, pp=2)
    found = capacity_of(plan, measured)
    assert isinstance(found, Capacity) and found.pool_range is None
    assert found.pool == pytest.approx(729_280, rel=0.01)
    assert found.source == "from what the engine logged on this node as TP4/PP2 39,39"


@pytest.mark.parametrize(
    "changes",
    [
        {"max_model_len": 262_144},
        {"gpu_memory_utilization": 0.9},
        {"speculative": "none"},
        {"flags": {"--max-num-seqs": 7}},
    ],
)
def test_a_measurement_counts_only_where_the_rest_is_served_the_same(changes: dict[str, Any]) -> None:
    assert measured_cut(glm(running(**cut(39, 39), **changes), **cut(41, 37))) is None


def test_another_kv_dtype_does_not_unmake_a_measurement() -> None:
    assert measured_cut(glm(running(**cut(39, 39), kv_cache_dtype="auto"), **cut(41, 37))) is not None


def test_an_engine_that_logged_nothing_leaves_the_estimate() -> None:
    plan = glm(running(None, **cut(39, 39)), **cut(41, 37))
    assert started_of(plan) is None and measured_cut(plan) is None
    assert "(logged)" not in capacity_words(plan)[0] and " -> " in capacity_words(plan)[0]


def test_prediction_and_measurement_stand_side_by_side() -> None:
    figures = {one.name: one for one in side_by_side(glm(running(**cut(39, 39)), **cut(41, 37)))}
    stages = {f"{what} of stage {stage}, GiB" for what in ("weights", "KV") for stage in (0, 1)}
    assert set(figures) == {*stages, "pool, tokens"}
    assert abs(figures["weights of stage 0, GiB"].off) < 0.03
    pool = figures["pool, tokens"]
    assert pool.logged == 597_760
    assert str(pool) == "pool, tokens: predicted 562,752, logged 597,760 (-5.9%)"
    assert pool.far and pool.finding == f"{pool}: want within 2%"
    assert figures["weights of stage 0, GiB"].finding is None


@pytest.mark.parametrize(
    "stated", [{"flags": {"--kv-cache-memory-bytes": 3 * 2**30}}, {"env": {"VLLM_CPU_KVCACHE_SPACE": "3"}}]
)
def test_what_the_service_states_for_kv_is_what_each_rank_has(stated: dict[str, Any]) -> None:
    found = held(glm(**cut(41, 37), **stated))
    assert {stage.available for stage in found.stages} == {3 * 2**30}
    assert found.pool_range is None and found.source == "from what the service states for KV"
    assert found.pool == min(int(3 * 2**30 / stage.bytes_per_token) // 64 * 64 for stage in found.stages)


@pytest.mark.parametrize("space", ["0", "", "much", "-3", "1.5", "9" * 40])
def test_what_states_nothing_leaves_the_estimate(space: str) -> None:
    assert held(glm(**cut(41, 37), env={"VLLM_CPU_KVCACHE_SPACE": space})).pool_range is not None


def test_a_difference_carries_its_capacity_and_no_digest_depends_on_it() -> None:
    plan = glm(running(**cut(39, 39)), **cut(41, 37))
    release = render_release(plan)
    change = compare(plan, release, {})
    assert change.kind == "update" and change.capacity == capacity_words(plan)
    assert "597" not in json.dumps(release.files)
    nothing = compare(glm(**cut(41, 37)), release, {})
    assert nothing.kind == "create" and nothing.capacity[0].startswith("pool: ")


def test_the_capacity_of_an_unknown_model_is_said_to_be_unknown() -> None:
    plan = glm(running(**cut(39, 39)), config=GLM | {"model_type": "brand_new"}, **cut(41, 37))
    assert capacity_words(plan)[0].startswith("capacity: unknown: ")


def test_where_nothing_lies_there_is_nothing_to_read() -> None:
    assert current_document(None) is None and current_plan(glm()) is None


def test_what_ran_before_does_not_change_what_auto_chooses() -> None:
    fresh, ran = glm(layout="auto"), glm(running(**cut(39, 39)), layout="auto")
    assert fresh.layout == ran.layout is not None


def test_what_an_aligned_partition_costs_is_predicted_where_nothing_else_is_known() -> None:
    cheap = glm(boundary_repaired=False, **cut(39, 39))
    assert isinstance(cheap.boundary, Repair) and (cheap.boundary.kind, cheap.boundary.pool_loss) == ("aligned", 0)
    assert cheap.layout is not None and cheap.layout.partition == (42, 36)
    dear = glm(boundary_repaired=False, **cut(41, 37))
    assert isinstance(dear.boundary, Unrepaired) and "the aligned 42,36 costs 9." in dear.boundary.reasons[0]
    unknown = glm(boundary_repaired=False, config=GLM | {"hidden_size": None}, **cut(39, 39))
    assert isinstance(unknown.boundary, Unrepaired) and "is not known" in unknown.boundary.reasons[0]
