"""Which layout is chosen, what for, and what is said of the others."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.declaration import NodeDeclaration
from fleet.layouts.capacity import Capacity, capacity
from fleet.layouts.objective import Target
from fleet.layouts.question import MeasuredCut, Question
from fleet.layouts.ranking import Choice, choose
from fleet.layouts.repair import Repair
from fleet.layouts.search import pool_of
from fleet.layouts.sizes import Sizes, every_sizes
from fleet.ledger.budget import Measured, MeasuredStage
from fleet.nodes.node import ModelFolder
from fleet.plan import Plan, question
from tests.fleet.builders import MODEL, PAIRS, facts, fleet_with, node, run, service

MODELS = Path(__file__).resolve().parents[3] / "lab" / "models"
SWITCH = ((0, 1, 2, 3, 4, 5, 6, 7),)
A100 = node()
H100 = node(nvlink_islands=SWITCH, gpus={"count": 8, "model": "NVIDIA H100 80GB HBM3", "memory_mib": 81_559})
CARDS = node(
    nvlink_islands=(),
    numa=(0, 0, 1, 1),
    gpus={"count": 4, "model": "NVIDIA L40S", "memory_mib": 46_068},
)
GLM_AS_RUN = {"kv_cache_dtype": "fp8_ds_mla", "gpu_memory_utilization": 0.95}


def config(name: str, **changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads((MODELS / name / "config.json").read_text())
    return whole | changes


def asked(
    document: dict[str, Any], on: NodeDeclaration = A100, evidence: tuple[Any, ...] = (), **changes: Any
) -> Question:
    """The question of a service `layout: auto` on a node that told no topology of its own."""
    wanted = service(**({"layout": "auto", "speculative": "none", "max_model_len": 131_072} | changes))
    told = facts(document, topology=None)
    (plan,) = fleet_with(on, told, config=document, layout="auto", hf_overrides=wanted.hf_overrides).plans
    found = question(on, wanted, told, plan.architecture, evidence)
    assert found is not None
    return found


def glm(on: NodeDeclaration = A100, **changes: Any) -> Question:
    return asked(config("glm-dsa-78"), on, **(GLM_AS_RUN | {"speculative": "mtp:3"} | changes))


def qwen(on: NodeDeclaration = H100, **changes: Any) -> Question:
    return asked(config("qwen-72b"), on, **changes)


def best(of: Question) -> str:
    return str(of.choice().best)


def reasons(choice: Choice) -> dict[str, str]:
    return {str(one.candidate.sizes): one.reason for one in choice.rejected}


def test_every_size_is_considered_with_as_many_replicas_as_fit() -> None:
    assert {str(sizes) for sizes in every_sizes(4)} == {
        "TP1/PP1/DP4", "TP1/PP2/DP2", "TP1/PP3", "TP1/PP4", "TP2/PP1/DP2", "TP2/PP2", "TP3/PP1", "TP4/PP1",
    }  # fmt: skip
    assert every_sizes(0) == ()


def test_the_operators_machine_gets_the_operators_layout() -> None:
    assert best(glm()) == "TP4/PP2 42,36"
    assert best(glm(boundary_repaired=True)) == "TP4/PP2 41,37"


def test_a_layout_that_does_not_hold_says_by_how_much() -> None:
    said = reasons(glm(max_model_len=524_288).choice())
    assert said["TP4/PP1/DP2"].startswith("weights 100.") and said["TP4/PP1/DP2"].endswith("exceed 75.3")
    assert re.fullmatch(r"weights 10\d\.\d GiB on stage \d exceed 75.3", said["TP2/PP2/DP2"])
    assert "tokens is less than one request of 524,288" in said["TP8/PP1"]
    assert "64 attention heads do not divide by TP 3" in said["TP3/PP1/DP2"]


def test_more_than_two_stages_of_an_index_sharing_model_need_a_stored_run() -> None:
    said = reasons(glm().choice())
    assert "no run of 200 trials with none bad is stored" in said["TP2/PP4"]
    opened = run(model="glm-5.2", partition=[22, 20, 20, 16])
    assert best(glm(objective="context", evidence=(opened,))) == "TP2/PP4 22,20,20,16"
    unaligned = run(model="glm-5.2", partition=[20, 20, 20, 18])
    assert best(glm(objective="context", evidence=(unaligned,))) == "TP4/PP2 42,36"


def test_a_partition_with_bad_answers_in_a_stored_run_is_not_taken() -> None:
    bad = run(model="glm-5.2", partition=[42, 36], trials=100, bad=21)
    found = glm(evidence=(bad,)).choice().best
    assert found is not None and found.partition != (42, 36) and found.sizes == Sizes(tp=4, pp=2)


def planned_with_indexers(layers: range, **changes: Any) -> Plan:
    """glm with `layout: auto` on a checkpoint that has indexer weights of these layers."""
    document = config("glm-dsa-78")
    told = facts(models=(ModelFolder(path=MODEL, config=document, indexer_layers=tuple(layers)),))
    (plan,) = fleet_with(A100, told, layout="auto", max_model_len=131_072, **(GLM_AS_RUN | changes)).plans
    return plan


def test_a_cut_that_the_engine_can_repair_is_taken_where_an_aligned_one_costs_too_much() -> None:
    plan = planned_with_indexers(range(79))
    assert plan.layout is not None and plan.layout.partition == (41, 37)
    assert isinstance(plan.boundary, Repair) and plan.boundary.kind == "pattern"
    assert plan.hf_overrides["index_topk_pattern"][41] == "F"


@pytest.mark.parametrize(
    ("layers", "boundary"),
    [
        (range(79), {"max_pool_loss": 0.2}),
        (range(79), {"repair": "aligned"}),
        (range(79), {"repair": "none"}),
        (range(0), {}),
    ],
)
def test_an_aligned_cut_is_taken_where_it_is_cheap_or_nothing_may_be_repaired(
    layers: range, boundary: dict[str, Any]
) -> None:
    plan = planned_with_indexers(layers, boundary=boundary)
    assert plan.layout is not None and plan.layout.partition == (42, 36) and plan.boundary is None


def test_a_stage_that_starts_on_a_sharing_layer_is_told_with_its_source() -> None:
    cuts = glm().case.cuts
    assert cuts.problem((39, 39)) == "stage 1 starts on layer 39, which shares layer 38's indices"
    assert cuts.problem((42, 36)) is None


def test_latency_takes_tp_as_wide_as_the_switch() -> None:
    assert best(qwen()) == "TP8/PP1"
    assert "times the cost of a step" in reasons(qwen().choice())["TP4/PP2"]


def test_throughput_takes_replicas_before_a_wider_tp() -> None:
    assert best(qwen(objective="throughput", max_model_len=8_192)) == "TP4/PP1/DP2"
    said = reasons(qwen(objective="throughput", max_model_len=8_192).choice())
    assert said["TP8/PP1"] == "throughput: 1 replica instead of 2"
    assert said["TP2/PP2/DP2"] == "throughput: 2 stages where TP needs 1"


def test_throughput_widens_where_a_replica_would_be_cramped() -> None:
    assert best(qwen(objective="throughput", max_model_len=131_072)) == "TP8/PP1"


def test_tp_stays_inside_a_pair_and_a_pipeline_goes_over_the_slow_links() -> None:
    pairs = node(gpus={"count": 8, "model": "NVIDIA H100 80GB HBM3", "memory_mib": 81_559})
    assert best(qwen(pairs, objective="throughput", max_model_len=8_192)).startswith("TP2/PP2/DP2 ")


def test_without_nvlink_throughput_goes_to_stages() -> None:
    half = asked(config("llama-70b", num_hidden_layers=56), CARDS, objective="throughput", max_model_len=4_096)
    assert best(half).startswith("TP1/PP4 ")
    assert reasons(half.choice())["TP4/PP1"] == "throughput: a TP group would talk over socket links"
    assert reasons(half.choice())["TP2/PP2"] == "throughput: a TP group would talk over host links"


def test_context_takes_the_largest_pool_and_of_nearly_equal_ones_the_quickest() -> None:
    assert best(qwen(objective="context")) == "TP8/PP1"
    found = glm(objective="context").choice()
    assert str(found.best) == "TP4/PP2 42,36"
    assert "instead of" in reasons(found)["TP8/PP1"]


def test_a_target_is_met_by_the_layout_with_the_most_replicas_that_meets_it() -> None:
    few = qwen(objective={"context": 8_192, "concurrent": 16}, max_model_len=8_192)
    many = qwen(objective={"context": 8_192, "concurrent": 150}, max_model_len=8_192)
    assert (best(few), best(many)) == ("TP4/PP1/DP2", "TP8/PP1")


def test_a_target_that_no_layout_meets_takes_the_one_that_comes_nearest_and_says_how_near() -> None:
    found = qwen(objective={"context": 131_072, "concurrent": 50}).choice()
    assert found.best is not None and found.best.resident(131_072) < 50
    assert "of 50 requests of 131,072 tokens" in reasons(found)["TP4/PP1/DP2"]


def test_a_limit_on_the_time_of_a_token_rules_out_what_cannot_read_its_weights_in_time() -> None:
    found = qwen(objective={"context": 8_192, "tpot_p99_ms": 12}, max_model_len=8_192).choice()
    assert str(found.best) == "TP8/PP1"
    assert "reading the weights alone takes" in reasons(found)["TP2/PP4"]
    assert "TP4/PP1/DP2" in {str(one.candidate.sizes) for one in found.rejected if "times" in one.reason}


def test_a_limit_on_the_first_token_needs_a_measured_rate_to_rule_out_anything() -> None:
    target = {"context": 100_000, "concurrent": 4, "ttft_p99_s": 60}
    assert qwen(objective=target).choice().best is not None
    slow = qwen(objective=target, prefill_tokens_per_s=2_600).choice()
    assert slow.best is None and "the last of 4 prompts waits 154 s, more than 60" in reasons(slow)["TP8/PP1"]


def test_speculation_that_was_asked_for_by_name_forbids_stages_where_it_does_not_run() -> None:
    old = {"name": "vllm", "digest": "sha256:" + "a" * 64, "engine": "0.29.0"}
    said = reasons(glm(image=old).choice())
    assert "engine 0.29.0 has no mtp under a pipeline" in said["TP4/PP2"]
    assert "engine 0.29.0" not in reasons(glm(image=old, speculative="auto").choice()).get("TP4/PP2", "")
    assert "the V2 model runner has none" in reasons(qwen(speculative="ngram").choice())["TP4/PP2"]


QUANTISED = {"quant_method": "awq", "bits": 4, "group_size": 128}


def test_a_shard_that_ends_inside_a_quantisation_group_is_refused() -> None:
    awq = asked(config("qwen-72b", quantization_config=QUANTISED), H100)
    want = "intermediate size 29,568 / 8 = 3,696 is no multiple of the quantisation group of 128"
    assert reasons(awq.choice())["TP8/PP1"] == want
    assert "TP8/PP1" not in reasons(qwen().choice())


def test_experts_are_held_against_the_group_and_dense_layers_beside_them_are_not() -> None:
    narrow = reasons(asked(config("glm-dsa-78", moe_intermediate_size=1_536), A100, **GLM_AS_RUN).choice())
    assert "expert size 1,536 / 8 = 192 is no multiple of the quantisation group of 128" in narrow["TP8/PP1"]
    assert "group" not in reasons(glm(max_model_len=524_288).choice())["TP8/PP1"]
    assert "expert size 1,536 / 8 = 192 is no multiple" in narrow["TP4/PP1/DP2"]


def test_a_replica_that_cannot_be_is_told_without_its_number() -> None:
    found = glm(max_model_len=524_288).choice()
    assert {"TP4/PP1", "TP1/PP1"} <= {one.name for one in found.rejected}
    assert "TP4/PP1: weights 100." in " ".join(map(str, found.rejected))


def test_kv_heads_and_the_padded_vocabulary_must_divide_too() -> None:
    odd = asked(
        config("qwen-72b", num_attention_heads=48, num_key_value_heads=6, hidden_size=6_144, head_dim=128), H100
    )
    assert "6 KV heads neither divide by TP 4 nor are replicated evenly" in reasons(odd.choice())["TP4/PP2"]
    three = reasons(asked(config("qwen-72b", num_attention_heads=66, vocab_size=64), H100).choice())
    assert "the vocabulary, padded to 64 rows, does not divide by TP 3" in three["TP3/PP1/DP2"]


def test_a_lost_gpu_is_left_out() -> None:
    told = facts(config("qwen-72b"))
    broken = told.nvidia.gpus[3].model_copy(update={"problem": "[GPU is lost]"})
    others = tuple(broken if gpu.index == 3 else gpu for gpu in told.nvidia.gpus)
    told = told.model_copy(update={"nvidia": told.nvidia.model_copy(update={"gpus": others})})
    (plan,) = fleet_with(H100, told, layout="auto", speculative="none", max_model_len=131_072).plans
    assert plan.layout is not None and 3 not in plan.layout.device_order


def test_without_a_ledger_the_model_is_spread_over_as_many_gpus_as_any_and_it_is_said() -> None:
    unknown = asked(config("qwen-72b", model_type="brand_new"), H100, objective="throughput")
    found = unknown.choice()
    assert str(found.best) == "TP8/PP1" and "memory is unknown" in found.notes[0]
    assert "memory is unknown" in reasons(found)["TP1/PP1/DP8"]
    on_pairs = asked(config("qwen-72b", model_type="brand_new"), A100).choice()
    assert on_pairs.best is not None and on_pairs.best.sizes == Sizes(tp=4, pp=2)


def test_the_chosen_partition_reaches_the_engine() -> None:
    (plan,) = fleet_with(A100, facts(config("glm-dsa-78")), layout="auto", max_model_len=131_072, **GLM_AS_RUN).plans
    assert plan.layout is not None and plan.layout.declared_partition == (42, 36)
    assert plan.layout_error is None


def test_the_pool_never_grows_when_memory_shrinks() -> None:
    pools = []
    for gib in range(80, 40, -2):
        found = glm().model_copy(update={"gpu_mib": gib * 1024}).choice()
        figures = [one.candidate.pool for one in found.rejected if one.candidate.pool is not None]
        pools.append(max([*figures, found.best.pool if found.best and found.best.pool else -(1 << 40)]))
    assert pools == sorted(pools, reverse=True) and len(set(pools)) > 10


@settings(max_examples=25)
@given(st.permutations(range(8)))
def test_permuting_gpu_numbers_permutes_the_plan(names: list[int]) -> None:
    def renamed(pairs: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(names[gpu] for gpu in pair) for pair in pairs)

    numa = tuple(0 if names.index(gpu) < 4 else 1 for gpu in range(8))
    plain, permuted = glm().choice().best, glm(node(nvlink_islands=renamed(PAIRS), numa=numa)).choice().best
    assert plain is not None and permuted is not None
    assert (permuted.sizes, permuted.partition, permuted.pool) == (plain.sizes, plain.partition, plain.pool)
    halves = {frozenset(names[gpu] for gpu in half) for half in (plain.order[:4], plain.order[4:])}
    assert {frozenset(permuted.order[:4]), frozenset(permuted.order[4:])} == halves


def test_the_chosen_partition_is_the_best_of_all_two_stage_cuts_that_are_allowed() -> None:
    for of in (glm(objective="context"), glm(objective="context", boundary_repaired=True)):
        memory, found = of.memory(), of.choice().best
        assert found is not None and not isinstance(memory, str)
        tokens = partial(memory.tokens, Sizes(tp=4, pp=2))
        allowed = [cut for cut in ((n, 78 - n) for n in range(1, 78)) if of.case.cuts.problem(cut) is None]
        pools = {cut: pool_of(cut, tokens) for cut in allowed}
        assert pools[found.partition] == max(pools.values()) == found.pool


def test_what_was_measured_explains_and_does_not_choose() -> None:
    cramped = Measured(partition=(78,), stages=(MeasuredStage(available_kv_gib=0.1),))
    measured = glm().model_copy(update={"measured": MeasuredCut(sizes=Sizes(tp=8), budget=cramped)})
    assert measured.choice() is glm().choice()
    held, estimated = capacity(measured, Sizes(tp=8), (78,)), capacity(glm(), Sizes(tp=8), (78,))
    assert isinstance(held, Capacity) and isinstance(estimated, Capacity) and held.pool < estimated.pool


def test_equal_questions_are_answered_once() -> None:
    assert glm().choice() is glm().choice()
    assert glm() == glm() and hash(glm()) == hash(glm())


def test_a_case_without_gpus_has_no_layout() -> None:
    nothing = choose(glm().case.model_copy(update={"gpus": ()}), None, "no reason")
    assert nothing.best is None and nothing.why_none == "no GPU"


def test_a_target_reads_as_it_was_meant() -> None:
    assert str(Target(context=8_192, ttft_p99_s=2.5)) == "1 requests of 8,192 tokens, TTFT 2.5 s"


@pytest.mark.parametrize("gpus", [1, 3, 5, 6, 7])
def test_odd_numbers_of_gpus_get_a_layout_too(gpus: int) -> None:
    few = node(gpus={"count": gpus, "model": "NVIDIA H200", "memory_mib": 143_771}, nvlink_islands=(), numa=())
    found = asked(config("llama-70b"), few, max_model_len=4_096, objective="throughput").choice()
    assert (found.best is not None) == (gpus > 1)
