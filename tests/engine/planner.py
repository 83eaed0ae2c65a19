"""The engine's own KV planner: a grid of layouts as JSON on stdin, what it plans for each on stdout.

Runs with the interpreter of the engine and knows nothing of this project. Specs are made as the engine's attention
layers make them (`get_kv_cache_spec`); groups, blocks and the printed pool are `get_kv_cache_configs`' own.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from vllm.config import CacheConfig, ModelConfig, ParallelConfig, SchedulerConfig, VllmConfig
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)

TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 4194304,
    "torch_dtype": "bfloat16",
}
BYTE = {"fp8": torch.uint8, "fp8_ds_mla": torch.uint8, "auto": torch.bfloat16}


def engine_config() -> VllmConfig:
    """A configuration whose model does not matter: only lengths, sizes and flags are read by the planner."""
    folder = Path(tempfile.mkdtemp())
    (folder / "config.json").write_text(json.dumps(TINY))
    model = ModelConfig(model=str(folder), skip_tokenizer_init=True, dtype="bfloat16")
    scheduler = SchedulerConfig(max_num_batched_tokens=2048, max_model_len=2048, is_encoder_decoder=False)
    return VllmConfig(
        model_config=model,
        parallel_config=ParallelConfig(),
        scheduler_config=scheduler,
        cache_config=CacheConfig(block_size=16),
    )


def computes(config: dict[str, Any], layer: int) -> bool:
    """Does this layer have an indexer of its own?"""
    freq, offset = config.get("index_topk_freq", 1), config.get("index_skip_topk_offset", 2)
    return max(layer - offset + 1, 0) % freq == 0


def attention(case: dict[str, Any], kind: str) -> KVCacheSpec:
    """The spec of one layer with keys and values."""
    config, block = case["config"], case["block"]
    heads = max(1, config["num_key_value_heads"] // case["tp"])
    common = {"block_size": block, "num_kv_heads": heads, "head_size": config["head_dim"], "dtype": BYTE[case["dtype"]]}
    if kind == "sliding_attention":
        return SlidingWindowSpec(**common, sliding_window=config["sliding_window"])
    if kind == "chunked_attention":
        return ChunkedLocalAttentionSpec(**common, attention_chunk_size=config["attention_chunk_size"])
    return FullAttentionSpec(**common)


def latent(case: dict[str, Any], name: str, indexed: bool) -> dict[str, KVCacheSpec]:
    """The specs of one layer of MLA, with its indexer where it has one."""
    config, block = case["config"], case["block"]
    found: dict[str, KVCacheSpec] = {
        f"{name}.attn": MLAAttentionSpec(
            block_size=block,
            num_kv_heads=1,
            head_size=config["kv_lora_rank"] + config["qk_rope_head_dim"],
            dtype=BYTE[case["dtype"]],
            cache_dtype_str=case["dtype"],
            state_content_bytes=656 if case["dtype"] == "fp8_ds_mla" else None,
            is_index_group_leader=indexed,
        )
    }
    if indexed:
        width = config["index_head_dim"] + config["index_head_dim"] // 128 * 4
        found[f"{name}.indexer.k_cache"] = MLAAttentionSpec(
            block_size=block, num_kv_heads=1, head_size=width, dtype=torch.uint8
        )
    return found


def delta_net(case: dict[str, Any], page: int | None) -> MambaSpec:
    """The spec of one layer of linear attention."""
    config = case["config"]
    shapes = MambaStateShapeCalculator.gated_delta_net_state_shape(
        case["tp"],
        config["linear_num_key_heads"],
        config["linear_num_value_heads"],
        config["linear_key_head_dim"],
        config["linear_value_head_dim"],
        config["linear_conv_kernel_dim"],
        case["k"],
    )
    return MambaSpec(
        block_size=case["block"],
        shapes=shapes,
        dtypes=(torch.bfloat16, torch.float32),
        page_size_padded=page,
        mamba_cache_mode="align",
        num_speculative_blocks=case["k"],
    )


def grown(case: dict[str, Any]) -> int | None:
    """Grow the block of a hybrid as the platform does, with its own function. Returns the padded page of a state."""
    from vllm.platforms.interface import Platform
    from vllm.v1.attention.backend import MultipleOf

    if "linear_num_key_heads" not in case["config"]:
        return None
    spec = attention(case, "full_attention")
    state = delta_net(case, None)
    cache = SimpleNamespace(
        cache_dtype="auto",
        block_size=case["block"],
        mamba_block_size=None,
        user_specified_mamba_block_size=False,
        mamba_cache_mode="align",
        mamba_page_size_padded=None,
    )
    model = SimpleNamespace(
        dtype=torch.bfloat16,
        use_mla=False,
        architecture="x",
        get_num_kv_heads=lambda _: spec.num_kv_heads,
        get_head_size=lambda: spec.head_size,
    )
    backend = SimpleNamespace(get_supported_kernel_block_sizes=lambda: [MultipleOf(16)], customize_spec=lambda one: one)
    made = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda _: state.shapes,
        get_mamba_state_dtype_from_config=lambda _: state.dtypes,
    )
    import vllm.model_executor.models as models

    models.ModelRegistry.resolve_model_cls = lambda *_, **__: (made, "x")
    settings = SimpleNamespace(cache_config=cache, model_config=model, parallel_config=None)
    import vllm.config

    class Nothing:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    vllm.config.vllm.set_current_vllm_config = lambda *_: Nothing()
    Platform._align_hybrid_block_size(settings, backend)
    case["block"] = cache.block_size
    return cache.mamba_page_size_padded


def stages(case: dict[str, Any]) -> list[dict[str, KVCacheSpec]]:
    """The specs of each stage, layer by layer, the draft's on the last."""
    config, page = case["config"], grown(case)
    kinds, found, first = config.get("layer_types"), [], 0
    for stage, layers in enumerate(case["partition"]):
        specs: dict[str, KVCacheSpec] = {}
        orphaned = stage > 0
        for index in range(first, first + layers):
            name = f"model.layers.{index}.self_attn"
            kind = kinds[index] if kinds else "full_attention"
            own = "index_head_dim" in config and computes(config, index)
            orphaned = orphaned and not own
            if "kv_lora_rank" in config:
                specs |= latent(case, name, own or (orphaned and "index_head_dim" in config))
            elif kind == "linear_attention":
                specs[f"{name}.attn"] = delta_net(case, page)
            else:
                specs[f"{name}.attn"] = attention(case, kind)
        first += layers
        found.append(specs)
    for draft in range(case["drafts"]):
        name = f"model.layers.{first + draft}.self_attn"
        if "kv_lora_rank" in config:
            found[-1] |= latent(case, name, "index_head_dim" in config)
        else:
            found[-1][f"{name}.attn"] = attention(case, "full_attention")
    return found


