"""The memory ledger: for any stage of any cut, bytes of weights on a rank, bytes a token, and tokens of the pool.

For a search over partitions
    ledger = Ledger(model, serving)          # once a model, TP x PP and KV dtype; milliseconds
    ledger.weights(stage, first, end)        # bytes on one rank of the stage that holds layers first..end-1
    ledger.bytes_per_token(stage, first, end)
    ledger.blocks(stage, first, end, available)   # available: bytes for KV on one rank
    ledger.tokens(stage, first, end, available)   # the pool that this stage alone would allow

each in constant time (prefix sums over the layers), so that all cuts of 128 layers into 8 stages are a matter of
milliseconds. `available` comes from a budget (`fleet/ledger/budget.py`): given, measured on another cut, or
predicted cold; `budget.available(ledger, stage, first, end)`. The pool of a partition is the minimum of `tokens` over
its stages. `ledger.layers` is the number of layers. Stage 0 has the embedding, stage `serving.pp - 1` the head and
the draft.
"""

from functools import cached_property
from itertools import accumulate

from fleet.frozen import Frozen
from fleet.layouts.boundary import Partition, stages_of
from fleet.ledger.cache.groups import Group, Limits, blocks_per_request, group
from fleet.ledger.cache.kind import Keys, Latent, State
from fleet.ledger.cache.page import CacheError, Page, hybrid_block, page, state_bytes, token_bytes
from fleet.ledger.serving import HELD_BACK_SINCE, LATENT_STEP_SINCE, Serving
from fleet.model.draft import draft_bytes
from fleet.model.shape import Layer, Model, ModelError

PREFILL_BUFFER = 40
"""Contexts of `max_model_len` that the indexer's prefill gathers keys of at a time."""


class Pool(Frozen):
    """What a cut gives. Tokens as the engine prints them; `weights` in bytes a rank, None where they are unknown."""

    partition: Partition
    bytes_per_token: tuple[float, ...]
    stage_tokens: tuple[int, ...]
    available: tuple[int, ...]
    weights: tuple[int, ...] | None
    max_model_len: int
    starts: bool = True
    """Does the engine start: does the pool hold one request of `max_model_len`?"""

    @property
    def binding_stage(self) -> int:
        """The stage that decides the pool: the first of those with the fewest tokens."""
        return self.stage_tokens.index(min(self.stage_tokens))

    @property
    def tokens(self) -> int:
        """The pool: the engine takes the minimum over all ranks."""
        return min(self.stage_tokens)

    @property
    def concurrency(self) -> float:
        """Requests of `max_model_len` tokens that stay resident."""
        return self.tokens / self.max_model_len


