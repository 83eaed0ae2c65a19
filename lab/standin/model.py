"""The model's config.json, and the checks that make the real engine refuse to start."""

from __future__ import annotations

import json
import os

from .arguments import Settings


class Model:
    """What the stand-in needs of a model's architecture. Counts are layers, heads, tokens."""

    def __init__(self, config: dict[str, object]) -> None:
        text = config.get("text_config")
        self.fields = {**config, **text} if isinstance(text, dict) else config
        self.layers = self.number("num_hidden_layers")
        self.heads = self.number("num_attention_heads", 0)
        self.max_positions = self.number("max_position_embeddings", 0)
        self.architecture = str((self.fields.get("architectures") or [self.fields.get("model_type")])[0])

    def number(self, name: str, default: int | None = None) -> int:
        value = self.fields.get(name, default)
        if value is None:
            value = default
        if not isinstance(value, int):
            raise ValueError(f"config.json: wanted a whole number in {name}, found {value!r}")
        return value


def read(settings: Settings) -> Model:
    """The model of a folder, with --hf-overrides applied. Raises ValueError with the path and what is wrong."""
    path = os.path.join(settings.model, "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; the stand-in downloads no model") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path}: wanted a JSON object, found {type(config).__name__}")
    return Model(merge(config, settings.hf_overrides))


def merge(config: dict[str, object], overrides: dict[str, object]) -> dict[str, object]:
    merged = dict(config)
    for name, value in overrides.items():
        old = merged.get(name)
        merged[name] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def stages(layers: int, pp: int, wanted: str | None) -> list[int]:
    """Layers of each pipeline stage.

    `wanted` is VLLM_PP_LAYER_PARTITION; vLLM 0.30 checks its count and sum at every PP, 1 included. Without it
    the remainder goes to the middle stages first and never to the last (78 over 4 is 19, 20, 20, 19).
    """
    if wanted is None:
        parts = [layers // pp] * pp
        for extra in range(layers % pp):
            parts[-2 - extra] += 1
        return parts
    try:
        parts = [int(part) for part in wanted.split(",")]
    except ValueError:
        raise ValueError(f"Invalid partition string: {wanted}") from None
    if len(parts) != pp:
        raise ValueError(f"len(partitions)={len(parts)} does not match pp_size={pp}.")
    if sum(parts) != layers:
        raise ValueError(f"sum(partitions)={sum(parts)} does not match num_hidden_layers={layers}.")
    return parts


def context_length(model: Model, settings: Settings, environ: dict[str, str]) -> int:
    """Tokens a request may have; as in vLLM, more than the model's own length needs an explicit consent."""
    derived = model.max_positions
    if settings.max_model_len is None:
        return derived or 4096
    if derived and settings.max_model_len > derived and environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1":
        raise ValueError(
            f"User-specified max_model_len ({settings.max_model_len}) is greater than the derived "
            f"max_model_len (max_position_embeddings={derived}). To allow it, set "
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
        )
    return settings.max_model_len


def check_heads(model: Model, tp: int) -> None:
    if model.heads % tp:
        raise ValueError(
            f"Total number of attention heads ({model.heads}) must be divisible by tensor parallel size ({tp})."
        )
