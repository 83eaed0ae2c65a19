"""Memory figures that look like an engine's. Made up: no GPU is read and no weight is loaded.

They depend on config.json and the flags alone, so the same release always shows the same pool, and they move
the way the real ones do: a longer stage, a wider KV type or more context leaves room for fewer requests.
"""

from __future__ import annotations

from .arguments import Settings
from .model import Model

GIB = 2**30
GPU_GIB = 80.0  # every made-up GPU has this
WEIGHTS_GIB = 36.0  # of an even stage
OTHER_GIB = 4.5  # activations, graphs, what is not torch's
MLA_BLOCK = 64
BLOCK = 16


class Pool:
    """The KV pool of one engine. Bytes are per rank, tokens per engine."""

    def __init__(self, model: Model, settings: Settings, stage_layers: list[int], max_model_len: int) -> None:
        longest = max(stage_layers)
        even = model.layers / len(stage_layers)
        self.block_size = settings.block_size or (MLA_BLOCK if "kv_lora_rank" in model.fields else BLOCK)
        self.weights_gib = WEIGHTS_GIB * longest / even
        free = GPU_GIB * settings.gpu_memory_utilization - self.weights_gib - OTHER_GIB
        self.available_gib = max(free, 1.0)
        page = self.block_size * longest * _bytes_per_token_and_layer(model, settings)
        blocks_of_one = -(-max_model_len // self.block_size)
        # the real engine refuses a pool smaller than one request; a made-up shortage must not stop a rollout
        self.blocks = max(int(self.available_gib * GIB) // page, blocks_of_one)
        self.concurrency = self.blocks / blocks_of_one
        self.tokens = int(self.concurrency * max_model_len)


def _bytes_per_token_and_layer(model: Model, settings: Settings) -> int:
    """Bytes of KV on one rank: MLA keeps a latent that TP does not divide, others divide their KV heads."""
    element = 1 if settings.kv_cache_dtype.startswith("fp8") else 2
    if "kv_lora_rank" in model.fields:
        if settings.kv_cache_dtype == "fp8_ds_mla":
            return 656
        return (model.number("kv_lora_rank") + model.number("qk_rope_head_dim", 64)) * element
    heads = model.number("num_key_value_heads", model.heads) or 1
    width = model.number("head_dim", 0) or model.number("hidden_size", 4096) // max(model.heads, 1)
    return 2 * max(1, heads // settings.tp) * width * element
