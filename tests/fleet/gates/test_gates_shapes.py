"""A layout divides the model into parts that the engine can run, and leaves no GPU idle without a word."""

from typing import Any

import pytest

from fleet.nodes.node import ModelFolder
from tests.fleet.builders import GLM, LLAMA, MODEL, checkpoint, facts, fails, fleet_with, passes, warns

QWEN: dict[str, Any] = {
    "model_type": "qwen2",
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "max_position_embeddings": 1_048_576,
}
TP8 = {"layout": {"tp": 8}, "speculative": "none"}


def gptq(group: int) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": group}}


def test_the_hidden_size_is_divided_by_tp() -> None:
    passes("hidden-divides", fleet_with())
    odd = GLM | {"hidden_size": 6142, "num_attention_heads": 64}
    fails("hidden-divides", fleet_with(config=odd), "want hidden_size 6142 divisible by TP, found TP 4")
    fails("hidden-divides", fleet_with(config=LLAMA, **TP8), "hidden_size in config.json, found none")


def test_a_part_that_is_no_whole_number_of_groups_is_refused() -> None:
    grouped = fleet_with(config=QWEN | gptq(128), **TP8)
    fails("quantisation-blocks", grouped, "intermediate_size 29568 / TP in whole blocks of 128, found 29568 / 8 = 3696")
    passes("quantisation-blocks", fleet_with(config=QWEN, **TP8))
    passes("quantisation-blocks", fleet_with(config=QWEN | gptq(-1), **TP8))
    passes("quantisation-blocks", fleet_with(config=QWEN | {"intermediate_size": 29696} | gptq(128), **TP8))


MOE = QWEN | {"num_experts": 64, "moe_intermediate_size": 640, "intermediate_size": 20480}
FP8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_experts_of_640_are_not_cut_into_blocks_of_128(tp: int) -> None:
    layout = {"layout": {"tp": tp}, "speculative": "none"}
    fails("quantisation-blocks", fleet_with(config=MOE | FP8, **layout), f"found 640 / {tp} = {640 / tp:g}")
    passes("quantisation-blocks", fleet_with(config=MOE, **layout))
    spread = {"flags": {"--enable-expert-parallel": True}}
    passes("quantisation-blocks", fleet_with(config=MOE | FP8, **layout, **spread))


def test_only_matrices_that_are_quantised_have_blocks() -> None:
    plain = FP8["quantization_config"] | {"ignored_layers": ["re:.*mlp.*"]}
    passes("quantisation-blocks", fleet_with(config=QWEN | {"quantization_config": plain}, **TP8))


def test_a_part_that_is_no_whole_number_is_refused_without_any_quantisation() -> None:
    odd = QWEN | {"intermediate_size": 29569}
    fails("quantisation-blocks", fleet_with(config=odd, **TP8), "29569 / TP whole, found 29569 / 8 = 3696.12")


@pytest.mark.parametrize(
    ("quantization", "text"),
    [
        ({"quant_method": "wings"}, "'wings'"),
        ({"quant_method": "gptq", "bits": 4, "group_size": "many"}, "'many'"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "[128]"),
        ([], "found []"),
    ],
)
def test_a_quantisation_that_is_not_known_is_not_passed(quantization: object, text: str) -> None:
    config = QWEN | {"quantization_config": quantization}
    fails("quantisation-blocks", fleet_with(config=config, **TP8), text)


def folder(**changes: Any) -> Any:
    sound = {"path": MODEL, "config": GLM, "checkpoint": checkpoint()}
    return facts(models=(ModelFolder.model_validate(sound | changes),))


FORCED = {"hf_overrides": {"index_topk_pattern": "F" * 3 + "S" * 36 + "F" + "S" * 38}}


def test_a_layer_that_is_forced_to_compute_has_an_indexer() -> None:
    passes("indexer-weights", fleet_with())
    whole = folder(indexer_layers=tuple(range(78)))
    passes("indexer-weights", fleet_with(told=whole, **FORCED))
    shipped = folder(indexer_layers=(0, 1, 2, 6, 10))
    fails("indexer-weights", fleet_with(told=shipped, **FORCED), "none for layers 39")


