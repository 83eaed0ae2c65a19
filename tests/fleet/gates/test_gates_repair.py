"""A repaired boundary and a patch in the plan, in the engine's command, and before the gates."""

import json
from typing import Any

from fleet.gate import FleetView
from fleet.layouts.capacity import capacity_of
from fleet.layouts.repair import PATCH, Repair, pattern_for
from fleet.plan import Plan
from fleet.releases.command import container_argv, engine_argv, engine_env
from fleet.releases.release import plan_document
from tests.fleet.builders import (
    GLM,
    IMAGE,
    facts,
    fails,
    fleet,
    fleet_with,
    folder,
    node,
    passes,
    patch,
    service,
    view,
    warns,
)
from tests.fleet.layouts.test_repair import MODEL, pool

ALL = facts(models=(folder(indexers=tuple(range(78))),))
OWN = facts(models=(folder(indexers=(0, 1, 2, *range(6, 78, 4))),))
NOT_READ = facts(models=(folder(),))


def cut(*parts: int, told: Any = ALL, **changes: Any) -> FleetView:
    layout = {"tp": 8 // len(parts), "pp": len(parts), "partition": parts}
    return fleet_with(layout=layout, told=told, **changes)


def only(view: FleetView) -> Plan:
    return view.plans[0]


def overrides(plan: Plan) -> dict[str, Any]:
    argv = engine_argv(plan)
    given: dict[str, Any] = json.loads(argv[argv.index("--hf-overrides") + 1]) if "--hf-overrides" in argv else {}
    return given


def test_a_pattern_repairs_the_boundary_and_is_told() -> None:
    view = cut(41, 37)
    passes("stage-boundary", view)
    warns("boundary-repair", view, "41,37 repaired: index_topk_pattern makes layer 41 compute", "is not known")
    assert overrides(only(view)) == {"index_topk_pattern": pattern_for((41, 37), MODEL)}
    assert only(view).architecture.index_sharing.computes(41)


def test_the_pattern_is_laid_beside_the_owners_overrides() -> None:
    plan = only(cut(41, 37, hf_overrides={"rope_theta": 1}))
    assert overrides(plan) == {"rope_theta": 1, "index_topk_pattern": pattern_for((41, 37), MODEL)}
    assert plan.service.hf_overrides == {"rope_theta": 1}


def test_the_engines_even_split_is_repaired_like_a_declared_one() -> None:
    plan = only(fleet_with(layout={"tp": 4, "pp": 2}, told=ALL))
    assert overrides(plan) == {"index_topk_pattern": pattern_for((39, 39), MODEL)}
    assert "VLLM_PP_LAYER_PARTITION" not in engine_env(plan)


def test_an_aligned_cut_takes_the_place_of_the_declared_one() -> None:
    view = cut(41, 37, pool=pool, boundary={"max_pool_loss": 0.1})
    passes("stage-boundary", view)
    warns("boundary-repair", view, "41,37 was cut as 42,36 instead, which costs 8.80 % of the pool")
    assert engine_env(only(view))["VLLM_PP_LAYER_PARTITION"] == "42,36"
    assert only(view).layout.partition == (42, 36) and overrides(only(view)) == {}


def test_one_stage_and_an_aligned_cut_are_the_same_to_the_letter() -> None:
    for layout in ({"tp": 8}, {"tp": 4, "pp": 2, "partition": [42, 36]}):
        bare, able = (only(fleet_with(layout=layout, told=told)) for told in (facts(), ALL))
        without = only(fleet_with(layout=layout, told=ALL, boundary={"repair": "none"}))
        for plan in (able, without):
            assert (engine_argv(plan), engine_env(plan)) == (engine_argv(bare), engine_env(bare))
            assert plan.boundary is None and container_argv(plan) == container_argv(bare)
    passes("boundary-repair", fleet_with(told=ALL))


def test_what_cannot_be_repaired_is_refused_with_the_reason_and_the_aligned_cuts() -> None:
    fails(
        "stage-boundary",
        cut(41, 37, told=OWN, pool=pool),
        "(orphaned: 41)",
        "not repaired: the aligned 42,36 costs 8.80 % of the pool",
        "no indexer weights of layer 41",
        "use partition 42,36 or 38,40",
    )
    fails("stage-boundary", cut(41, 37, told=NOT_READ), "is not known: no model.safetensors.index.json")
    fails("stage-boundary", cut(41, 37, boundary={"repair": "none"}), "use partition 42,36 or 38,40")


def test_an_image_that_is_declared_repaired_is_left_alone() -> None:
    view = cut(41, 37, boundary_repaired=True)
    passes("stage-boundary", view)
    assert only(view).boundary is None and overrides(only(view)) == {}


def test_four_stages_stay_refused_though_they_are_repaired() -> None:
    view = cut(20, 20, 20, 18)
    passes("stage-boundary", view)
    assert isinstance(only(view).boundary, Repair)
    fails("pp-evidence", view, "PP 4 on an index-sharing model")


def test_a_nested_language_model_gets_the_pattern_where_it_stands() -> None:
    nested = {"model_type": "wrapper", "text_config": GLM}
    plan = only(cut(41, 37, told=facts(models=(folder(nested, tuple(range(78))),))))
    assert overrides(plan) == {"text_config": {"index_topk_pattern": pattern_for((41, 37), MODEL)}}


def test_a_boundary_by_patch_mounts_the_changed_file_and_changes_no_flag() -> None:
    view = cut(41, 37, boundary={"repair": "patch"}, patches=(patch(PATCH),))
    passes("stage-boundary", view)
    passes("patches", view)
    warns("boundary-repair", view, "the patch index-boundary", "makes layer 41 compute")
    plan = only(view)
    assert overrides(plan) == {} and plan.architecture.index_sharing.computes(41)
    mount = "/var/lib/vllm-fleet/glm/current/patched-0:/usr/local/lib/python3.12/dist-packages/vllm/wait.py:ro"
    assert mount in container_argv(plan)


def test_patches_are_mounted_once_a_file_and_stand_in_the_plan() -> None:
    one, two = patch("longer-wait"), patch("other-wait")
    own = IMAGE | {"packages": "/opt/venv/lib/python3.11/site-packages"}
    plan = only(named(("other-wait", "longer-wait"), (one, two), image=own))
    assert [each.name for each in plan.patches] == ["other-wait", "longer-wait"]
    words = [word for word in container_argv(plan) if "/patched-" in word]
    assert words == ["/var/lib/vllm-fleet/glm/current/patched-0:/opt/venv/lib/python3.11/site-packages/vllm/wait.py:ro"]
    document = plan_document(plan)
    assert document["patches"] == [
        {"name": each.name, "digest": each.digest, "files": {"vllm/wait.py": "0" * 64}} for each in (two, one)
    ]
    assert "patches" not in plan_document(only(fleet_with()))


def named(names: tuple[str, ...], there: tuple[Any, ...], **changes: Any) -> FleetView:
    return fleet(view(node(), service(patches=names, **changes), told=ALL), patches=there)


def test_a_patch_that_is_not_there_for_the_engine_is_refused() -> None:
    fails(
        "patches", named(("nothing",), (patch(),)), "found no 'nothing'; there are: index-boundary", "docs/patches.md"
    )
    fails(
        "patches",
        named(("index-boundary",), (patch(versions=("0.31.0", "0.32.0")),)),
        "want index-boundary for engine 0.30.0, found it for 0.31.0, 0.32.0",
    )
    passes("patches", named(("index-boundary",), (patch(),)))
    passes("patches", fleet_with())


def test_a_patch_that_the_engine_does_without_is_a_warning() -> None:
    warns("patches", named(("longer-wait",), (patch("longer-wait", unneeded_from="0.30"),)), "unneeded from 0.30")
    passes("patches", named(("longer-wait",), (patch("longer-wait", unneeded_from="0.31.0"),)))


WHOLE = GLM | {
    "vocab_size": 154_880,
    "intermediate_size": 12_288,
    "moe_intermediate_size": 2048,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "kv_lora_rank": 512,
    "q_lora_rank": 2048,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "qk_nope_head_dim": 192,
    "first_k_dense_replace": 3,
    "index_head_dim": 128,
    "index_n_heads": 32,
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "symmetric": False, "strategy": "group", "group_size": 128},
            }
        },
        "ignore": [
            "lm_head",
            "re:.*self_attn.*",
            "re:.*shared_experts.*",
            "re:.*mlp\\.gate$",
            "re:model.layers.[0-2].mlp.*",
        ],
    },
}
"""config.json of the model that an operator ran on a1, as the ledger needs it."""


