"""Start-up figures of other people's engines: the pool from the memory they logged, and the weights they loaded."""

from typing import Any

import pytest
from engine_facts import cases, config, models, needs_engine_facts

from fleet.layouts.boundary import even_partition
from fleet.ledger.budget import First, Given, gib
from fleet.ledger.cold import Cold
from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Draft, Serving
from fleet.model.read import read_model
from fleet.model.shape import GIB

pytestmark = needs_engine_facts


def compressed(bits: int, kind: str, form: str) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, "strategy": "channel"}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "config_groups": groups}


DELTA_NET = {"linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128}
DELTA_NET |= {"linear_conv_kernel_dim": 4}
W8A8 = {"model_type": "llama", "quantization_config": compressed(8, "int", "int-quantized")}
FULL = [4, 8, 12, 16, 20, 24, 27]
SIGLIP = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "image_size": 896,
}
GEMMA_3 = {
    "model_type": "gemma3_text",
    "vision_config": SIGLIP,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    "rope_local_base_freq": 10000.0,
}

# What the public config.json of each model says beside the numbers that were handed over.
SAID: dict[str, dict[str, Any]] = {
    "meta-llama/Llama-3.1-8B-Instruct": {"model_type": "llama", "max_position_embeddings": 131072},
    "redhatai/Llama-3.3-70B-Instruct-quantized.w8a8": W8A8,
    "neuralmagic/Meta-Llama-3.1-70B-Instruct-quantized.w8a8": W8A8,
    "Qwen/Qwen2.5-7B-Instruct": {"model_type": "qwen2", "max_position_embeddings": 32768},
    "RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic": {
        "model_type": "qwen2",
        "quantization_config": compressed(8, "float", "float-quantized"),
    },
    "Qwen/Qwen3-14B": {"model_type": "qwen3"},
    "Qwen/Qwen3-32B": {"model_type": "qwen3"},
    "Qwen/Qwen3-0.6B": {"model_type": "qwen3"},
    "Qwen/Qwen3-32B-AWQ": {
        "model_type": "qwen3",
        "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    },
    "deepseek-ai/DeepSeek-V2-Lite-Chat": {
        "model_type": "deepseek_v2",
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "max_position_embeddings": 163840,
    },
    "openai/gpt-oss-20b": {
        "model_type": "gpt_oss",
        "quantization_config": {"quant_method": "mxfp4"},
        "attention_bias": True,
    },
    "MiniMaxAI/MiniMax-M2.5": {
        "model_type": "minimax_m2",
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    },
    "mistralai/Mixtral-8x7B-Instruct-v0.1": {"model_type": "mixtral"},
    "moonshotai/Kimi-Dev-72B": {"model_type": "qwen2"},
    "Qwen/Qwen2.5-1.5B-Instruct": {"model_type": "qwen2", "tie_word_embeddings": True},
    "codellama/CodeLlama-7b-hf": {"model_type": "llama"},
    "microsoft/phi-4": {"model_type": "phi3"},
    "google/gemma-2-27b-it": {"model_type": "gemma2"},
    "google/gemma-3-12b-it": GEMMA_3,
    "google/gemma-3-27b-it": GEMMA_3,
    "ibm-granite/granite-3.1-8b-instruct": {"model_type": "granite", "tie_word_embeddings": True},
    "moonshotai/Kimi-K2-Thinking": {"model_type": "kimi_k2"},
    "zai-org/GLM-5.1-NVFP4-MTP": {"model_type": "glm_moe_dsa"},
    "RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8": {"model_type": "mistral"},
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": {
        "model_type": "llama4_text",
        "attention_chunk_size": 8192,
        "max_position_embeddings": 10485760,
    },
    "RedHatAI/Qwen3.6-35B-A3B-NVFP4": {"model_type": "qwen3_5_moe", "mamba_ssm_dtype": "float32"},
    "Qwen/Qwen3-Next-80B-A3B-Instruct": {"model_type": "qwen3_next", "linear_num_value_heads": 32, **DELTA_NET},
    "Qwen/Qwen3.8-27B": {
        "model_type": "qwen3_5",
        "mamba_ssm_dtype": "float32",
        "linear_num_value_heads": 48,
        **DELTA_NET,
    },
    "Qwen/Qwen3.5-9B": {
        "model_type": "qwen3_5",
        "mamba_ssm_dtype": "float32",
        "linear_num_value_heads": 32,
        **DELTA_NET,
    },
    "cyankiwi/Kimi-Linear-48B-A3B-Instruct-AWQ-4bit": {
        "model_type": "kimi_linear",
        "linear_attn_config": {"full_attn_layers": FULL, "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4},
    },
}

# Cases without a version: what they printed shows on which side of 0.20.1 they are.
VERSION = {"c102": "0.19", "c143": "0.21"}
NOT_COUNTED = {
    "c066": "the weights of its three stages were told as one number",
    "c155": "its DFlash draft is not known",
}


def known(case: dict[str, Any]) -> bool:
    return case.get("model") in SAID and case["id"] not in NOT_COUNTED


def ledger(case: dict[str, Any]) -> Ledger:
    method, _, k = str(case.get("speculative", "none")).partition(" ")
    draft = None if method == "none" else Draft(method=method, k=int(k or 3))
    serving = Serving(
        engine=case.get("vllm_version") or VERSION.get(case["id"], "0.19"),
        tp=case.get("tp", 1),
        pp=case.get("pp", 1),
        dcp=case.get("dcp", 1),
        kv_cache_dtype=case.get("kv_cache_dtype", "auto"),
        draft=draft,
        max_model_len=case.get("max_model_len", 8192),
        block_size=case.get("block_size"),
    )
    return Ledger(read_model({**models()[case["model"]], **SAID[case["model"]]}), serving)


POOLS = [case for case in cases() if known(case) and case.get("available_kv_gib") and case.get("kv_tokens")]
LOADED = [
    case
    for case in cases()
    if known(case)
    and case.get("model_loading_gib")
    and not read_model({**models()[case["model"]], **SAID[case["model"]]}).missing
]


@pytest.mark.parametrize("case", POOLS, ids=lambda case: f"{case['id']}-{case['kind']}")
def test_the_pool_follows_from_the_memory_within_a_quarter_of_a_percent(case: dict[str, Any]) -> None:
    counted = ledger(case)
    stated = case["available_kv_gib"]
    stages = tuple(map(gib, stated if isinstance(stated, list) else [stated]))
    pool = counted.pool(even_partition(counted.layers, len(stages)), Given(stages=stages).stages)
    assert pool.tokens == pytest.approx(case["kv_tokens"], rel=0.0025)


def test_of_a_pipeline_that_logged_its_first_stage_only_that_stage_binds() -> None:
    """The middle stage has one layer more, but neither embedding nor head."""
    case = next(case for case in cases() if case["id"] == "c066")
    counted, cut = ledger(case), (21, 22, 21)
    budget = First(stage=gib(case["available_kv_gib"]), layers=21)
    room = tuple(budget.available(counted, stage, sum(cut[:stage]), sum(cut[: stage + 1])) for stage in range(3))
    pool = counted.pool(cut, room)
    assert pool.stage_tokens[0] == pytest.approx(case["kv_tokens"], rel=0.001)
    assert pool.tokens == pytest.approx(case["kv_tokens"], rel=0.01)
    assert pool.stage_tokens[1] > pool.stage_tokens[0]


@pytest.mark.parametrize("case", LOADED, ids=lambda case: f"{case['id']}-{case['kind']}")
def test_the_weights_are_those_that_the_engine_loaded_within_two_percent(case: dict[str, Any]) -> None:
    counted = ledger(case)
    stated = case["model_loading_gib"]
    loaded = stated if isinstance(stated, list) else [stated]
    cut = even_partition(counted.layers, len(loaded))
    for stage, one in enumerate(loaded):
        weights = counted.weights(stage, sum(cut[:stage]), sum(cut[: stage + 1]))
        assert weights / GIB == pytest.approx(one, rel=0.02), stage


H100 = [case for case in LOADED if str(case.get("gpu", "")).startswith("H100") and case.get("available_kv_gib")]


@pytest.mark.parametrize("case", H100, ids=lambda case: f"{case['id']}-{case['kind']}")
def test_the_cold_range_holds_what_was_logged(case: dict[str, Any]) -> None:
    """Where a log has no version it is one of before 0.18."""
    counted = ledger({"vllm_version": "0.15", **case})
    stated = case["available_kv_gib"]
    logged = stated if isinstance(stated, list) else [stated]
    cut, model = even_partition(counted.layers, len(logged)), counted.model
    utilization = case["gpu_memory_utilization"]
    cold = Cold(memory_gib=79.18, utilization=utilization, hidden=model.hidden, vocabulary=model.vocabulary)
    for stage, one in enumerate(logged):
        low, high = cold.range(counted, stage, sum(cut[:stage]), sum(cut[: stage + 1]))
        assert low / GIB <= one <= high / GIB, stage
        assert (high - low) / GIB < 12


def test_enough_kinds_of_models_and_layouts_are_among_the_cases() -> None:
    assert {case["kind"] for case in POOLS} >= {"dense", "moe", "mla", "dsa", "sliding", "sliding_moe", "hybrid_linear"}
    assert len(POOLS) > 35 and len(LOADED) > 25 and len(H100) > 20
    assert any(case.get("pp", 1) > 1 for case in POOLS) and any(case.get("dcp", 1) > 1 for case in POOLS)


DEEPSEEK_V3 = {"model_type": "deepseek_v3", "topk_method": "noaux_tc"}
DEEPSEEK_V3 |= {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}


@pytest.mark.parametrize(
    ("name", "said", "published"),
    [
        ("llama-3.1-70b", {}, 141_107_412_992),
        ("qwen2.5-72b", {}, 145_412_407_296),
        ("gpt-oss-120b", {"quantization_config": {"quant_method": "mxfp4"}}, 65_248_815_744),
    ],
)
def test_the_checkpoint_has_the_size_that_its_index_publishes(name: str, said: dict[str, Any], published: int) -> None:
    """`total_size` of the model.safetensors.index.json of each."""
    assert read_model({**config(name), **said}).stored == published


def test_a_checkpoint_in_fp8_blocks_has_nearly_the_size_that_its_index_publishes() -> None:
    """Its MTP layer repeats embedding and head, which config.json does not tell."""
    fields = {key: value for key, value in config("deepseek-v3.2").items() if not key.startswith("index_")}
    model = read_model({**fields, **DEEPSEEK_V3})
    assert model.stored + 2 * model.embedding == pytest.approx(688_586_727_753, rel=0.0001)
