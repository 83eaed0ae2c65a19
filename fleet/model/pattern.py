"""Which layer is of which kind: full, sliding, chunked, linear, Mamba, MLP alone."""

from typing import Literal

from fleet.model.fields import Config, layer_count, mapping, number, words
from fleet.model.shape import ModelError

Kind = Literal["full", "window", "chunk", "linear", "mamba", "kda", "mlp", "moe"]

_NAMES: dict[str, Kind] = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "sliding_attention": "window",
    "local_attention": "window",
    "chunked_attention": "chunk",
    "linear_attention": "linear",
    "mamba": "mamba",
    "mamba2": "mamba",
    "mlp": "mlp",
    "moe": "moe",
}
_HYBRID: dict[str, Kind] = {"M": "mamba", "*": "full", "-": "mlp", "E": "moe"}
"""Letters of Nemotron-H's `hybrid_override_pattern`."""

EVERY: dict[str, int] = {"gpt_oss": 2, "gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4}
"""Models in which every n-th layer attends to everything and the others slide (their Hugging Face configurations)."""
ALL_SLIDE = frozenset({"mistral", "mixtral", "ministral", "starcoder2"})
NEVER_SLIDE = frozenset({"phi3", "phimoe", "llama", "minimax_m2"})


def pattern(config: Config, model_type: str) -> tuple[tuple[Kind, ...], bool]:
    """The kind of each layer, and whether their order is known."""
    if isinstance(config.get("hybrid_override_pattern"), str):
        return _letters(config["hybrid_override_pattern"], config), True
    layers = layer_count(config)
    linear = mapping(config, "linear_attn_config")
    if linear:
        return _delta_attention(linear, layers), True
    stated = config.get("layer_types", config.get("layers_block_type"))
    if isinstance(stated, dict):
        return _counted(stated, layers), False
    names = words(config, "layer_types") or words(config, "layers_block_type")
    if names:
        if len(names) != layers:
            raise ModelError(f"config.json: layer_types: want {layers} entries, one a layer, found {len(names)}")
        return tuple(_kind(name) for name in names), True
    return _by_model(config, model_type, layers), True


def _kind(name: str) -> Kind:
    if name not in _NAMES:
        raise ModelError(f"config.json: layer_types: want one of {', '.join(_NAMES)}, found {name!r}: not modelled")
    return _NAMES[name]


def _letters(text: str, config: Config) -> tuple[Kind, ...]:
    stated = number(config, "num_hidden_layers")
    if stated is not None and stated != len(text):
        raise ModelError(f"config.json: hybrid_override_pattern: want {stated} letters, one a layer, found {len(text)}")
    unknown = sorted(set(text) - set(_HYBRID))
    if unknown or not text:
        raise ModelError(f"config.json: hybrid_override_pattern: want letters {''.join(_HYBRID)}, found {unknown}")
    return tuple(_HYBRID[letter] for letter in text)


def _delta_attention(linear: Config, layers: int) -> tuple[Kind, ...]:
    """Kimi-Linear names its layers from 1."""
    full = linear.get("full_attn_layers")
    if not isinstance(full, list) or not all(isinstance(n, int) and 1 <= n <= layers for n in full):
        raise ModelError(f"config.json: linear_attn_config.full_attn_layers: want layers 1..{layers}, found {full!r}")
    return tuple("full" if index + 1 in full else "kda" for index in range(layers))


def _counted(stated: Config, layers: int) -> tuple[Kind, ...]:
    """Kinds with their numbers but without order: laid out so that the rarer kind closes each repeat."""
    counts = {_kind(name): count for name, count in stated.items()}
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in counts.values()):
        raise ModelError(f"config.json: layer_types: want numbers of layers, found {stated!r}")
    if sum(counts.values()) != layers:
        raise ModelError(f"config.json: layer_types: want {layers} layers in all, found {sum(counts.values())}")
    placed = [
        ((place + 1) / count, rank, kind)
        for rank, (kind, count) in enumerate(sorted(counts.items(), key=lambda item: -item[1]))
        for place in range(count)
    ]
    return tuple(kind for _, _, kind in sorted(placed))


def _each(every: int, layers: int, other: Kind) -> tuple[Kind, ...]:
    """Every n-th layer attends to everything, the others are of another kind."""
    full: Kind = "full"
    return tuple(full if (index + 1) % every == 0 else other for index in range(layers))


def _by_model(config: Config, model_type: str, layers: int) -> tuple[Kind, ...]:
    if model_type in ("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"):
        every = number(config, "full_attention_interval") or 4
        return _each(every, layers, "linear")
    if model_type in ("llama4", "llama4_text"):
        every = number(config, "no_rope_layer_interval") or 4
        chunked = config.get("attention_chunk_size") is not None
        return _each(every, layers, "chunk" if chunked else "full")
    window = number(config, "sliding_window", least=0)
    if not window or model_type in NEVER_SLIDE or config.get("use_sliding_window") is False:
        return _each(1, layers, "full")
    if model_type in ALL_SLIDE:
        return _each(layers + 1, layers, "window")
    every = number(config, "sliding_window_pattern", "_sliding_window_pattern") or EVERY.get(model_type, 0)
    if not every:
        raise ModelError("config.json: layer_types: which layers slide is not told, though sliding_window is set")
    return _each(every, layers, "window")
