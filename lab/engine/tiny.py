"""A model that is small enough for a test: a Llama of random weights, with a tokenizer of single bytes. No download.

Random weights alone repeat one letter for ever, which a proof refuses. So the head is laid on the embedding: each token
is followed by the one after it in ORDER, and every answer to a chat is " tiny." and ends. The layers are random, their
share moves every log-probability: a stage that is left out shows there.
"""

import json
import random
import struct
from array import array
from pathlib import Path
from typing import Any

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, WIDTH = 4, 128, 256, 4, 2, 32
SPECIAL = ("<s>", "</s>", "<unk>")
ANSWER = ": tiny."
"""The template ends with its first letter; what is generated are the others, then </s>."""
HEAD_SCALE = 0.08
"""So that the right token is likely, not certain."""
POSITIONS = 2048
SEED = 7
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"


def write(into: Path) -> None:
    """config.json, tokenizer and model.safetensors (1.5 MB) in a folder, which must not exist."""
    into.mkdir(parents=True)
    vocabulary = _vocabulary()
    documents = {
        "config.json": _config(len(vocabulary)),
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": 1},
        "tokenizer.json": _tokenizer(vocabulary),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "chat_template": TEMPLATE,
            "model_max_length": POSITIONS,
        },
    }
    for name, document in documents.items():
        (into / name).write_text(json.dumps(document, indent=1) + "\n")
    (into / "model.safetensors").write_bytes(_weights(vocabulary))


def _config(vocabulary: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": LAYERS,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": WIDTH,
        "vocab_size": vocabulary,
        "max_position_embeddings": POSITIONS,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "bfloat16",
    }


def _vocabulary() -> dict[str, int]:
    """Special tokens, then one token for each byte, under the letters that byte-level tokenizers write them with."""
    return {token: number for number, token in enumerate((*SPECIAL, *_letters()))}


def _letters() -> list[str]:
    """Printable bytes stand for themselves, the others for letters from U+0100 on (GPT-2's alphabet)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def _tokenizer(vocabulary: dict[str, int]) -> dict[str, Any]:
    special = [
        {
            "id": vocabulary[token],
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for token in SPECIAL
    ]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": bytes_,
        "post_processor": None,
        "decoder": bytes_,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }


def _shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, HIDDEN)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        shapes |= {
            f"{name}.self_attn.q_proj.weight": (HEADS * WIDTH, HIDDEN),
            f"{name}.self_attn.k_proj.weight": (KV_HEADS * WIDTH, HIDDEN),
            f"{name}.self_attn.v_proj.weight": (KV_HEADS * WIDTH, HIDDEN),
            f"{name}.self_attn.o_proj.weight": (HIDDEN, HEADS * WIDTH),
            f"{name}.mlp.gate_proj.weight": (INNER, HIDDEN),
            f"{name}.mlp.up_proj.weight": (INNER, HIDDEN),
            f"{name}.mlp.down_proj.weight": (HIDDEN, INNER),
            f"{name}.input_layernorm.weight": (HIDDEN,),
            f"{name}.post_attention_layernorm.weight": (HIDDEN,),
        }
    return {**shapes, "model.norm.weight": (HIDDEN,), "lm_head.weight": (vocabulary, HIDDEN)}


def _successors(vocabulary: dict[str, int]) -> dict[int, int]:
    """Token -> the one that follows it: all others in their order, then ANSWER, then </s>, and from the start again."""
    letters = _letters()
    said = [vocabulary[letters[byte]] for byte in ANSWER.encode()]
    order = [*(number for number in vocabulary.values() if number not in (*said, 1)), *said, 1]
    return dict(zip(order, [*order[1:], order[0]], strict=True))


def _weights(vocabulary: dict[str, int]) -> bytes:
    """One safetensors file: 8 bytes of length, a JSON header, then all tensors in bfloat16."""
    draw = random.Random(SEED)
    embedding = array("f", [draw.gauss(0, 1) for _ in range(len(vocabulary) * HIDDEN)])
    head = array("f", [0.0] * len(embedding))
    for token, following in _successors(vocabulary).items():
        row = embedding[token * HIDDEN : (token + 1) * HIDDEN]
        head[following * HIDDEN : (following + 1) * HIDDEN] = array("f", [HEAD_SCALE * value for value in row])
    given = {"model.embed_tokens.weight": embedding, "lm_head.weight": head}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = bytearray()
    for name, shape in _shapes(len(vocabulary)).items():
        data = _bfloat16(given[name] if name in given else _random(shape, draw))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(body)


def _random(shape: tuple[int, ...], draw: random.Random) -> "array[float]":
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    return array("f", [1.0] * count if len(shape) == 1 else [draw.gauss(0, 0.05) for _ in range(count)])


def _bfloat16(values: "array[float]") -> bytes:
    """The upper halves of 32-bit floats, little-endian."""
    raw = values.tobytes()
    out = bytearray(len(raw) // 2)
    out[0::2], out[1::2] = raw[2::4], raw[3::4]
    return bytes(out)
