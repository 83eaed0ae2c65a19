"""The checks that vLLM's configs do in Python, said again here: a value goes in, a value comes out or ValueError.

Each names the vLLM function that it stands for and the digests of that function's source for which it was compared with
the real one (tests/engine); a version whose digest is another has changed it, and `fleet engine dump` says so.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from fleet.argv.values import Refused


class Context(NamedTuple):
    """What a check may look up: names that the version knows, the members of the enum that it is about, the key."""

    tables: dict[str, Any]
    members: dict[str, Any]
    key: str


Check = Callable[[Any, Context], Any]


class Rule(NamedTuple):
    """A check, and the digests of the source that it is known to agree with."""

    check: Check
    digests: tuple[str, ...]


RULES: dict[str, Rule] = {}


def rule(name: str, *digests: str) -> Callable[[Check], Check]:
    """Make a function the check of that name."""

    def add(check: Check) -> Check:
        RULES[name] = Rule(check, digests)
        return check

    return add


def require(holds: object, message: str, found: object = None) -> None:
    """Refused, a ValueError, with the message and the value where it does not hold."""
    if not holds:
        raise Refused(message, found=found)


def _member(value: str, context: Context) -> Any:
    require(value.upper() in context.members, f"want one of {', '.join(context.members)}", value)
    return context.members[value.upper()]


@rule("CompilationConfig.validate_mode_before", "b1a3bd821897")
@rule("CompilationConfig.validate_cudagraph_mode_before", "cad79578e8cd")
@rule("AttentionConfig.validate_mla_prefill_backend_before", "5abcea7f873d")
def by_name(value: Any, context: Context) -> Any:
    """A word is the name of a member, whatever its case."""
    return _member(value, context) if isinstance(value, str) else value


@rule("SpeculativeConfig._parse_attention_backend", "b1e86d60bda6")
@rule("AttentionConfig.validate_backend_before", "efda6c7d8ead")
def by_name_or_auto(value: Any, context: Context) -> Any:
    """As by_name; auto leaves it to the engine."""
    return None if isinstance(value, str) and value.lower() == "auto" else by_name(value, context)


@rule("AttentionConfig.validate_backend_per_kind_before", "260c511f3078")
def backend_per_kind(value: Any, context: Context) -> Any:
    """Kinds of cache groups, each with the name of a backend."""
    if not isinstance(value, dict):
        return value
    kinds = context.tables.get("kv_cache_kinds", ())
    unknown = [kind for kind in value if kind not in kinds]
    require(not unknown, f"want kinds of {', '.join(kinds)}", ", ".join(map(str, unknown)))
    return {kind: by_name(backend, context) for kind, backend in value.items()}


@rule("IrOpPriorityConfig._to_list_str", "b49223c31a88")
def words_with_commas(value: Any, context: Context) -> Any:
    """A list of words, or one word with commas."""
    if isinstance(value, str):
        return value.replace(" ", "").split(",")
    require(isinstance(value, list | dict) and all(isinstance(v, str) for v in value), "want a list of words")
    return value


@rule("KernelConfig._normalize_linear_backend", "bc7afb950719")
@rule("KernelConfig._normalize_moe_backend", "b1c930749b98")
@rule("KernelConfig._normalize_sparse_indexer_topk_backend", "c66a2c611fa4")
def lower_with_underscores(value: Any, context: Context) -> Any:
    """Small letters, underscores for dashes."""
    return value.lower().replace("-", "_") if isinstance(value, str) else value


@rule("_coerce_quant_key", "926c9c7d7a0e")
def quant_key(value: Any, context: Context) -> Any:
    """The name of a quantization of weights or activations."""
    known = context.tables.get("quant_keys", ())
    require(value is None or (isinstance(value, str) and value in known), f"want one of {', '.join(known)}")
    return value


@rule("QuantizationConfigArgs._coerce_spec", "2c1fc7799832")
def quant_spec(value: Any, context: Context) -> Any:
    """A shorthand that has a spec for this kind of layer, or the name of a quantization of the weights."""
    if not isinstance(value, str):
        return value
    shorthands = context.tables.get("online_shorthands", {})
    if value in shorthands:
        require(context.key in shorthands[value], f"want a shorthand with a spec for {context.key} layers", value)
        return {}
    return {"weight": quant_key(value, context)}


@rule("QuantizationConfigArgs._validate_targets", "840b0f3e4599")
def quant_targets(value: Any, context: Context) -> Any:
    """Patterns of layer names, each with a shorthand."""
    if value is None:
        return value
    require(isinstance(value, dict), "want an object: patterns of layers, each with a shorthand")
    known = context.tables.get("online_shorthands", {})
    for pattern, shorthand in value.items():
        good = isinstance(shorthand, str) and shorthand in known
        require(good, f"{pattern}: want one of {', '.join(sorted(known))}", shorthand)
        if pattern.startswith("re:"):
            try:
                re.compile(pattern[3:])
            except re.error as error:
                raise ValueError(f"{pattern} is no regular expression: {error}") from None
    return value


@rule("QuantizationConfigArgs._validate_targets_exclusivity", "265fd2ee16b7")
def targets_alone(found: Any, context: Context) -> Any:
    """`targets` stands for `linear` and `moe`."""
    alone = found.get("targets") is None or (found.get("linear") is None and found.get("moe") is None)
    require(alone, "targets and linear/moe exclude each other")
    return found


@rule("PoolerConfig.reject_removed_parameters", "79d8f8f12245")
def pooler_removed(found: Any, context: Context) -> Any:
    """What the pooler had once."""
    if isinstance(found, dict):
        require("normalize" not in found, "normalize was removed: use use_activation")
        removed = context.tables.get("removed_pooling_tasks", ())
        require(not isinstance(task := found.get("task"), str) or task not in removed, f"task {task} was removed")
    return found


@rule("PoolerConfig.__post_init__", "30c30cb96e41")
def pooler(found: Any, context: Context) -> Any:
    """One way to say the pooling type."""
    sigma = found.get("logit_sigma")
    require(sigma is None or sigma != 0, "logit_sigma cannot be 0")
    if found.get("pooling_type"):
        for other in ("seq_pooling_type", "tok_pooling_type"):
            require(found.get(other) is None, f"pooling_type and {other} exclude each other")
    return found


@rule("EPLBConfig._validate_eplb_config", "0124ab3a5183")
def eplb(found: Any, context: Context) -> Any:
    """Asynchronous balancing has one policy, and not every communicator."""
    if found["use_async"]:
        require(found["policy"] == "default", "use_async needs policy default")
        taken = found.get("communicator")
        require(taken not in ("torch_nccl", "pynccl"), f"use_async and communicator {taken} exclude each other")
    return found


@rule("KVTransferConfig.__post_init__", "32c65b027d65")
def kv_transfer(found: Any, context: Context) -> Any:
    """A connector needs a role."""
    require(found.get("kv_connector") is None or found.get("kv_role") is not None, "kv_connector needs kv_role")
    return found


@rule("ECTransferConfig.__post_init__", "91fe047c01c7")
def ec_transfer(found: Any, context: Context) -> Any:
    """A connector needs a role."""
    require(found.get("ec_connector") is None or found.get("ec_role") is not None, "ec_connector needs ec_role")
    return found


@rule("EncoderCacheManagerConfig.__post_init__", "5e46ae011c69")
def encoder_cache(found: Any, context: Context) -> Any:
    """Settings of a manager need a manager."""
    needless = found.get("encoder_cache_manager_cls") is not None or not found.get("manager_config")
    require(needless, "manager_config needs encoder_cache_manager_cls")
    return found


@rule("CompilationConfig.__post_init__", "fe109666319f", "ace5de15c9a0")
def compilation(found: Any, context: Context) -> Any:
    """Custom ops are well written and do not contradict; budgets are positive."""
    ops = found.get("custom_ops") or []
    bad = [op for op in ops if op not in ("all", "none") and (len(op) < 2 or op[0] not in "+-")]
    require(not bad, "custom_ops: want all, none, +op or -op", ", ".join(bad))
    require(sum(op in ("all", "none") for op in ops) < 2, "custom_ops: all and none exclude each other")
    both = {op[1:] for op in ops if op[0] == "+"} & {op[1:] for op in ops if op[0] == "-"}
    require(not both, f"custom_ops: both + and - for {', '.join(sorted(both))}")
    for name, value in (found.get("inductor_passes") or {}).items():
        require("." in value, f"inductor_passes: {name}: want module.function", value)
    mode, backend = found.get("mode"), found.get("backend", "")
    piecewise = getattr(mode, "name", None) == "VLLM_COMPILE"
    known = not piecewise or backend in ("", "eager", "inductor")
    require(known, "mode 3 takes backend eager or inductor", backend)
    if found.get("cudagraph_mm_encoder"):
        for key in ("encoder_cudagraph_max_vision_items_per_batch", "encoder_cudagraph_max_frames_per_batch"):
            require((found.get(key) or 0) >= 0, f"{key} must not be negative")
    for key in ("encoder_cudagraph_token_budgets", "decoder_replay_cudagraph_capture_sizes"):
        require(all(size > 0 for size in found.get(key) or ()), f"{key} must be positive")
    return found


@rule("AttentionConfig.__post_init__", "56ccd8939d92", "7ef03ebdb48a", "70d191b27426", "663c772367d4")
def attention(found: Any, context: Context) -> Any:
    """Two ways to say the indexer's cache agree (0.28, 0.29); its context-parallel form has few dtypes (0.33)."""
    dtype = found.get("indexer_kv_dtype", "auto")
    if found.get("use_fp4_indexer_cache"):
        require(dtype in ("auto", "mxfp4"), f"use_fp4_indexer_cache contradicts indexer_kv_dtype {dtype}")
    if found.get("minimax_m3_indexer_cp"):
        require(dtype in ("auto", "bf16", "fp8", "fp8_e4m3"), f"minimax_m3_indexer_cp takes no {dtype} index cache")
    return found


