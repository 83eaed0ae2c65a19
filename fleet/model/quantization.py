"""How a checkpoint stores a matrix: bytes by quantisation_config.

Each form was read in the code that writes or loads it: compressed-tensors (`pack-quantized`, `int-quantized`,
`float-quantized`, `nvfp4-pack-quantized`), AutoAWQ, GPTQ, fp8 in blocks (DeepSeek), MXFP4 (gpt-oss), ModelOpt.
"""

import re
from collections.abc import Callable
from typing import Any

from fleet.model.fields import Config, mapping
from fleet.model.shape import ModelError

Stored = Callable[[int, int], int]
"""Bytes of a matrix of so many rows (outputs) and columns (inputs), with its scales and zero points."""


class Scheme:
    """Which matrices are stored how. `stored(name, rows, columns)` is the bytes in the checkpoint."""

    def __init__(self, plain: int, form: Stored | None, ignored: tuple[str, ...], experts_only: bool = False) -> None:
        self.plain = plain
        self.experts_only = experts_only
        self._form = form
        self._patterns = [_pattern(entry) for entry in ignored if entry.startswith("re:") or "*" in entry]
        names = [entry for entry in ignored if not entry.startswith("re:") and "*" not in entry]
        self._paths = frozenset(names)
        self._parts = tuple(f".{entry}." for entry in names if "layers." not in entry)

    def quantised(self, name: str) -> bool:
        """Is this matrix stored in the quantised form? `name` as in the checkpoint, without `.weight`."""
        if self._form is None or (self.experts_only and ".experts" not in name):
            return False
        if any(pattern.match(name) for pattern in self._patterns):
            return False
        words = name.split(".")
        if self._paths and any(".".join(words[:n]) in self._paths for n in range(1, len(words) + 1)):
            return False
        return not any(part in f".{name}." for part in self._parts)

    def stored(self, name: str, rows: int, columns: int) -> int:
        """Bytes of the matrix in the checkpoint."""
        if self._form is not None and self.quantised(name):
            return self._form(rows, columns)
        return rows * columns * self.plain


def _pattern(entry: str) -> re.Pattern[str]:
    """An entry of an ignore list that is no plain name: `re:` and an expression, or a path with `*`."""
    text = entry[3:] if entry.startswith("re:") else ".*".join(re.escape(part) for part in entry.split("*")) + "$"
    try:
        return re.compile(text)
    except re.error as error:
        raise ModelError(f"config.json: quantization_config: {entry!r} is no expression: {error}") from None


def scheme(config: Config, plain: int) -> Scheme:
    """The scheme of a model whose unquantised matrices take `plain` bytes an element. ModelError for an unknown one."""
    quantization = mapping(config, "quantization_config") or mapping(config, "compression_config")
    if not quantization:
        return Scheme(plain, None, ())
    method = str(quantization.get("quant_method", "")).lower()
    if method == "compressed-tensors":
        return Scheme(plain, _compressed(quantization, plain), _list(quantization, "ignore"))
    if method == "mxfp4":
        return Scheme(plain, _mxfp4, _list(quantization, "modules_to_not_convert"), experts_only=True)
    forms: dict[str, Callable[[Config, int], Stored]] = {
        "fp8": _fp8,
        "fbgemm_fp8": lambda _, __: whole(4),
        "awq": _awq,
        "gptq": _gptq,
        "modelopt": _modelopt,
        "modelopt_fp4": _modelopt,
    }
    if method not in forms:
        known = ", ".join(sorted([*forms, "compressed-tensors", "mxfp4"]))
        raise ModelError(f"config.json: quantization_config.quant_method: want one of {known}, found {method!r}")
    ignored = _list(quantization, "ignored_layers") + _list(quantization, "modules_to_not_convert")
    ignored += _list(quantization, "ignore") + _list(quantization, "exclude_modules")
    return Scheme(plain, forms[method](quantization, plain), ignored)


def _list(quantization: Config, name: str) -> tuple[str, ...]:
    value = quantization.get(name) or ()
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise ModelError(f"config.json: quantization_config.{name}: want a list of texts, found {value!r}")
    return tuple(value)


