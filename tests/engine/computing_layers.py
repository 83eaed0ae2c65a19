"""Run inside the engine's own interpreter: which layers of a model compute indices on each stage, by its real classes.

    python computing_layers.py '{"config": {...}, "sources": {}, "runs": [{"cut": [39, 39], "overrides": {}}]}'

Only the constructors of the attention classes run. The indexer, linear layers, norms and kernels are stubbed; what
decides whether a layer gets an indexer, and whether it skips it, is the engine's code, or for a run that is `patched`
the file in `sources` (module name -> path). Prints, for each class and each run, the computing layers of every stage
and those that start a stage without indices. `mtp`: what the layer after the last one does.
"""

import importlib
import importlib.util
import json
import os
import sys
from types import ModuleType, SimpleNamespace

import torch

GENERIC, CUDA = "vllm.model_executor.models.deepseek_v2", "vllm.models.deepseek_v32.attention"
SHAPE = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 4096,
    "index_n_heads": 2,
    "index_head_dim": 8,
}


class Stub(torch.nn.Module):
    """Takes anything, does nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def enabled(self) -> bool:
        return False


class Unset:
    """A configuration in which nothing is switched on."""

    def __getattr__(self, name: str) -> "Unset":
        return Unset()

    def __bool__(self) -> bool:
        return False


def load(name: str, sources: dict[str, str]) -> ModuleType:
    """The engine's module, from a patched file where there is one: a second copy, whose operators are there already."""
    if name not in sources:
        return importlib.import_module(name)
    package = importlib.import_module(name.rpartition(".")[0])
    spec = importlib.util.spec_from_file_location(name, sources[name])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    torch_utils = importlib.import_module("vllm.utils.torch_utils")
    registered, torch_utils.direct_register_custom_op = torch_utils.direct_register_custom_op, lambda *_, **__: None
    try:
        spec.loader.exec_module(module)
    finally:
        torch_utils.direct_register_custom_op = registered
    setattr(package, name.rpartition(".")[2], module)
    return module


def stub(module: ModuleType) -> None:
    """Everything that needs a device, a process group or memory."""
    for name in ("ColumnParallelLinear", "ReplicatedLinear", "RowParallelLinear", "RMSNorm", "LayerNorm"):
        if hasattr(module, name):
            setattr(module, name, Stub)
    module.DeepSeekV2FusedQkvAProjLinear = Stub  # type: ignore[attr-defined]
    module.get_rope = lambda *_, **__: Stub()  # type: ignore[attr-defined]
    module.get_tensor_model_parallel_world_size = lambda: 1  # type: ignore[attr-defined]


def generic(module: ModuleType, config: SimpleNamespace, layer: int) -> bool:
    """Does the class of every platform but CUDA compute indices on this layer?"""
    seen: dict[str, bool] = {}
    module.Indexer = Stub  # type: ignore[attr-defined]
    module.MultiHeadLatentAttentionWrapper = lambda *_, **given: seen.update(skip=given["skip_topk"]) or Stub()  # type: ignore[attr-defined, func-returns-value]
    made = module.DeepseekV2MLAAttention(
        vllm_config=Unset(),
        config=config,
        hidden_size=config.hidden_size,
        num_heads=config.num_attention_heads,
        qk_nope_head_dim=config.qk_nope_head_dim,
        qk_rope_head_dim=config.qk_rope_head_dim,
        v_head_dim=config.v_head_dim,
        q_lora_rank=config.q_lora_rank,
        kv_lora_rank=config.kv_lora_rank,
        cache_config=Unset(),
        prefix=f"model.layers.{layer}.self_attn",
    )
    if (made.indexer is None) != seen["skip"]:
        raise SystemExit(f"layer {layer}: an indexer is {made.indexer}, and skip_topk {seen['skip']}")
    return not seen["skip"]


def cuda(module: ModuleType, config: SimpleNamespace, layer: int) -> bool:
    """Does the class of CUDA compute indices on this layer?"""

    def plain(self: torch.nn.Module, **given: object) -> None:
        torch.nn.Module.__init__(self)
        self.use_pcp, self.kv_cache_dtype, self.layer_name = False, "auto", given["prefix"]
        self.impl = SimpleNamespace(supports_quant_query_input=False)

    module.MLAAttention.__init__ = plain
    module.DeepseekV32Attention.indexer_cls = Stub
    engine = SimpleNamespace(quant_config=None, cache_config=SimpleNamespace())
    made = module.DeepseekV32Attention(engine, config, f"model.layers.{layer}.self_attn")
    return made.indexer is not None and not made.skip_topk


def stages(cut: list[int]) -> list[range]:
    starts = [sum(cut[:stage]) for stage in range(len(cut))]
    return [range(start, start + layers) for start, layers in zip(starts, cut, strict=True)]


def of_cut(kind: str, module: ModuleType, config: SimpleNamespace, cut: list[int]) -> dict[str, object]:
    """Computing layers of each stage, and layers that start a stage without indices."""
    from vllm.distributed import parallel_state

    computes = {"generic": generic, "cuda": cuda}[kind]
    os.environ["VLLM_PP_LAYER_PARTITION"] = ",".join(map(str, cut))
    computing, orphans = [], []
    for stage, layers in enumerate(stages(cut)):
        group = SimpleNamespace(rank_in_group=stage, world_size=len(cut))
        parallel_state.get_pp_group = lambda group=group: group
        own = [layer for layer in layers if computes(module, config, layer)]
        computing.append(own)
        orphans += [layer for layer in layers if layer < (own[0] if own else layers.stop)]
    return {"computing": computing, "orphans": orphans, "mtp": computes(module, config, config.num_hidden_layers)}


def main() -> None:
    asked = json.loads(sys.argv[1])
    told: dict[str, list[dict[str, object]]] = {}
    for kind, name in (("generic", GENERIC), ("cuda", CUDA)):
        modules = {False: load(name, {})}
        if name in asked["sources"]:
            modules[True] = load(name, asked["sources"])
        for module in modules.values():
            stub(module)
        told[kind] = []
        for run in asked["runs"]:
            values = {**SHAPE, **asked["config"], **run["overrides"], "rope_parameters": {"rope_type": "default"}}
            module = modules[run.get("patched", False)]
            told[kind].append(of_cut(kind, module, SimpleNamespace(**values), run["cut"]))
    print("\n" + json.dumps(told))


main()
