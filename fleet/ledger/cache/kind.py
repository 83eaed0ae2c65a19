"""What one layer keeps of a token, or of a request, as the model's config.json states it."""

from fleet.frozen import Frozen


class Keys(Frozen):
    """Keys and values of each KV head (GQA, MHA). `width` is elements a head and token: key and value together.

    `window` is set where only the last tokens are kept (sliding window), `chunk` where attention stays in a chunk.
    """

    heads: int
    width: int
    window: int | None = None
    chunk: int | None = None


class Latent(Frozen):
    """One latent vector a token (MLA), whole on every rank: `kv_lora_rank + qk_rope_head_dim` elements."""

    width: int


class Indexer(Frozen):
    """Keys of the sparse-attention indexer (DSA): one byte an element and a float for each 128, on every rank."""

    head_dim: int


class State(Frozen):
    """A state of fixed size for each request (linear attention, Mamba), split over TP.

    `conv_dim` x (`conv_kernel` - 1 + drafted tokens) elements of the model's dtype, and `recurrent` elements of
    `recurrent_bytes` each. `groups` (with `group_dim` elements each in `conv_dim`, twice) are padded where TP does
    not divide them.
    """

    conv_dim: int
    conv_kernel: int
    recurrent: int
    recurrent_bytes: int
    groups: int = 0
    group_dim: int = 0
    missing: str | None = None
    """What config.json lacks to tell its size; then only the block size that the engine logs tells it."""


Cache = Keys | Latent | Indexer | State
"""What one layer keeps. A layer may keep several: a latent vector and indexer keys."""