@rule("EngramConfig._validate_shared_memory", "c5f19fe2c597", "5f0649494489")
def engram(found: Any, context: Context) -> Any:
    """Shared memory is for tables on the CPU; huge pages for those that are not shared."""
    offload, shared = found.get("cpu_offload", True), found.get("dp_shared_memory")
    require(not shared or offload, "dp_shared_memory needs cpu_offload")
    require(not found.get("use_thp") or (offload and not shared), "use_thp needs cpu_offload without dp_shared_memory")
    return found


@rule("StructuredOutputsConfig._validate_structured_output_config", "4f62498d4fa5", "cfd0810a53aa")
def structured_outputs(found: Any, context: Context) -> Any:
    """Two switches are of some backends only."""
    backend = found["backend"]
    compact = not found["disable_any_whitespace"] or backend in ("xgrammar", "guidance")
    require(compact, "disable_any_whitespace needs backend xgrammar or guidance")
    require(
        not found["disable_additional_properties"] or backend == "guidance",
        "disable_additional_properties needs guidance",
    )
    return found


PROTON = {
    "proton_profiler_dir": "",
    "proton_context": "shadow",
    "proton_data": "tree",
    "proton_backend": None,
    "proton_mode": None,
    "proton_hook": None,
    "proton_output_format": None,
    "proton_graph_attribution": False,
}


