"""Which matrices a TP group cuts along the side that their quantisation divides into blocks."""

from collections.abc import Mapping
from typing import Any

from fleet.frozen import Frozen
from fleet.model.quantization import scheme
from fleet.model.shape import ModelError

Config = Mapping[str, Any]


class Cut(Frozen):
    """A size of config.json that TP divides, and the block of the quantisation that the part must be a multiple of."""

    field: str
    size: int
    block: int = 1
    experts: bool = False
    """Of routed experts, which expert parallelism does not cut."""

    def part(self, tp: int) -> int:
        """What one rank gets, rounded down."""
        return self.size // tp

    def fits(self, tp: int) -> bool:
        """Does TP divide it into whole blocks?"""
        return self.size % tp == 0 and self.part(tp) % self.block == 0


def _language_model(config: Config) -> dict[str, Any]:
    nested = config.get("text_config")
    return {**config, **nested} if isinstance(nested, Mapping) else dict(config)


def _integer(config: Config, name: str) -> int | None:
    value = config.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelError(f"config.json: {name}: want a positive integer, found {value!r}")
    return value


def block_of(config: Config) -> int:
    """Values of one row that share a scale: `group_size`, or the side of a block; 1 where a row or a matrix does.

    Read in quantization_config of GPTQ, AWQ, compressed-tensors, fp8 (`weight_block_size`); MXFP4 has 32.
    """
    quantization = config.get("quantization_config") or config.get("compression_config") or {}
    if not isinstance(quantization, Mapping):
        raise ModelError(f"config.json: quantization_config: want a mapping, found {quantization!r}")
    sizes = [quantization.get("group_size"), *_group_sizes(quantization.get("config_groups"))]
    block = quantization.get("weight_block_size")
    if block is not None:
        if not isinstance(block, list | tuple) or len(block) != 2:
            raise ModelError(f"config.json: weight_block_size: want two sizes, found {block!r}")
        sizes += block
    if str(quantization.get("quant_method", "")).lower() == "mxfp4":
        sizes.append(32)
    found = 1
    for size in sizes:
        if size is None:
            continue
        if not isinstance(size, int) or isinstance(size, bool) or (size < 1 and size != -1):
            raise ModelError(f"config.json: quantization_config: want a group size, found {size!r}")
        found = max(found, size)
    return found


def _group_sizes(groups: Any) -> list[Any]:
    if not isinstance(groups, Mapping):
        return []
    weights = [group.get("weights") for group in groups.values() if isinstance(group, Mapping)]
    return [one.get("group_size") for one in weights if isinstance(one, Mapping)]


def cuts(config: Config, overrides: Config | None = None) -> tuple[Cut, ...]:
    """The inner sizes of the MLPs as TP cuts them. ModelError with the field where config.json makes no sense."""
    model = {**_language_model(config), **_language_model(overrides or {})}
    layers = _integer(model, "num_hidden_layers") or 1
    dense, moe = _integer(model, "intermediate_size"), _moe_size(model)
    first_moe = layers if moe is None else _integer_or_zero(model, "first_k_dense_replace")
    found = []
    if dense is not None and (moe is None or first_moe > 0 or model.get("mlp_only_layers")):
        found.append(_cut(model, "intermediate_size", dense, "model.layers.0.mlp.down_proj"))
    if moe is not None:
        name = f"model.layers.{layers - 1}.mlp"
        field = "moe_intermediate_size" if "moe_intermediate_size" in model else "intermediate_size"
        found.append(_cut(model, field, moe, f"{name}.experts.0.down_proj", experts=True))
        shared = _integer_or_zero(model, "n_shared_experts") * moe or _integer(model, "shared_expert_intermediate_size")
        if shared:
            found.append(_cut(model, f"{field} of shared experts", shared, f"{name}.shared_experts.down_proj"))
    return tuple(found)


def _moe_size(model: Config) -> int | None:
    """The inner size of one routed expert; None for a model without experts."""
    counts = ("n_routed_experts", "num_experts", "num_local_experts")
    if not any(_integer_or_zero(model, name) > 1 for name in counts):
        return None
    return _integer(model, "moe_intermediate_size") or _integer(model, "intermediate_size")


def _integer_or_zero(model: Config, name: str) -> int:
    return 0 if model.get(name) in (None, 0) else _integer(model, name) or 0


def _cut(model: dict[str, Any], field: str, size: int, matrix: str, experts: bool = False) -> Cut:
    """With the block of the quantisation, where this matrix is quantised."""
    quantised = scheme(model, 2).quantised(matrix)
    return Cut(field=field, size=size, block=block_of(model) if quantised else 1, experts=experts)
