"""What a checkpoint's safetensors headers say: the tensors of each layer, summed by name.

A header is 8 bytes of length, little-endian, and that much JSON: {name: {dtype, shape, data_offsets}}. It is read on
this machine (`facts/checkpoint.py`) or on the node (`facts/sections/checkpoint.sh`), which sums there and sends a line
a kind of tensor; both give the same `Checkpoint`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.frozen import Frozen
from fleet.model.shape import ModelError

DTYPE_BITS = {
    **dict.fromkeys(("F64", "I64", "U64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
MOST_LAYERS = 10_000


class Tensors(Frozen):
    """Tensors of one name, once in each of `layers`: `count` of them there, of `size` bytes each.

    `name` has `#` for each number in it: `model.layers.#.mlp.experts.#.down_proj.weight`. `layers` is empty where the
    name has no layer.
    """

    name: str
    dtype: str
    layers: tuple[int, ...]
    count: int
    size: int

    @property
    def line(self) -> str:
        """As the node sends it."""
        return f"{self.count} {self.size} {self.dtype} {_ranges(self.layers)} {self.name}"


class Checkpoint(Frozen):
    """All tensors of a checkpoint, and how many files hold them."""

    tensors: tuple[Tensors, ...]
    files: int = 1

    @property
    def lines(self) -> tuple[str, ...]:
        """As the node sends them."""
        return tuple(one.line for one in self.tensors)

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(one.count * one.size * max(1, len(one.layers)) for one in self.tensors)


def summed(headers: Iterable[tuple[str, Mapping[str, Any]]]) -> Checkpoint:
    """The checkpoint of parsed headers, each with its file's name. ModelError names file and tensor."""
    found: dict[tuple[str, str, int, int | None], int] = {}
    files = 0
    for file, header in headers:
        files += 1
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            dtype, size = _entry(file, name, entry)
            layer = LAYER.search(name)
            key = (_NUMBER.sub("#", name), dtype, size, _layer(file, name, layer))
            found[key] = found.get(key, 0) + 1
    layers: dict[tuple[str, str, int, int], list[int]] = {}
    for (name, dtype, size, at), count in found.items():
        layers.setdefault((name, dtype, count, size), []).extend([] if at is None else [at])
    tensors = [
        Tensors(name=name, dtype=dtype, layers=tuple(sorted(at)), count=count, size=size)
        for (name, dtype, count, size), at in sorted(layers.items())
    ]
    return Checkpoint(tensors=tuple(tensors), files=files)


def _layer(file: str, name: str, match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    if len(match[1]) > 5 or int(match[1]) >= MOST_LAYERS:
        raise ModelError(f"{file}: {name}: want a layer below {MOST_LAYERS}")
    return int(match[1])


def _entry(file: str, name: str, entry: Any) -> tuple[str, int]:
    """dtype and bytes of one tensor; what its shape says must be what its offsets say."""
    place = f"{file}: {name}"
    if not isinstance(entry, Mapping):
        raise ModelError(f"{place}: want dtype, shape and data_offsets, found {str(entry)[:60]!r}")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if dtype not in DTYPE_BITS:
        raise ModelError(f"{place}: want a dtype of safetensors, found {dtype!r}")
    if not (isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2) or not all(
        isinstance(n, int) and n >= 0 for n in (*shape, *offsets)
    ):
        raise ModelError(f"{place}: want a shape and two offsets, found {shape!r} and {offsets!r}")
    elements = 1
    for n in shape:
        elements *= n
    size = offsets[1] - offsets[0]
    if size != -(-elements * DTYPE_BITS[dtype] // 8):
        raise ModelError(f"{place}: want {elements} elements of {dtype}, found {size} bytes of data")
    return dtype, size


def _ranges(layers: tuple[int, ...]) -> str:
    """`0-2,6` or `-`."""
    parts: list[list[int]] = []
    for layer in layers:
        if parts and parts[-1][-1] + 1 == layer:
            parts[-1] = [parts[-1][0], layer]
        else:
            parts.append([layer])
    return ",".join("-".join(map(str, part)) for part in parts) or "-"


_LINE = re.compile(
    r"(\d{1,9}) (\d{1,15}) ([A-Z0-9_]{1,12}) (-|\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*) (\S{1,300})"
)


def parse_lines(lines: Iterable[str], files: int = 1) -> Checkpoint:
    """A checkpoint from the lines of a node. ModelError with the line that is none."""
    tensors = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None or match[3] not in DTYPE_BITS:
            raise ModelError(f"want `COUNT BYTES DTYPE LAYERS NAME`, found {line[:80]!r}")
        layers = () if match[4] == "-" else tuple(_spread(match[4]))
        tensors.append(Tensors(name=match[5], dtype=match[3], layers=layers, count=int(match[1]), size=int(match[2])))
    if not tensors:
        raise ModelError("want the tensors of the checkpoint, found none")
    return Checkpoint(
        tensors=tuple(sorted(tensors, key=lambda one: (one.name, one.dtype, one.count, one.size))), files=files
    )


def _spread(ranges: str) -> Iterable[int]:
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