def _is_uri(path: str) -> bool:
    return "://" in path and len(path.split("://")[0]) > 1


@rule("ProfilerConfig._validate_profiler_config", "ab2dc009c89a", "e43029f7a1b2", "ce3a19cb1322", "7960c9164553")
def profiler(found: Any, context: Context) -> Any:
    """Each profiler has its own keys."""
    which, folder = found.get("profiler"), found.get("torch_profiler_dir")
    activities = found.get("torch_profiler_activities")
    if activities is not None:
        require(which == "torch", "torch_profiler_activities is of profiler torch")
        require(len(activities) == len(set(activities)), "torch_profiler_activities: each once")
    require(not folder or which == "torch", "torch_profiler_dir is of profiler torch")
    require(which != "torch" or folder, "profiler torch needs torch_profiler_dir")
    others = [key for key, default in PROTON.items() if found.get(key, default) != default]
    require(which == "proton" or not others, f"{', '.join(others)}: of profiler proton only")
    where = found.get("proton_profiler_dir", "")
    require(which != "proton" or where, "profiler proton needs proton_profiler_dir")
    require(not where or not _is_uri(where), "proton_profiler_dir must be a local folder")
    if which == "proton":
        _proton(found)
    require(not found.get("capture_torch_profiler") or which == "torch", "capture_torch_profiler is of profiler torch")
    return found


def _proton(found: dict[str, Any]) -> None:
    data, form, mode = found.get("proton_data"), found.get("proton_output_format"), found.get("proton_mode") or ""
    if found.get("proton_graph_attribution"):
        require(data == "tree", "proton_graph_attribution needs proton_data tree")
        require(
            mode.split(":", 1)[0].lower() != "periodic_flushing", "periodic_flushing excludes proton_graph_attribution"
        )
    require(form != "chrome_trace" or data == "trace", "chrome_trace needs proton_data trace")
    require(form not in ("hatchet", "hatchet_msgpack") or data == "tree", f"{form} needs proton_data tree")


@rule("SpeculativeConfig._verify_args", "30de62dca088", "e8791bc8c33a")
def speculative(found: Any, context: Context) -> Any:
    """What can be said without the models; the engine checks more once it has read both."""
    split = found.get("tensor_parallel_size")
    require(split is None, "tensor_parallel_size is not taken here: use draft_tensor_parallel_size")
    tokens = found.get("num_speculative_tokens")
    require(tokens is None or tokens > 0, "num_speculative_tokens must be greater than 0")
    return found


@rule("WatermarkConfig.validate_watermark_settings", "05d689d38444")
def watermark(found: Any, context: Context) -> Any:
    """Its key has 64 bits."""
    require(found.get("key", 0) <= 2**64 - 1, "key must fit in 64 bits")
    return found


HARMLESS = (
    "KVEventsConfig.__post_init__",
    "PassConfig.__post_init__",
    "CompilationConfig.validate_compile_cache_save_format",  # its type asks the same
    "CompilationConfig.validate_pass_config_before",  # builds what its type builds
)
"""Checks that refuse nothing which is not refused without them."""
AFTER_PARSING = ("SpeculativeConfig.__post_init__", "LoadConfig.")
"""Of configs that the engine builds after parsing, for which it needs the models; keys and types are compared."""


def unknown_rules(rules: dict[str, str]) -> list[str]:
    """Checks of a version that are not known here, or whose source is another than the one that was compared."""
    out = []
    for name, digest in rules.items():
        compared = name in RULES and digest in RULES[name].digests
        if not compared and name not in HARMLESS and not name.startswith(AFTER_PARSING):
            out.append(name)
    return out