def whole(*parts: int) -> Plan:
    told = facts(models=(folder(WHOLE, tuple(range(78))),))
    return only(cut(*parts, told=told, kv_cache_dtype="fp8_ds_mla", gpu_memory_utilization=0.95))


def test_without_figures_of_its_own_the_ledger_says_what_an_aligned_cut_costs() -> None:
    """An operator's two measured stages say 8.87 %; the prediction of an unmeasured node comes near."""
    found = whole(41, 37).boundary
    assert isinstance(found, Repair) and (found.kind, found.partition) == ("pattern", (41, 37))
    assert found.rejected[0].startswith("the aligned 42,36 costs 9.")
    cheap = whole(39, 39).boundary
    assert isinstance(cheap, Repair) and (cheap.kind, cheap.partition, cheap.pool_loss) == ("aligned", (42, 36), 0)


def test_a_repaired_stage_keeps_one_indexer_more_in_the_ledger() -> None:
    repaired, bare = capacity_of(whole(41, 37)), capacity_of(whole(42, 36))
    assert not isinstance(repaired, str) and not isinstance(bare, str)
    assert [stage.indexers for stage in repaired.stages] == [12, 9 + 1 + 1]  # the repaired layer, and the draft's
    assert [stage.indexers for stage in bare.stages] == [12, 9 + 1]
