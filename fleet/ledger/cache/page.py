"""Bytes of one block of one layer on one rank, by KV dtype, TP and block size."""

from typing import Literal

from fleet.frozen import Frozen
from fleet.ledger.cache.kind import Cache, Indexer, Keys, Latent, State

Family = Literal["full", "window", "chunk", "state"]

LATENT_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes a token of the packed MLA layouts (vLLM `MLAAttention.get_kv_cache_spec`)."""

_ELEMENT = {
    "auto": 2.0,
    "bfloat16": 2.0,
    "bf16": 2.0,
    "float16": 2.0,
    "half": 2.0,
    "float": 4.0,
    "float32": 4.0,
    "nvfp4": 0.5625,
}


class CacheError(ValueError):
    """The cache of this model cannot be planned so; the text says what was wanted and what was found."""


class Page(Frozen):
    """One block of one layer on one rank: `size` bytes for `block` tokens.

    `family` and `reach` (window or chunk) decide which layers may share a block table; `key` tells equal layers apart.
    """

    family: Family
    block: int
    size: int
    reach: int | None = None
    key: tuple[int, ...] = ()


def element_bytes(dtype: str, model_dtype: int = 2) -> float:
    """Bytes of one cached element. Raises CacheError for a dtype that is not modelled."""
    if dtype == "auto":
        return model_dtype
    if dtype in LATENT_BYTES or (dtype.startswith("fp8") and "per_token" not in dtype):
        return 1.0
    if dtype not in _ELEMENT:
        known = ", ".join([*_ELEMENT, "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4", *LATENT_BYTES])
        raise CacheError(f"kv-cache-dtype: want one of {known}, found {dtype!r}: its bytes are not modelled")
    return _ELEMENT[dtype]


def heads_on_rank(heads: int, tp: int) -> int:
    """KV heads of one rank. Past the number of heads they are replicated (vLLM `get_num_kv_heads`)."""
    return max(1, heads // tp)


def state_bytes(state: State, tp: int, drafted: int = 0, conv_bytes: int = 2) -> int:
    """Bytes of one request's state on one rank (vLLM `MambaStateShapeCalculator`).

    Groups that TP does not divide are filled up, so that the groups of each head lie with it.
    """
    extra = tp - state.groups if state.groups and state.groups % tp else 0
    conv = (state.conv_dim + 2 * extra * state.group_dim) // tp * (state.conv_kernel - 1 + drafted)
    return conv * conv_bytes + state.recurrent // tp * state.recurrent_bytes


def token_bytes(cache: Cache, dtype: str, tp: int, model_dtype: int = 2) -> int:
    """Bytes that one token takes in this cache on one rank; 0 for a state.

    MLA and the indexer are whole on every TP rank. Indexer: a byte an element and a float32 for each 128 (vLLM
    `DeepseekV32IndexerCache`).
    """
    if isinstance(cache, Indexer):
        return cache.head_dim + cache.head_dim // 128 * 4
    if isinstance(cache, Latent):
        return LATENT_BYTES.get(dtype) or int(cache.width * element_bytes(dtype, model_dtype))
    if isinstance(cache, Keys):
        if dtype in LATENT_BYTES:
            raise CacheError(f"kv-cache-dtype {dtype}: want a model with MLA, found keys and values of each head")
        heads = heads_on_rank(cache.heads, tp)
        if dtype == "nvfp4":  # key and value each: 4 bits an element and a scale byte for each 16
            half = cache.width // 2
            return heads * 2 * (half // 2 + half // 16)
        return int(heads * cache.width * element_bytes(dtype, model_dtype))
    return 0


def page(cache: Cache, dtype: str, tp: int, block: int, state_page: int = 0, model_dtype: int = 2) -> Page:
    """The page of one layer. A state takes `state_page` bytes, which `hybrid_block` has made an attention page."""
    if isinstance(cache, State):
        return Page(family="state", block=block, size=state_page, key=(cache.conv_dim, cache.recurrent))
    size = token_bytes(cache, dtype, tp, model_dtype) * block
    if isinstance(cache, Keys):
        key = (heads_on_rank(cache.heads, tp), cache.width)
        if cache.window is not None:
            return Page(family="window", block=block, size=size, reach=cache.window, key=key)
        if cache.chunk is not None:
            return Page(family="chunk", block=block, size=size, reach=cache.chunk, key=key)
        return Page(family="full", block=block, size=size, key=key)
    return Page(family="full", block=block, size=size, key=(0, size))


def hybrid_block(states: int, per_token: int, block: int, step: int) -> tuple[int, int]:
    """Block size and page bytes of a model with states of `states` bytes beside attention of `per_token` bytes.

    The block grows, in steps that the attention kernel takes, until an attention page holds a state, and the state is
    padded to it (vLLM `Platform._align_hybrid_block_size`).
    """
    wanted = max(block, step * -(-states // (step * per_token)))
    return wanted, wanted * per_token
