"""A model's shape as its config.json states it: what the layout gates need to know."""

from typing import Any

from fleet.frozen import Frozen
from fleet.model.class_defaults import with_class_defaults


class ArchitectureError(ValueError):
    """config.json lacks a number that is needed, or has one that makes no sense."""


class IndexSharing(Frozen):
    """Sparse attention in which most layers reuse the top-k indices of an earlier layer.

    A layer computes its own indices where `max(i - offset + 1, 0) % freq == 0`; a `pattern` overrides that: 'S' shares,
    any other letter and everything past its end computes (vLLM, sparse attention of DeepSeek-V3.2 and GLM-5).
    """

    freq: int
    offset: int
    pattern: str | None = None

    def computes(self, layer: int) -> bool:
        """Does this layer compute its own top-k indices?"""
        if self.pattern is not None:
            return layer >= len(self.pattern) or self.pattern[layer] != "S"
        return max(layer - self.offset + 1, 0) % self.freq == 0


class Architecture(Frozen):
    """Numbers of one model. `max_positions` is the longest context in tokens, None where config.json does not say."""

    model_type: str
    layers: int
    attention_heads: int
    kv_heads: int | None = None
    hidden_size: int | None = None
    max_positions: int | None = None
    yarn_positions: int | None = None
    """What an engine before 0.30 takes for it where the rope is YaRN; None where it is not."""
    mtp_layers: int = 0
    index_sharing: IndexSharing | None = None
    """As the engine will run it, `hf_overrides` included: decides which layers a cut orphans."""
    shipped_sharing: IndexSharing | None = None
    """As the checkpoint states it. Overrides change what is computed, not which layers have indexer weights."""

    @property
    def shares_indices(self) -> bool:
        """Is this a model in which layers depend on another layer's indices? No override makes it another model."""
        kinds = (self.index_sharing, self.shipped_sharing)
        return any(s is not None and not all(s.computes(layer) for layer in range(self.layers)) for s in kinds)


def _positive(config: dict[str, Any], name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ArchitectureError(f"config.json: {name}: want a positive integer, found {value!r:.60}")
    return value


def _optional(config: dict[str, Any], name: str) -> int | None:
    return _positive(config, name) if config.get(name) is not None else None


YARN = ("yarn", "telechat3-yarn", "deepseek_yarn", "deepseek_llama_scaling")
LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)


def _max_positions(config: dict[str, Any]) -> tuple[int | None, int | None]:
    """Longest context in tokens that the engine serves; what it was for engines before 0.30, where that differs.

    From 0.30 on the stated length is that which YaRN has stretched already; before, the original one was stretched
    (vLLM, `_get_and_verify_max_len`, read in 0.28 to 0.32). Gemma 3 always states it stretched.
    """
    stretched = stretched_positions(config)
    kind = _scaling(config).get("rope_type", _scaling(config).get("type"))
    if stretched is None or "gemma3" in str(config.get("model_type")):
        return _stated(config), None
    return (_stated(config), stretched) if kind in YARN else (stretched, None)


def _stated(config: dict[str, Any]) -> int | None:
    """The smallest length that is stated, or `model_max_length` (vLLM, `derive_max_model_len_and_key`)."""
    stated = [value for name in LENGTHS if (value := _optional(config, name)) is not None]
    return _optional(config, "model_max_length") or min(stated, default=None)


def _scaling(config: dict[str, Any]) -> dict[str, Any]:
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(scaling, dict):
        raise ArchitectureError(f"config.json: rope_scaling: want a mapping, found {scaling!r:.60}")
    return scaling


def stretched_positions(config: dict[str, Any]) -> int | None:
    """Rows of the rotary tables: YaRN stretches the original length, other kinds the stated one."""
    stated, scaling = _stated(config), _scaling(config)
    if stated is None:
        return None
    kind, factor = scaling.get("rope_type", scaling.get("type")), scaling.get("factor")
    if not isinstance(factor, int | float) or kind in (None, "default", "su", "longrope", "llama3"):
        return stated
    original = scaling.get("original_max_position_embeddings") if kind in YARN[:2] else None
    stretched = (original if isinstance(original, int) else stated) * factor
    if not 0 < stretched < 2**53:  # NaN is not either
        raise ArchitectureError(
            f"config.json: rope_scaling.factor: want a stretch of the context, found {factor!r:.60}"
        )
    return int(stretched)


def _index_sharing(config: dict[str, Any]) -> IndexSharing | None:
    pattern, freq = config.get("index_topk_pattern"), config.get("index_topk_freq")
    if config.get("index_topk") is None or (pattern is None and freq is None):
        return None
    if pattern is not None and not isinstance(pattern, str):
        raise ArchitectureError(f"config.json: index_topk_pattern: want a text, found {pattern!r}")
    offset = config.get("index_skip_topk_offset", 2)  # vLLM's default
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise ArchitectureError(f"config.json: index_skip_topk_offset: want an integer, found {offset!r}")
    sharing = IndexSharing(freq=_optional(config, "index_topk_freq") or 1, offset=offset, pattern=pattern)
    if not sharing.computes(0):
        raise ArchitectureError("config.json: layer 0 shares top-k indices, but no layer before it computes any")
    return sharing


MOST_LAYERS = 10_000
"""More than any model has: what goes beyond is a mistake, and would take forever to lay out."""


def _layers(value: int, name: str) -> int:
    if value > MOST_LAYERS:
        raise ArchitectureError(f"config.json: {name}: want at most {MOST_LAYERS}, found {value!s:.20}")
    return value


def _mtp_layers(config: dict[str, Any]) -> int:
    value = config.get("num_nextn_predict_layers", config.get("mtp_num_hidden_layers"))
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ArchitectureError(f"config.json: MTP layers: want an integer, found {value!r:.60}")
    return _layers(value, "MTP layers")


def _language_model(config: dict[str, Any]) -> dict[str, Any]:
    """Multimodal models nest the language model under `text_config`."""
    nested = config.get("text_config")
    return {**config, **nested} if isinstance(nested, dict) else config


def laid_over(config: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """The language model with overrides: those of `text_config` change single fields of it, not the whole."""
    return with_class_defaults({**_language_model(config), **_language_model(overrides)})


def read_architecture(config: dict[str, Any], hf_overrides: dict[str, Any] | None = None) -> Architecture:
    """The architecture of a parsed config.json with the service's `hf_overrides` laid over it.

    Raises ArchitectureError with the field's name.
    """
    model = laid_over(config, hf_overrides or {})
    positions, before = _max_positions(model)
    return Architecture(
        model_type=str(model.get("model_type", "unknown")),
        layers=_layers(_positive(model, "num_hidden_layers"), "num_hidden_layers"),
        attention_heads=_positive(model, "num_attention_heads"),
        kv_heads=_optional(model, "num_key_value_heads"),
        hidden_size=_optional(model, "hidden_size"),
        max_positions=positions,
        yarn_positions=before,
        mtp_layers=_mtp_layers(model),
        index_sharing=_index_sharing(model),
        shipped_sharing=_index_sharing(_language_model(config)),
    )
