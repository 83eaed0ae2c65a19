"""The numbers of one model, layer by layer."""

from fleet.frozen import Frozen
from fleet.ledger.cache.kind import Cache, Indexer

MIB = 1024**2
GIB = 1024**3


class ModelError(ValueError):
    """The ledger cannot be computed for this model; the text names what is missing or contradicts."""


class ContradictionError(ModelError):
    """The tensors of the checkpoint are not those of its config.json; the text has both sides."""


class Experts(Frozen):
    """The routed experts of a layer. `bytes` in the checkpoint; the rest only where the engine pads them (MXFP4)."""

    bytes: int
    count: int
    intermediate: int = 0
    hidden: int = 0
    padded: bool = False

    def on_rank(self, tp: int, ep: int = 1) -> int:
        """Bytes on one rank: each expert split over TP, or with expert parallelism whole experts spread.

        MXFP4 weights are padded to 128 rows of the shard and 256 columns (vLLM, MXFP4 backends).
        """
        share = self.bytes if ep == 1 else self.bytes * -(-self.count // ep) // self.count
        width = self.intermediate if ep > 1 else -(-self.intermediate // tp)
        stored = share if ep > 1 else -(-share // tp)
        if not self.padded:
            return stored
        grown = -(-width // 128) * 128 * -(-self.hidden // 256) * 256
        return stored * grown // (width * self.hidden)


class Weights(Frozen):
    """Bytes of one layer, by what tensor parallelism does with them."""

    sharded: int = 0
    keys: int = 0
    """Key and value projections: split over TP up to the number of KV heads, then replicated."""
    key_heads: int = 1
    replicated: int = 0
    """Norms, router, MLA's q_a and kv_a."""
    experts: Experts | None = None
    absorbed: int = 0
    """Made by the engine, not in the checkpoint, split over TP: MLA's W_UK and W_UV where kv_b is quantised."""

    @property
    def stored(self) -> int:
        """Bytes in the checkpoint."""
        return self.sharded + self.keys + self.replicated + (self.experts.bytes if self.experts else 0)

    def on_rank(self, tp: int, ep: int = 1) -> int:
        """Bytes on one rank."""
        routed = self.experts.on_rank(tp, ep) if self.experts else 0
        keys = -(-self.keys // min(tp, self.key_heads))
        return -(-(self.sharded + self.absorbed) // tp) + keys + self.replicated + routed


class Layer(Frozen):
    """One decoder layer. `weights` is None where config.json does not tell enough of it."""

    caches: tuple[Cache, ...]
    weights: Weights | None = None


class Model(Frozen):
    """A whole model. Bytes are those of the checkpoint; `missing` names what the weights cannot be told without."""

    kind: str
    """dense, moe, mla, dsa, sliding, hybrid: for people and for docs/ledger.md."""
    model_type: str
    layers: tuple[Layer, ...]
    drafts: tuple[Layer, ...] = ()
    """MTP layers of the checkpoint; each is a layer with its own attention."""
    indexer: Weights | None = None
    """One indexer (DSA), replicated; on the layers that compute their own indices and on every draft."""
    indexer_cache: Indexer | None = None
    """What one indexer keeps of a token."""
    computing: tuple[bool, ...] = ()
    """DSA: whether each layer computes its own indices."""
    shipped: tuple[bool, ...] = ()
    """DSA: whether the checkpoint has indexer weights for each layer."""
    embedding: int = 0
    """Bytes of one embedding matrix in the checkpoint."""
    vocabulary: int = 1
    hidden: int = 0
    tied: bool = False
    tied_stated: bool = True
    """False where config.json leaves it to the model's default."""
    heads: int = 1
    key_heads: int = 1
    head_dim: int = 0
    quantised: bool = False
    head: int = 0
    """Bytes of the output head in the checkpoint; 0 where it is tied."""
    draft_head: int = 0
    """Bytes of the head of a draft model that drafts from a vocabulary of its own."""
    final: int = 0
    """The norm after the last layer, replicated."""
    vision: int = 0
    """What else the checkpoint holds (vision tower, projector): on the first stage."""
    vision_cut: int = 0
    """Of `vision`, what TP divides; the rest is whole on each rank."""
    whole: int | None = None
    """Bytes of all tensors, where the checkpoint was read: also of those that the engine does not load twice."""
    rope: int = 0
    """Bytes of the table of rotary embeddings, on every rank."""
    index_topk: int = 0
    latent: bool = False
    ordered: bool = True
    """False where config.json counts kinds of layers without their order: enough for one stage, not for a pipeline."""
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    model_bytes: int = 2
    kv_dtype: str | None = None
    """What `auto` means, where the checkpoint says so."""

    @property
    def stored(self) -> int:
        """Bytes of the whole checkpoint. ModelError where config.json does not tell enough."""
        self.require_weights()
        if self.whole is not None:
            return self.whole
        layers = sum(layer.weights.stored for layer in (*self.layers, *self.drafts) if layer.weights)
        indexers = (sum(self.shipped) + len(self.drafts)) * (self.indexer.stored if self.indexer else 0)
        return layers + indexers + self.embedding + self.head + self.final + self.vision

    def require_weights(self) -> None:
        """Raises ModelError where the bytes of the weights are not known."""
        if self.missing:
            raise ModelError(f"weights unknown: config.json has no {', '.join(self.missing)}")

    @property
    def layer_stored(self) -> int | None:
        """Bytes of the commonest layer in the checkpoint, without an indexer."""
        sizes = [layer.weights.stored for layer in self.layers if layer.weights]
        return max(set(sizes), key=lambda size: (sizes.count(size), size)) if sizes and not self.missing else None

    @property
    def draft_stored(self) -> int | None:
        """Bytes of one MTP layer in the checkpoint, its indexer included; None where there is none."""
        if self.missing or not self.drafts or self.drafts[0].weights is None:
            return None
        return self.drafts[0].weights.stored + (self.indexer.stored if self.indexer else 0)

    def embedding_on_rank(self, tp: int) -> int:
        """Bytes of the embedding on one rank: rows padded to 64, split over TP (vLLM `VocabParallelEmbedding`)."""
        return self._padded(self.embedding, tp)

    def head_on_rank(self, tp: int) -> int:
        """Bytes of the head on one rank, the same way."""
        return self._padded(self.head or self.embedding, tp)

    def vision_on_rank(self, tp: int) -> int:
        """Bytes of the tower and its projector on one rank."""
        cut = min(self.vision_cut, self.vision)
        return self.vision - cut + cut // tp

    def _padded(self, matrix: int, tp: int) -> int:
        rows = -(-self.vocabulary // 64) * 64
        return matrix // self.vocabulary * rows // tp
