"""Widths of a model that tensor parallelism must divide, and what else of config.json a layout depends on."""

from typing import Any

from fleet.frozen import Frozen


class Widths(Frozen):
    """As config.json states them; None or 0 where it does not, and then nothing is held against it."""

    hidden: int | None = None
    intermediate: int | None = None
    """Of a dense MLP; None in a model with experts, whose few dense layers are often stored unquantised."""
    expert: int | None = None
    """Intermediate size of one routed expert."""
    experts: int = 0
    active_experts: int = 0
    """Routed experts that a token passes."""
    dense_layers: int = 0
    """First layers without experts, in a model with experts."""
    vocabulary: int | None = None
    quantisation_group: int | None = None
    """Inputs (or a block of them) that share a scale."""
    padded: bool = False
    """The engine pads each shard to whole groups (MXFP4)."""


def _number(config: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _group(config: dict[str, Any]) -> int | None:
    """Group or block of the inputs, by where each kind of quantisation writes it."""
    quantisation = config.get("quantization_config") or {}
    if not isinstance(quantisation, dict):
        return None
    block = quantisation.get("weight_block_size")
    if isinstance(block, list) and len(block) == 2:
        return _number({"block": block[1]}, "block")
    groups = quantisation.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict) and (size := _number(weights, "group_size")):
            return size
    return _number(quantisation, "group_size", "q_group_size")


def read_widths(model: dict[str, Any]) -> Widths:
    """The widths of a language model's config.json (`text_config` and overrides already laid over it)."""
    experts = _number(model, "n_routed_experts", "num_experts", "num_local_experts") or 0
    expert = _number(model, "moe_intermediate_size", "intermediate_size") if experts else None
    quantisation = model.get("quantization_config")
    method = str(quantisation.get("quant_method", "")) if isinstance(quantisation, dict) else ""
    return Widths(
        hidden=_number(model, "hidden_size"),
        intermediate=None if experts else _number(model, "intermediate_size"),
        expert=expert,
        experts=experts,
        active_experts=_number(model, "num_experts_per_tok", "moe_top_k", "top_k_experts") or 0,
        dense_layers=_number(model, "first_k_dense_replace") or 0,
        vocabulary=_number(model, "vocab_size"),
        quantisation_group=_group(model),
        padded="mxfp4" in method,
    )
