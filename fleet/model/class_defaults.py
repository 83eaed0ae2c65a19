"""What a config.json may leave out because its kind's class says it: defaults of transformers' configuration classes.

The published files of Gemma 3 do: the 4B states neither heads nor vocabulary, the 12B no `head_dim`. Only what sizes a
cache or a matrix is here, and only for kinds whose class does not derive it from the other fields.
"""

from typing import Any

_GEMMA3 = {
    "vocab_size": 262208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
    "max_position_embeddings": 131072,
}
_LINEAR = {
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
CLASS_DEFAULTS: dict[str, dict[str, int]] = {
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "sliding_window": 4096},
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gpt_oss": {"head_dim": 64, "sliding_window": 128},
    "minimax_m2": {"head_dim": 128},
    "qwen3": {"head_dim": 128},
    "qwen3_next": _LINEAR,
    "qwen3_5_text": _LINEAR,
    "qwen3_5_moe_text": _LINEAR,
}


def with_class_defaults(model: dict[str, Any]) -> dict[str, Any]:
    """A language model's config with what is absent as its class has it; null stays null, as in transformers."""
    kind = model.get("model_type")
    return {**CLASS_DEFAULTS.get(kind, {}), **model} if isinstance(kind, str) else model
