"""Do the tensors of a checkpoint have the sizes that its config.json states: layers, heads, hidden and inner sizes?

Names, element types and sizes come from the headers alone (`fleet/model/checkpoint.py`). Only what is stored plainly,
in 16 or 32 bit, is held against config.json: the size of a quantised matrix depends on how it is packed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from fleet.model.architecture import laid_over
from fleet.model.checkpoint import DTYPE_BITS, Checkpoint, Tensors
from fleet.model.fields import Config
from fleet.model.read import read_model
from fleet.model.shape import ContradictionError, ModelError

PLAIN = ("BF16", "F16", "F32")
_HEADS, _KEYS = ("heads", "head_dims", "hidden"), ("key_heads", "head_dims", "hidden")
_INNER = ("inner", "hidden")
_KEPT_APART = {
    "q_proj": ("num_attention_heads x head_dim x hidden_size", _HEADS),
    "k_proj": ("num_key_value_heads x head_dim x hidden_size", _KEYS),
    "v_proj": ("num_key_value_heads x head_dim x hidden_size", _KEYS),
    "o_proj": ("num_attention_heads x head_dim x hidden_size", _HEADS),
}
_LATENT = {
    "kv_a_proj_with_mqa": ("(kv_lora_rank + qk_rope_head_dim) x hidden_size", ("latent", "hidden")),
    "kv_b_proj": ("num_attention_heads x (qk_nope_head_dim + v_head_dim) x kv_lora_rank", ("heads", "spread", "rank")),
    "o_proj": ("num_attention_heads x v_head_dim x hidden_size", ("heads", "values", "hidden")),
}
_FEED = dict.fromkeys(("gate_proj", "up_proj", "down_proj"), ("intermediate_size x hidden_size", _INNER))
"""Last part of a name -> what its elements are made of: in words, and as numbers of `_Known`."""
_GATED = ("q_proj",)
"""May be twice as long: a gate beside each head (Qwen3-Next, and others after it)."""


def disagreement(config: Config, checkpoint: Checkpoint) -> str | None:
    """What config.json says and the tensors do not, or None. ModelError where it cannot be read at all."""
    return _disagreement(json.dumps(config), checkpoint)


@lru_cache(maxsize=64)  # replicas have the same checkpoint
def _disagreement(text_of_config: str, checkpoint: Checkpoint) -> str | None:
    config: Config = json.loads(text_of_config)
    try:
        read_model(config, None, checkpoint)
    except ContradictionError as error:
        return str(error)
    except ModelError:
        pass  # a kind that the ledger does not know; the sizes below are told all the same
    text = laid_over(config, {})
    return next(_wrong_sizes(text, checkpoint), None) or _wrong_layers(text, checkpoint)


def _wrong_layers(text: Config, checkpoint: Checkpoint) -> str | None:
    """Every layer that config.json counts has tensors; further ones are MTP layers."""
    stated = text.get("num_hidden_layers")
    there = {layer for one in checkpoint.tensors if one.name.startswith(_BODY) for layer in one.layers}
    if not isinstance(stated, int) or not there:
        return None
    missing = sorted(set(range(min(stated, 10_000))) - there)
    if not missing:
        return None
    return f"config.json says {stated} layers, tensors name {len(there)} of them (none of layer {missing[0]})"


_BODY = ("model.layers.", "layers.", "transformer.h.", "language_model.model.layers.", "model.language_model.layers.")


def _wrong_sizes(text: Config, checkpoint: Checkpoint) -> Iterator[str]:
    attention = _LATENT if text.get("kv_lora_rank") else _KEPT_APART
    named = {part for one in checkpoint.tensors if (part := _part(one, "self_attn")) in attention}
    # Where keys, values and queries are not kept apart (fused, or in another form), their sizes tell nothing.
    whole = attention if named >= set(list(attention)[:3]) else {}
    known = _Known(text)
    for one in checkpoint.tensors:
        rule = whole.get(_part(one, "self_attn")) or _FEED.get(_part(one, "mlp"))
        if rule is None:
            continue
        meaning, factors = rule
        sizes = known.products(factors)
        if _part(one, "self_attn") in _GATED:
            sizes |= {2 * size for size in sizes}
        elements = one.size * 8 // DTYPE_BITS[one.dtype]
        if sizes and elements not in sizes:
            want = " or ".join(f"{size:,}" for size in sorted(sizes)[:3])
            yield f"config.json says {meaning} = {want}, tensors have {elements:,} elements in {one.name}"


def _part(one: Tensors, place: str) -> str:
    """`k_proj` of `...self_attn.k_proj.weight`: a plain matrix at this place of a decoder layer; empty for others."""
    if one.dtype not in PLAIN or not one.layers or not one.name.startswith(_BODY):
        return ""
    match = re.fullmatch(rf".*\.#\.{place}\.(\w+)\.weight", one.name)
    return match[1] if match else ""


class _Known:
    """The numbers of config.json by what they are; a kind of layer may have its own, so each has one or more."""

    def __init__(self, text: Mapping[str, Any]) -> None:
        def numbers(*endings: str) -> frozenset[int]:
            return frozenset(
                value
                for name, value in text.items()
                if name.endswith(endings) and isinstance(value, int) and not isinstance(value, bool) and value > 0
            )

        def sums(one: str, other: str) -> frozenset[int]:
            return frozenset(a + b for a in numbers(one) for b in numbers(other))

        self.hidden = numbers("hidden_size")
        self.heads = numbers("num_attention_heads", "num_global_attention_heads")
        self.key_heads = numbers("num_key_value_heads", "num_global_key_value_heads", "num_kv_heads") or self.heads
        whole = frozenset(hidden // heads for hidden in self.hidden for heads in self.heads if hidden % heads == 0)
        self.head_dims = numbers("head_dim") or whole
        self.inner = numbers("intermediate_size", "intermediate_size_mlp")
        self.rank = numbers("kv_lora_rank")
        self.latent = sums("kv_lora_rank", "qk_rope_head_dim")
        self.spread = sums("qk_nope_head_dim", "v_head_dim")
        self.values = numbers("v_head_dim")

    def products(self, factors: tuple[str, ...]) -> set[int]:
        """Every product of one number of each kind; empty where a kind is not stated."""
        found = {1}
        for name in factors:
            found = {one * factor for one in found for factor in getattr(self, name)}
        return found