class Ledger:
    """One model served one way. Raises ModelError or CacheError where something is not known or not modelled."""

    def __init__(self, model: Model, serving: Serving, draft_model: Model | None = None) -> None:
        """`draft_model`: the draft of EAGLE or another separate checkpoint."""
        self.model = model
        self.serving = serving
        self.layers = len(model.layers)
        self._final_stage = serving.pp - 1
        self._repair = serving.repair
        self.drafts = _drafts(model, serving, draft_model)
        self.draft_model = draft_model if serving.draft and not serving.draft.mtp else None
        if model.heads and model.heads % serving.tp:
            raise CacheError(f"tp: want a divisor of {model.heads} attention heads, found {serving.tp}")
        keys = next((cache.heads for layer in model.layers for cache in layer.caches if isinstance(cache, Keys)), 1)
        if keys % serving.tp and serving.tp % keys:
            raise CacheError(f"tp: want a divisor or a multiple of {keys} KV heads, found {serving.tp}")
        if serving.pp > self.layers:
            raise CacheError(f"pp: want at most {self.layers}, one layer a stage, found {serving.pp}")
        if serving.pp > 1 and not model.ordered:
            raise CacheError("config.json counts its layers by kind without their order: a pipeline needs the order")
        self._orphans = _runs(model)
        self._indexers = (0, *accumulate(map(int, model.computing)))
        self._indexer_page = 0
        self.groups = self._group()
        self._sums = [_sums(one, self.layers) for one in self.groups]
        self._draft_pages = [sums[-1] - sums[self.layers] for sums in self._sums]
        self._by_groups = serving.prints_by_groups
        self.blocks_per_request = blocks_per_request(self.groups, self.limits)

    def _kv_dtype(self) -> str:
        asked = self.serving.kv_cache_dtype
        return self.model.kv_dtype or asked if asked == "auto" else asked

    def _group(self) -> tuple[Group, ...]:
        model, serving, dtype = self.model, self.serving, self._kv_dtype()
        block, state_page = self._block(dtype)
        pages: list[tuple[int, Page]] = []
        for index, layer in enumerate((*model.layers, *self.drafts)):
            caches = list(layer.caches)
            if model.indexer_cache and index < self.layers and model.computing[index]:
                caches.append(model.indexer_cache)
            pages += [(index, page(cache, dtype, serving.tp, block, state_page, model.model_bytes)) for cache in caches]
        if model.indexer_cache:
            self._indexer_page = page(model.indexer_cache, dtype, serving.tp, block).size
        if not pages:
            raise CacheError("the model has no layer that keeps a cache")
        return group(pages)

    def _block(self, dtype: str) -> tuple[int, int]:
        """Block size in tokens, and the page of a state in bytes."""
        model, serving = self.model, self.serving
        block = serving.block_size or (64 if model.latent else 16)
        caches = [cache for layer in model.layers for cache in layer.caches]
        unsized = next((cache.missing for cache in caches if isinstance(cache, State) and cache.missing), None)
        if unsized and serving.block_size is None:
            raise CacheError(f"{unsized}: without it want the block size, as the engine logs it")
        states = [state_bytes(cache, serving.tp, self._drafted()) for cache in caches if isinstance(cache, State)]
        if not states:
            return block, 0
        tokens = [
            token_bytes(cache, dtype, serving.tp, model.model_bytes)
            for cache in caches
            if isinstance(cache, Keys | Latent)
        ]
        if not tokens:
            raise CacheError("a model without attention layers: its cache is not modelled")
        wide = model.latent and serving.version >= LATENT_STEP_SINCE
        return hybrid_block(max(states), min(tokens), block, max(block, 128) if wide else block)

    def _drafted(self) -> int:
        return self.serving.draft.k if self.serving.draft else 0

    @property
    def limits(self) -> Limits:
        """What decides the blocks of one request."""
        serving = self.serving
        return Limits(
            max_model_len=serving.max_model_len,
            in_flight=serving.in_flight,
            state_blocks=(2 if serving.prefix_caching else 1) + self._drafted(),
            dcp=serving.dcp,
        )

    def _flipped(self, stage: int, first: int, end: int) -> int:
        """Layers at the start of a stage that compute indices only because the boundary is repaired."""
        if stage == 0 or not self._orphans or self._repair == "none":
            return 0
        orphans = min(self._orphans[first], end - first)
        return min(orphans, 1) if self._repair == "first" else orphans

    def indexers(self, stage: int, first: int, end: int) -> int:
        """Indexers on one rank of this stage, those of repaired layers and of the draft included."""
        if not self._orphans:
            return 0
        own = self._indexers[end] - self._indexers[first] + self._flipped(stage, first, end)
        return own + (len(self.drafts) if self._last(stage) else 0)

    def _last(self, stage: int) -> bool:
        return stage == self._final_stage

    def block_bytes(self, stage: int, first: int, end: int) -> int:
        """Bytes of one block on one rank: the largest group's pages. CacheError where the stage keeps no cache."""
        sizes = [sums[end] - sums[first] for sums in self._sums]
        if self._last(stage):
            sizes = [size + draft for size, draft in zip(sizes, self._draft_pages, strict=True)]
        size = max(sizes) + self._flipped(stage, first, end) * self._indexer_page
        if size <= 0:
            raise CacheError(f"stage {stage}: want a layer with a cache among {first}..{end - 1}, found none")
        return size

    def blocks(self, stage: int, first: int, end: int, available: int) -> int:
        """Blocks that fit `available` bytes of one rank of this stage."""
        return max(0, available) // self.block_bytes(stage, first, end)

    def tokens(self, stage: int, first: int, end: int, available: int) -> int:
        """The pool that the engine would print if this stage were the only one."""
        return self.printed(self.blocks(stage, first, end, available))

    def printed(self, blocks: int) -> int:
        """Tokens that the engine prints for so many blocks.

        Up to 0.20.0 blocks // groups x block size, later int(concurrency x max_model_len). DCP multiplies both.
        """
        if self._by_groups:
            return blocks // len(self.groups) * min(one.page.block for one in self.groups) * self.serving.dcp
        return int(blocks / self.blocks_per_request * self.serving.max_model_len)

    def starts(self, blocks: int) -> bool:
        """Does the engine start with so many blocks? They must hold one request, from 0.29 beside one held back."""
        return blocks - (self.serving.version >= HELD_BACK_SINCE) >= self.blocks_per_request

    def bytes_per_token(self, stage: int, first: int, end: int) -> float:
        """Bytes of one printed token on one rank.

        Exact where all layers need the same blocks; with several KV groups it is an average over a request of
        `max_model_len`, for window and state layers keep less than every token.
        """
        size = self.block_bytes(stage, first, end)
        if len(self.groups) == 1 and self.groups[0].page.family == "full":
            return size / (self.groups[0].page.block * self.serving.dcp)
        if self._by_groups:
            return size * len(self.groups) / min(one.page.block for one in self.groups)
        return size * self.blocks_per_request / self.serving.max_model_len

    def weights(self, stage: int, first: int, end: int) -> int:
        """Bytes of weights on one rank of the stage. ModelError where config.json does not tell enough."""
        layers, every, first_stage, last_stage, indexer = self._weighed
        total = layers[end] - layers[first] + every + self.indexers(stage, first, end) * indexer
        return total + (first_stage if stage == 0 else 0) + (last_stage if self._last(stage) else 0)

    def workspace(self, stage: int, first: int, end: int) -> int:
        """Bytes that an indexer's prefill reserves beside weights and cache: 40 x 132 x max_model_len, once a rank.

        vLLM `get_max_prefill_buffer_size`. What an engine logged as available is already without it.
        """
        if not self.model.indexer_cache or not self.indexers(stage, first, end):
            return 0
        return PREFILL_BUFFER * token_bytes(self.model.indexer_cache, "auto", 1) * self.serving.max_model_len

    @cached_property
    def _weighed(self) -> tuple[tuple[int, ...], int, int, int, int]:
        """Bytes on a rank: before each layer, of every stage, of the first, of the last, of one indexer."""
        model, serving = self.model, self.serving
        model.require_weights()
        sizes = [
            layer.weights.on_rank(serving.tp, self._expert_ranks) if layer.weights else 0 for layer in model.layers
        ]
        every = model.rope + serving.max_num_batched_tokens * model.index_topk * 4
        first = model.embedding_on_rank(serving.tp) + model.vision_on_rank(serving.tp)
        indexer = model.indexer.on_rank(serving.tp) if model.indexer else 0
        return (0, *accumulate(sizes)), every, first, model.final + self._tail(), indexer

    @property
    def _expert_ranks(self) -> int:
        return self.serving.tp * self.serving.dp if self.serving.expert_parallel else 1

    def _tail(self) -> int:
        """Head and draft. Under a pipeline a tied head and an MTP draft have an embedding of their own."""
        model, serving = self.model, self.serving
        total = model.head_on_rank(serving.tp) if serving.pp > 1 or not model.tied else 0
        total += sum(layer.weights.on_rank(serving.tp, self._expert_ranks) for layer in self.drafts if layer.weights)
        if self.drafts and serving.pp > 1:
            total += model.embedding_on_rank(serving.tp)
        if self.draft_model and serving.draft:
            total += draft_bytes(self.draft_model, serving.draft.method, serving.tp)
        return total

    def pool(self, partition: Partition, available: tuple[int, ...]) -> Pool:
        """The pool of a cut, from the bytes available for KV on a rank of each stage."""
        stages = tuple(enumerate(stages_of(partition)))
        known = not self.model.missing
        return Pool(
            partition=partition,
            bytes_per_token=tuple(self.bytes_per_token(stage, *cut) for stage, cut in stages),
            stage_tokens=tuple(
                self.tokens(stage, *cut, room) for (stage, cut), room in zip(stages, available, strict=True)
            ),
            available=available,
            weights=tuple(self.weights(stage, *cut) for stage, cut in stages) if known else None,
            max_model_len=self.serving.max_model_len,
            starts=self.starts(
                min(self.blocks(n, *cut, room) for (n, cut), room in zip(stages, available, strict=True))
            ),
        )


def _drafts(model: Model, serving: Serving, draft_model: Model | None) -> tuple[Layer, ...]:
    draft = serving.draft
    if draft is None or draft.method.startswith(("ngram", "suffix")):
        return ()
    if draft.mtp:
        if not model.drafts:
            raise ModelError(f"speculative {draft.method}: want a model with MTP layers, found none in config.json")
        return model.drafts
    if draft_model is None:
        raise ModelError(f"speculative {draft.method}: want the config.json of its draft model, found none")
    return draft_model.layers


def _runs(model: Model) -> tuple[int, ...]:
    """For each layer: how many layers from it on reuse indices before one computes."""
    runs = [0]
    for computes in reversed(model.computing):
        runs.append(0 if computes else runs[-1] + 1)
    return tuple(reversed(runs)) if model.computing else ()


def _sums(one: Group, layers: int) -> tuple[int, ...]:
    """Bytes of this group's pages before each layer; the entries past `layers` are the draft's."""
    sizes = [0] * (max(layers, *(layer + 1 for layer in one.layers)))
    for layer, size in zip(one.layers, one.sizes, strict=True):
        sizes[layer] += size
    return (0, *accumulate(sizes))
