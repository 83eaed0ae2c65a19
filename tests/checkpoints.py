"""Checkpoints as data: the tensors that a config.json makes, as safetensors headers, without the weights."""

import json
from pathlib import Path
from typing import Any

Shapes = dict[str, tuple[str, tuple[int, ...]]]
BITS = {"BF16": 16, "F32": 32, "I32": 32, "I64": 64, "F8_E4M3": 8, "U8": 8, "F16": 16}


def linear(name: str, rows: int, columns: int) -> Shapes:
    """A matrix in 16 bit."""
    return {f"{name}.weight": ("BF16", (rows, columns))}


def norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": ("BF16", (width,))}


def packed(name: str, rows: int, columns: int, group: int = 32) -> Shapes:
    """A matrix of 4-bit integers with scales and packed zero points (compressed-tensors)."""
    groups = columns // group
    return {
        f"{name}.weight_packed": ("I32", (rows, columns // 8)),
        f"{name}.weight_scale": ("BF16", (rows, groups)),
        f"{name}.weight_zero_point": ("I32", (rows // 8, groups)),
        f"{name}.weight_shape": ("I64", (2,)),
    }


def edges(config: dict[str, Any], prefix: str = "model") -> Shapes:
    """Embedding, final norm and head."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    found = linear(f"{prefix}.embed_tokens", vocabulary, hidden) | norm(f"{prefix}.norm", hidden)
    return found if config.get("tie_word_embeddings") else found | linear("lm_head", vocabulary, hidden)


def dense(config: dict[str, Any], prefix: str = "model") -> Shapes:
    """A Llama-like model."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    query = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    found = edges(config, prefix)
    for index in range(config["num_hidden_layers"]):
        at = f"{prefix}.layers.{index}"
        for name, width in (("q_proj", query), ("k_proj", keys), ("v_proj", keys)):
            found |= linear(f"{at}.self_attn.{name}", width, hidden)
        found |= linear(f"{at}.self_attn.o_proj", hidden, query)
        found |= linear(f"{at}.mlp.gate_proj", inner, hidden) | linear(f"{at}.mlp.up_proj", inner, hidden)
        found |= linear(f"{at}.mlp.down_proj", hidden, inner)
        found |= norm(f"{at}.input_layernorm", hidden) | norm(f"{at}.post_attention_layernorm", hidden)
    return found


def sparse(config: dict[str, Any], computing: set[int]) -> Shapes:
    """A model with MLA, packed routed experts, one MTP layer, and indexers on the `computing` layers."""
    layers = config["num_hidden_layers"]
    found = edges(config)
    for index in range(layers + config["num_nextn_predict_layers"]):
        at = f"model.layers.{index}"
        found |= _latent(config, f"{at}.self_attn") | _feed(config, f"{at}.mlp", index)
        found |= norm(f"{at}.input_layernorm", config["hidden_size"])
        found |= norm(f"{at}.post_attention_layernorm", config["hidden_size"])
        if index in computing or index >= layers:
            found |= _indexer(config, f"{at}.self_attn.indexer")
        if index >= layers:
            found |= linear(f"{at}.eh_proj", config["hidden_size"], 2 * config["hidden_size"])
            for name in ("enorm", "hnorm", "shared_head.norm"):
                found |= norm(f"{at}.{name}", config["hidden_size"])
    return found


def _latent(config: dict[str, Any], at: str) -> Shapes:
    heads, hidden, rank = config["num_attention_heads"], config["hidden_size"], config["kv_lora_rank"]
    nope, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    return {
        **linear(f"{at}.q_a_proj", config["q_lora_rank"], hidden),
        **norm(f"{at}.q_a_layernorm", config["q_lora_rank"]),
        **linear(f"{at}.q_b_proj", heads * (nope + rope), config["q_lora_rank"]),
        **linear(f"{at}.kv_a_proj_with_mqa", rank + rope, hidden),
        **norm(f"{at}.kv_a_layernorm", rank),
        **linear(f"{at}.kv_b_proj", heads * (nope + value), rank),
        **linear(f"{at}.o_proj", hidden, heads * value),
    }


def _indexer(config: dict[str, Any], at: str) -> Shapes:
    heads, width = config["index_n_heads"], config["index_head_dim"]
    return {
        **linear(f"{at}.wq_b", heads * width, config["q_lora_rank"]),
        **linear(f"{at}.wk", width, config["hidden_size"]),
        **linear(f"{at}.weights_proj", heads, config["hidden_size"]),
        **norm(f"{at}.k_norm", width),
        f"{at}.k_norm.bias": ("BF16", (width,)),
    }


def _feed(config: dict[str, Any], at: str, index: int) -> Shapes:
    hidden = config["hidden_size"]
    if index < config["first_k_dense_replace"]:
        inner = config["intermediate_size"]
        found = linear(f"{at}.gate_proj", inner, hidden) | linear(f"{at}.up_proj", inner, hidden)
        return found | linear(f"{at}.down_proj", hidden, inner)
    inner = config["moe_intermediate_size"]
    found = linear(f"{at}.gate", config["n_routed_experts"], hidden)
    for name, one in [
        ("shared_experts", linear),
        *((f"experts.{number}", packed) for number in range(config["n_routed_experts"])),
    ]:
        found |= one(f"{at}.{name}.gate_proj", inner, hidden) | one(f"{at}.{name}.up_proj", inner, hidden)
        found |= one(f"{at}.{name}.down_proj", hidden, inner)
    return found


def header(shapes: Shapes) -> dict[str, Any]:
    """The parsed header of one file with these tensors."""
    found: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in shapes.items():
        elements = 1
        for n in shape:
            elements *= n
        size = elements * BITS[dtype] // 8
        found[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    return found


def write(path: Path, shapes: Shapes, spaces: bool = False) -> int:
    """A safetensors file with these tensors, its data a hole. Returns the bytes of the data."""
    parsed = header(shapes)
    text = json.dumps(parsed, separators=None if spaces else (",", ":")).encode()
    size = max((entry["data_offsets"][1] for name, entry in parsed.items() if name != "__metadata__"), default=0)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + size)
    return size


def write_shards(folder: Path, shapes: Shapes, shards: int = 3) -> int:
    """The tensors spread over shards, with their index. Returns the bytes of all data."""
    parts: list[Shapes] = [{} for _ in range(shards)]
    for number, (name, shape) in enumerate(shapes.items()):
        parts[number % shards][name] = shape
    files = [f"model-{number + 1:05d}-of-{shards:05d}.safetensors" for number in range(shards)]
    total = sum(write(folder / file, part) for file, part in zip(files, parts, strict=True))
    names = {name: file for file, part in zip(files, parts, strict=True) for name in part}
    index = {"metadata": {"total_size": total}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total