def plan(engine: VllmConfig, specs: list[dict[str, KVCacheSpec]], available: list[int]) -> list[Any]:
    """`get_kv_cache_configs`, which from 0.33 on takes the groups and has another module."""
    try:
        from vllm.v1.core import kv_cache_planning
    except ImportError:
        return kv_cache_utils.get_kv_cache_configs(engine, specs, available)
    groups = kv_cache_planning.get_global_kv_cache_groups(engine, specs)
    return kv_cache_planning.get_kv_cache_configs(engine, specs, available, groups)


def planned(engine: VllmConfig, case: dict[str, Any]) -> dict[str, Any]:
    """What the planner makes of one case."""
    engine.model_config.max_model_len = case["length"]
    engine.model_config.original_max_model_len = case["length"]
    engine.parallel_config.pipeline_parallel_size = case["pp"]
    engine.parallel_config.decode_context_parallel_size = case["dcp"]
    engine.scheduler_config.max_num_batched_tokens = case["batched"]
    engine.scheduler_config.async_scheduling = True
    engine.cache_config.mamba_cache_mode = "align"
    engine.cache_config.kv_cache_layout = "LBHNC"
    try:
        configs = plan(engine, stages(case), case["available"])
    except (ValueError, NotImplementedError) as error:
        return {"refused": str(error)}
    tokens, _ = get_kv_cache_capacity(engine, configs[0])
    groups = [len(group.layer_names) for group in configs[0].kv_cache_groups]
    return {
        "blocks": configs[0].num_blocks,
        "tokens": tokens,
        "groups": len(groups),
        "in_flight": engine.max_in_flight_tokens,
    }


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    settings = engine_config()
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"  # what a GPU has by itself; the CPU build refuses to be made with it
    print("PLANNED " + json.dumps([planned(settings, case) for case in asked]))
