"""Checkpoints of the lab's models: one file with a true header, as long as the model would be, and with nothing in it.

What reads names, headers and sizes finds what the memory ledger says of the model's config.json; a few tensors stand
for all of a layer. The file is sparse: it takes the room of its header.
"""

import json
from pathlib import Path

from fleet.model.read import read_model
from fleet.model.shape import Layer, Model

FILE = "model.safetensors"


def write(folder: Path) -> None:
    """Write the checkpoint of the config.json in this folder beside it."""
    model = read_model(json.loads((folder / "config.json").read_text()))
    header, at = {}, 0
    for name, (dtype, size) in _tensors(model).items():
        header[name] = {
            "dtype": dtype,
            "shape": [size // (4 if dtype == "I32" else 2)],
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(folder / FILE, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)


def _tensors(model: Model) -> dict[str, tuple[str, int]]:
    """Name -> dtype and bytes."""
    found = {"model.embed_tokens.weight": ("BF16", model.embedding), "model.norm.weight": ("BF16", 2 * model.hidden)}
    if not model.tied:
        found["lm_head.weight"] = ("BF16", model.head)
    for index, layer in enumerate((*model.layers, *model.drafts)):
        found |= _layer(f"model.layers.{index}", model, layer)
        computes = index >= len(model.layers) or (bool(model.computing) and model.computing[index])
        if computes and model.indexer is not None:
            found[f"model.layers.{index}.self_attn.indexer.wq_b.weight"] = ("BF16", model.indexer.stored)
    return {name: (dtype, size) for name, (dtype, size) in found.items() if size}


def _layer(at: str, model: Model, layer: Layer) -> dict[str, tuple[str, int]]:
    weights = layer.weights
    if weights is None:
        return {}
    sharded = f"{at}.self_attn.{'kv_b_proj' if model.latent else 'o_proj'}.weight"
    return {
        sharded: ("BF16", weights.sharded),
        f"{at}.self_attn.k_proj.weight": ("BF16", weights.keys),
        f"{at}.input_layernorm.weight": ("BF16", weights.replicated),
        f"{at}.mlp.experts.down_proj.weight_packed": ("I32", weights.experts.bytes if weights.experts else 0),
    }
