"""KV groups as the engine forms them, and the pool that it prints.

Source: vLLM 0.30.0, `vllm/v1/core/kv_cache_utils.py`: `get_kv_cache_groups`, `_get_kv_cache_groups_uniform_page_size`,
`get_kv_cache_config_from_groups`, `get_max_concurrency_for_kv_cache_config`. Agreement with the real planner is shown
by the engine tests (docs/ledger.md).
"""

from collections.abc import Sequence

from fleet.frozen import Frozen
from fleet.ledger.cache.page import CacheError, Page

LAYER = int
"""Position in the order in which the engine sees the layers: those of the model, then those of the draft."""


class Group(Frozen):
    """Layers with one block table. `size` is the bytes of one page of each of its layers."""

    layers: tuple[LAYER, ...]
    sizes: tuple[int, ...]
    page: Page
    """One of its pages: all of them need the same number of blocks."""


class Limits(Frozen):
    """What decides how many blocks a request needs. Tokens, except `state_blocks`, which are blocks of each state."""

    max_model_len: int
    in_flight: int
    """Tokens scheduled and not yet settled: `max_num_batched_tokens` x batches at a time."""
    state_blocks: int = 1
    dcp: int = 1
    extra_retained: int = 0
    """Tokens kept below a sliding window for drafts of several modules."""


def group(pages: Sequence[tuple[LAYER, Page]]) -> tuple[Group, ...]:
    """The groups of all layers of a model, whatever stage they are on. CacheError where pages cannot be made equal."""
    if not pages:
        return ()
    first = pages[0][1]
    alike = all(_joins(first, page) and page.block == first.block for _, page in pages)
    if alike:
        return (_group(pages),)
    return _grouped(_equal_pages(pages))


def _joins(first: Page, page: Page) -> bool:
    """May these share a block table though their pages differ in size (vLLM `UniformTypeKVCacheSpecs`)?"""
    if first.family != page.family or first.reach != page.reach:
        return False
    return first.family != "state" or first.size == page.size


def _equal_pages(pages: Sequence[tuple[LAYER, Page]]) -> list[tuple[LAYER, Page]]:
    """All pages as large as the largest: more tokens a block where it divides, else padding."""
    largest = max(page.size for _, page in pages)
    found = []
    for layer, page in pages:
        if page.size == largest:
            found.append((layer, page))
        elif page.family != "state" and largest % page.size == 0:
            ratio = largest // page.size
            found.append((layer, page.model_copy(update={"size": largest, "block": page.block * ratio})))
        elif page.family == "state" or page.key[0]:
            found.append((layer, page.model_copy(update={"size": largest})))
        else:
            raise CacheError(
                f"KV pages of {page.size} and {largest} bytes cannot be made equal: the engine does not pad MLA pages"
            )
    return found


def _grouped(pages: Sequence[tuple[LAYER, Page]]) -> tuple[Group, ...]:
    """Groups of equal numbers of layers; layer i of a kind goes to group i mod n, so that stages stay balanced."""
    kinds: dict[Page, list[tuple[LAYER, Page]]] = {}
    for layer, page in pages:
        kinds.setdefault(page, []).append((layer, page))
    counts = [len(layers) for layers in kinds.values()]
    size = max(counts) if max(counts) < min(counts) * 1.5 else min(counts)
    found = []
    for layers in kinds.values():
        groups = -(-len(layers) // size)
        found += [_group(layers[i::groups]) for i in range(groups)]
    return tuple(found)


def _group(pages: Sequence[tuple[LAYER, Page]]) -> Group:
    return Group(
        layers=tuple(layer for layer, _ in pages), sizes=tuple(page.size for _, page in pages), page=pages[0][1]
    )


def blocks_per_request(groups: Sequence[Group], limits: Limits) -> int:
    """Blocks that one request of `max_model_len` tokens takes from the pool, over all groups."""
    return sum(_request_blocks(one.page, limits) for one in groups)


def _request_blocks(page: Page, limits: Limits) -> int:
    if page.family == "state":
        return limits.state_blocks
    if page.family == "window":
        kept = (page.reach or 0) - 1 + limits.extra_retained + limits.in_flight
        return -(-min(kept, limits.max_model_len) // page.block) + 1
    if page.family == "chunk":
        return -(-min((page.reach or 0) + limits.in_flight, limits.max_model_len) // page.block)
    length = -(-limits.max_model_len // limits.dcp)
    return -(-length // page.block)