def test_tensor_names_that_were_not_read_promise_no_indexer() -> None:
    unread = folder(tensors_error="no model.safetensors.index.json")
    fails("indexer-weights", fleet_with(told=unread, **FORCED), "no model.safetensors.index.json")


HYBRID = QWEN | {
    "num_hidden_layers": 8,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"] + ["linear_attention"] * 4,
}


def test_a_stage_without_a_kind_of_layer_is_a_warning() -> None:
    passes("hybrid-stages", fleet_with())
    cut = {"layout": {"tp": 4, "pp": 2, "partition": [4, 4]}, "speculative": "none"}
    warns("hybrid-stages", fleet_with(config=HYBRID, **cut), "no full_attention on stage 1")
    passes("hybrid-stages", fleet_with(config=HYBRID, **TP8))
    fails("hybrid-stages", fleet_with(config=HYBRID | {"layer_types": "wings"}, **cut), "found 'wings'")


UUID = "GPU-5269b708-678a-b1a8-60f0-c90406537486"


@pytest.mark.parametrize("value", ["0", "GPU-5269b708", "0,1,2,3,4,5,6,7,", "MIG-" + UUID[4:], "0,0,1,2,3,4,5,6", ""])
def test_gpus_of_the_owner_are_named_in_a_form_that_the_engine_takes(value: str) -> None:
    fails("visible-devices", fleet_with(env={"CUDA_VISIBLE_DEVICES": value}), "8 different indices or GPU UUIDs")


@pytest.mark.parametrize("value", ["7,6,5,4,3,2,1,0", ",".join(UUID[:-1] + str(gpu) for gpu in range(8))])
def test_indices_and_whole_uuids_are_taken(value: str) -> None:
    passes("visible-devices", fleet_with())
    passes("visible-devices", fleet_with(env={"CUDA_VISIBLE_DEVICES": value}))


def test_too_few_requests_for_the_stages_are_a_warning_with_the_bubble() -> None:
    passes("stages-busy", fleet_with())
    passes("stages-busy", fleet_with(flags={"--max-num-seqs": 8}))
    warns(
        "stages-busy", fleet_with(flags={"--max-num-seqs": 4}), "at least 4 x PP 2 = 8, found 4: 20% of each GPU's time"
    )
    passes("stages-busy", fleet_with(flags={"--max-num-seqs": 1}, **TP8))
    fails("stages-busy", fleet_with(flags={"--max-num-seqs": "many"}), "as a number, found 'many'")


def test_gpus_that_nobody_uses_are_a_warning_unless_they_are_left_out_on_purpose() -> None:
    passes("gpus-used", fleet_with())
    warns("gpus-used", fleet_with(layout={"tp": 4}, speculative="none"), "4, 5, 6, 7 idle at TP4/PP1")
    passes("gpus-used", fleet_with(layout={"tp": 4}, gpus=[0, 1, 2, 3], speculative="none"))


def test_a_start_budget_is_longer_than_the_checkpoint_can_be_read() -> None:
    passes("start-budget", fleet_with())
    warns(
        "start-budget",
        fleet_with(policy={"start_budget_s": 600}),
        "at least 650 s for 390 GiB at 0.6 GiB/s, found start_budget_s: 600",
    )
    fails("start-budget", fleet_with(policy={"start_budget_s": 30}), "found start_budget_s: 30")
    fails("start-budget", fleet_with(told=folder(checkpoint=None)), "the tensors of the checkpoint, found nothing")


def test_a_checkpoint_is_whole() -> None:
    passes("checkpoint", fleet_with())
    cut = folder(checkpoint=None, checkpoint_error="model-00002-of-00005.safetensors is missing")
    fails("checkpoint", fleet_with(told=cut), "model-00002-of-00005.safetensors is missing")
    fails("checkpoint", fleet_with(told=facts(models=())), "a whole checkpoint in /models/glm-5.2, found nothing")