def _up(value: int, step: int) -> int:
    return -(-value // step)


def packed(bits: int, group: int | None, scale: int, symmetric: bool) -> Stored:
    """Integers packed in int32 with a scale a group, zero points packed the same way, and the shape (two int64)."""

    def stored(rows: int, columns: int) -> int:
        groups = _up(columns, group) if group else 1
        zero = 0 if symmetric else _up(rows * bits, 32) * 4 * groups
        return rows * _up(columns * bits, 32) * 4 + rows * groups * scale + zero + 16

    return stored


def whole(scale: int, block: tuple[int, int] | None = None) -> Stored:
    """A byte an element; a scale a row, a block, or (scale 0) one for all."""

    def stored(rows: int, columns: int) -> int:
        if block:
            return rows * columns + _up(rows, block[0]) * _up(columns, block[1]) * 4
        return rows * columns + (rows * scale if scale else 4)

    return stored


def _nvfp4(rows: int, columns: int) -> int:
    """Two elements a byte, an fp8 scale for each 16, and two float32 for the whole."""
    return rows * columns // 2 + rows * _up(columns, 16) + 8


def _mxfp4(rows: int, columns: int) -> int:
    """Two elements a byte and an exponent byte for each 32."""
    return rows * columns // 2 + rows * _up(columns, 32)


def _compressed(quantization: Config, plain: int) -> Stored:
    """The form of all groups, which must be the same matrix for matrix: with several, names would have to choose."""
    groups = mapping(quantization, "config_groups")
    found = [_compressed_group(group, str(quantization.get("format", "")), plain) for group in groups.values()]
    sizes = {form(512, 4096) for form in found}
    if len(sizes) != 1:
        several = "groups of one form, or the checkpoint itself (--checkpoint)"
        raise ModelError(f"config.json: quantization_config.config_groups: want {several}, found {len(sizes)} forms")
    return found[0]


def _compressed_group(group: Any, form: str, plain: int) -> Stored:
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        raise ModelError("config.json: quantization_config.config_groups: want a group with weights, found none")
    bits, strategy = weights.get("num_bits"), weights.get("strategy")
    size, form = weights.get("group_size"), str(group.get("format") or form)
    if bits == 4 and weights.get("type") == "float":
        return _nvfp4 if strategy == "tensor_group" or "nvfp4" in form else _mxfp4
    if bits == 8 and (weights.get("type") == "float" or form in ("int-quantized", "")):
        block = weights.get("block_structure")
        if strategy == "block" and isinstance(block, list) and len(block) == 2:
            return whole(0, (int(block[0]), int(block[1])))
        return whole(plain if strategy == "channel" else 0)
    if isinstance(bits, int) and bits in (2, 3, 4, 8):
        return packed(bits, size if strategy == "group" else None, plain, bool(weights.get("symmetric", True)))
    raise ModelError(f"config.json: quantization_config: want weights of 4 or 8 bits, found {bits!r}")


def _fp8(quantization: Config, plain: int) -> Stored:
    block = quantization.get("weight_block_size")
    if block is None:
        return whole(0)
    if not isinstance(block, list) or len(block) != 2 or not all(isinstance(n, int) and n > 0 for n in block):
        raise ModelError(f"config.json: quantization_config.weight_block_size: want two numbers, found {block!r}")
    return whole(0, (block[0], block[1]))


def _group_size(quantization: Config) -> int | None:
    size = quantization.get("group_size", quantization.get("q_group_size", 128))
    if not isinstance(size, int) or isinstance(size, bool) or size == 0:
        raise ModelError(f"config.json: quantization_config.group_size: want an integer, found {size!r}")
    return size if size > 0 else None


def _bits(quantization: Config) -> int:
    bits = quantization.get("bits", quantization.get("w_bit", 4))
    if bits not in (2, 3, 4, 8):
        raise ModelError(f"config.json: quantization_config.bits: want 2, 3, 4 or 8, found {bits!r}")
    return int(bits)


def _awq(quantization: Config, plain: int) -> Stored:
    """AutoAWQ: weights and zero points packed in int32 along the outputs, float16 scales."""
    bits, group = _bits(quantization), _group_size(quantization)

    def stored(rows: int, columns: int) -> int:
        groups = _up(columns, group) if group else 1
        line = _up(rows * bits, 32) * 4
        return columns * line + groups * line + groups * rows * 2

    return stored


def _gptq(quantization: Config, plain: int) -> Stored:
    """GPTQ: as AWQ, zero points also where symmetric, and an int32 group number for each input."""
    awq = _awq(quantization, plain)
    return lambda rows, columns: awq(rows, columns) + columns * 4


def _modelopt(quantization: Config, plain: int) -> Stored:
    stated = quantization.get("quant_algo") or mapping(quantization, "quantization").get("quant_algo")
    algorithm = str(stated or "").upper()
    if algorithm == "NVFP4":
        return _nvfp4
    if algorithm == "FP8":
        return lambda rows, columns: rows * columns + 8
    raise ModelError(f"config.json: quantization_config.quant_algo: want NVFP4 or FP8, found {algorithm!r}")
