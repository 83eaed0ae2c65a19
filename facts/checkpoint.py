"""A checkpoint folder on this machine: its safetensors headers, without the weights behind them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleet.model.checkpoint import Checkpoint, summed
from fleet.model.shape import ModelError

INDEX = "model.safetensors.index.json"
LONGEST_HEADER = 100_000_000
"""Bytes; what safetensors itself takes at most."""


def read_checkpoint(folder: Path) -> Checkpoint:
    """The tensors of all shards of a folder. ModelError with the file, where one is missing, cut off or broken."""
    try:
        return summed(_headers(folder))
    except OSError as error:
        raise ModelError(f"{folder}: {error.strerror}") from None


def _headers(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in _files(folder):
        try:
            yield path.name, read_header(path)
        except OSError as error:
            raise ModelError(f"{path}: {error.strerror}") from None


def _files(folder: Path) -> list[Path]:
    """The shards that the index names, else every safetensors file."""
    index = folder / INDEX
    if not index.exists():
        found = sorted(folder.glob("*.safetensors"))
        if not found:
            raise ModelError(f"{folder}: want *.safetensors, found none")
        return found
    try:
        names = json.loads(index.read_bytes())["weight_map"].values()
        named = sorted({str(name) for name in names})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{index}: want JSON with weight_map, found {error!r:.80}") from None
    except OSError as error:
        raise ModelError(f"{index}: {error.strerror}") from None
    missing = [name for name in named if "/" in name or not (folder / name).is_file()]
    if missing or not named:
        raise ModelError(f"{index}: want every shard in {folder}, found no {', '.join(missing[:3]) or 'shard named'}")
    return [folder / name for name in named]


def read_header(path: Path) -> dict[str, Any]:
    """The parsed header of one file. ModelError where it is cut off, too long, or no JSON; data must be whole too."""
    with path.open("rb") as file:
        prefix = file.read(8)
        size = int.from_bytes(prefix, "little")
        if len(prefix) < 8 or size > LONGEST_HEADER:
            raise ModelError(f"{path}: the header is not that of safetensors")
        raw = file.read(size)
        if len(raw) < size:
            raise ModelError(f"{path}: the header is cut off: want {size} bytes, found {len(raw)}")
        total = file.seek(0, 2)
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: the header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise ModelError(f"{path}: the header is no object")
    ends = [entry["data_offsets"][1] for entry in header.values() if _has_end(entry)]
    if ends and total < 8 + size + max(ends):
        raise ModelError(f"{path}: the file is cut off: want {8 + size + max(ends)} bytes, found {total}")
    return header


def _has_end(entry: Any) -> bool:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    return isinstance(offsets, list) and len(offsets) == 2 and isinstance(offsets[1], int)
