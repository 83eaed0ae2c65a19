"""config.json -> the model as the ledger needs it."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from fleet.ledger.cache.kind import Cache, Indexer, Keys, Latent
from fleet.model import kinds, parts
from fleet.model.architecture import (
    Architecture,
    ArchitectureError,
    IndexSharing,
    laid_over,
    read_architecture,
    stretched_positions,
)
from fleet.model.checkpoint import Checkpoint
from fleet.model.fields import Config, layer_list, mapping, number, required
from fleet.model.pattern import Kind, pattern
from fleet.model.quantization import Scheme, scheme
from fleet.model.shape import Layer, Model, ModelError, Weights
from fleet.model.state import DTYPE_BYTES, state_of
from fleet.model.tower import Tower, tower
from fleet.model.weighed import with_checkpoint

T = TypeVar("T")

DENSE_WIDTH = ("intermediate_size", "intermediate_size_mlp")
"""Llama 4 names the width of its experts `intermediate_size` and of its dense layers the other."""


def read_model(config: Config, hf_overrides: Config | None = None, checkpoint: Checkpoint | None = None) -> Model:
    """The model of a parsed config.json with `hf_overrides` laid over it, weighed by its checkpoint if given.

    Raises ModelError with the field's name where the cache cannot be told, or where tensors and config.json contradict
    each other. Where only the weights cannot be told, `Model.missing` says why.
    """
    model = _from_config(config, hf_overrides or {})
    return model if checkpoint is None else with_checkpoint(model, checkpoint)


def _from_config(config: Config, hf_overrides: Config) -> Model:
    text = laid_over(config, hf_overrides)
    try:
        architecture = read_architecture(_whole(text))
        shipped = read_architecture(_whole(laid_over(config, {}))).index_sharing
    except ArchitectureError as error:
        raise ModelError(str(error)) from error
    return _Reader(text, architecture, shipped).model()


def _whole(text: Config) -> Config:
    """With what the layout gates need and the cache does not: heads, and the layers that a pattern counts."""
    filled = dict(text)
    letters = text.get("hybrid_override_pattern")
    if isinstance(letters, str) and text.get("num_hidden_layers") is None:
        filled["num_hidden_layers"] = len(letters)
    if text.get("num_attention_heads") is None and text.get("head_dim") is not None:
        filled["num_attention_heads"] = text.get("num_key_value_heads")
    return filled


class _Reader:
    def __init__(self, text: Config, architecture: Architecture, shipped: IndexSharing | None) -> None:
        self.text = text
        self.architecture = architecture
        self.shipped_sharing = shipped
        self.type = text.get("model_type") or ""
        if not isinstance(self.type, str):
            raise ModelError(f"config.json: model_type: want a text, found {self.type!r:.60}")
        self.notes: list[str] = []
        self.missing: list[str] = []
        self._refuse_unknown()
        self.latent = number(text, "kv_lora_rank") is not None
        self.sparse = self.latent and number(text, "index_topk") is not None
        self.experts = number(text, "n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", least=0)
        self.heads = architecture.attention_heads
        self.kv_heads = architecture.kv_heads or self.heads
        if text.get("num_attention_heads") is None:
            self.missing.append("num_attention_heads: want a positive integer, found nothing")
        self.plain = DTYPE_BYTES.get(str(text.get("dtype", text.get("torch_dtype"))).removeprefix("torch."), 2)
        self.model_bytes = min(self.plain, 2)  # the engine serves float32 checkpoints in 16 bit
        self.scheme: Scheme | None = None
        try:
            self.scheme = scheme(text, self.plain)
        except ModelError as error:
            self.missing.append(str(error))
        self._note_lost_quantisation()

    def _note_lost_quantisation(self) -> None:
        form = kinds.SHIPPED_QUANTISED.get(self.type)
        if form and not (self.text.get("quantization_config") or self.text.get("compression_config")):
            weighed = f"weights are counted at {self.plain} bytes a value, and {self.type} is published as {form}"
            self.notes.append(f"config.json states no quantization_config: {weighed}")

    def _refuse_unknown(self) -> None:
        for field, what in kinds.NOT_MODELLED.items():
            if self.text.get(field):
                raise ModelError(f"config.json: {field}: {what} is not modelled: its cache cannot be told")
        if self.type and self.type not in kinds.KNOWN:
            raise ModelError(
                f"config.json: model_type {self.type!r} is unknown to the ledger: how it keeps its cache cannot be told"
            )
        if not self.type:
            self.notes.append("config.json has no model_type: its kind is taken from its fields")

    def model(self) -> Model:
        """Everything, in order."""
        layer_kinds, ordered = pattern(self.text, self.type)
        caches = {kind: self._caches(kind) for kind in dict.fromkeys(layer_kinds)}
        layers = tuple(
            Layer(caches=caches[kind], weights=self._guarded(partial(self._weights, index, kind)))
            for index, kind in enumerate(layer_kinds)
        )
        drafts = self._drafts(len(layers))
        computing, shipped, known = self._indices(len(layers))
        vocabulary = self._guarded(lambda: required(self.text, "vocab_size")) or 1
        hidden = self._guarded(lambda: required(self.text, "hidden_size")) or 0
        matrix = vocabulary * hidden * self.plain
        tied = bool(self.text.get("tie_word_embeddings", self.type in kinds.TIED))
        vision = self._guarded(lambda: tower(self.text, self.plain)) or Tower()
        return Model(
            kind=self._kind(layer_kinds),
            model_type=self.type or "unknown",
            layers=layers,
            drafts=drafts,
            indexer=self._guarded(self._indexer) if self.sparse else None,
            indexer_cache=self._indexer_cache(),
            computing=computing,
            shipped=shipped,
            embedding=matrix,
            vocabulary=vocabulary,
            hidden=hidden,
            tied=tied,
            tied_stated="tie_word_embeddings" in self.text,
            heads=self.heads if self.text.get("num_attention_heads") else 0,
            key_heads=self.kv_heads,
            head_dim=0 if self.latent else self._head_dim(),
            quantised=bool(self.text.get("quantization_config") or self.text.get("compression_config")),
            head=0 if tied else matrix,
            draft_head=(number(self.text, "draft_vocab_size") or 0) * hidden * self.plain,
            final=hidden * self.plain,
            vision=vision.whole,
            vision_cut=vision.cut,
            rope=self._rope(),
            index_topk=number(self.text, "index_topk") or 0,
            latent=self.latent,
            ordered=ordered and known,
            missing=tuple(dict.fromkeys(self.missing)),
            notes=tuple(self.notes),
            model_bytes=self.model_bytes,
            kv_dtype=self._kv_dtype(),
        )

    def _guarded(self, make: Callable[[], T]) -> T | None:
        """What is made, or None with the reason kept: weights may be unknown where the cache is not."""
        try:
            return make()
        except ModelError as error:
            self.missing.append(str(error).removeprefix("config.json: "))
            return None

    def _kind(self, layers: tuple[Kind, ...]) -> str:
        if set(layers) & {"linear", "mamba", "kda"}:
            return "hybrid"
        if self.sparse:
            return "dsa"
        if self.latent:
            return "mla"
        if set(layers) & {"window", "chunk"}:
            return "sliding"
        return "moe" if self.experts else "dense"

    def _caches(self, kind: Kind) -> tuple[Cache, ...]:
        if kind in ("mlp", "moe"):
            return ()
        if kind in ("linear", "mamba", "kda"):
            return (state_of(self.text, kind, self.model_bytes),)
        if self.latent:
            return (Latent(width=required(self.text, "kv_lora_rank") + required(self.text, "qk_rope_head_dim")),)
        keys = Keys(heads=self.kv_heads, width=2 * self._head_dim())
        if kind == "window":
            return (keys.model_copy(update={"window": required(self.text, "sliding_window")}),)
        if kind == "chunk":
            return (keys.model_copy(update={"chunk": required(self.text, "attention_chunk_size")}),)
        return (keys,)

    def _head_dim(self) -> int:
        stated = number(self.text, "head_dim", "attention_head_dim")
        if stated:
            return stated
        hidden = required(self.text, "hidden_size")
        if hidden % self.heads:
            raise ModelError(f"config.json: head_dim: want it stated, {hidden} is no multiple of {self.heads} heads")
        return hidden // self.heads

    def _weights(self, index: int, kind: Kind, draft: bool = False) -> Weights | None:
        if self.scheme is None:
            return None
        found = parts.Parts(self.scheme, f"model.layers.{index}")
        if kind in ("mlp", "moe"):
            self._feed(found, index, draft)
            found.replicated += found.vector(required(self.text, "hidden_size"))
            return found.weights()
        if kind == "linear":
            parts.delta_net(found, self.text)
        elif kind == "mamba":
            parts.mamba(found, self.text)
        elif kind == "kda":
            raise ModelError("weights of Kimi delta attention are not modelled (read the checkpoint: --checkpoint)")
        elif self.latent:
            parts.latent(found, self.text, self.heads)
        else:
            parts.grouped_query(found, self.text, self.heads, self.kv_heads, self._head_dim(), self.type)
        norms = 1 if self.type.startswith("nemotron_h") else 4 if self.type in kinds.FOUR_NORMS else 2
        found.replicated += norms * found.vector(required(self.text, "hidden_size"))
        if not self.type.startswith("nemotron_h"):
            self._feed(found, index, draft)
        if draft:
            hidden = required(self.text, "hidden_size")
            found.replicated += found.vector(2 * hidden * hidden) + 3 * found.vector(hidden)
        return found.weights()

    def _feed(self, found: parts.Parts, index: int, draft: bool) -> None:
        """The MLP or the experts of a layer."""
        if self.experts and (draft or self._is_routed(index)):
            parts.routed(found, self.text, self.experts, self.type not in kinds.UNGATED)
        else:
            names = DENSE_WIDTH[::-1] if "intermediate_size_mlp" in self.text else DENSE_WIDTH
            parts.dense(found, self.text, required(self.text, *names), self.type not in kinds.UNGATED)

    def _is_routed(self, index: int) -> bool:
        first = number(self.text, "first_k_dense_replace", least=0) or 0
        step = number(self.text, "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq") or 1
        only = layer_list(self.text, "mlp_only_layers")
        if "decoder_sparse_step" in self.text or "interleave_moe_layer_step" in self.text:
            return index not in only and (index + 1) % step == 0
        return index >= first and index not in only and index % step == 0

    def _drafts(self, layers: int) -> tuple[Layer, ...]:
        if not self.architecture.mtp_layers:
            return ()
        caches = self._caches("full")
        if (indexer := self._indexer_cache()) is not None:
            caches += (indexer,)
        return tuple(
            Layer(caches=caches, weights=self._guarded(partial(self._weights, layers + index, "full", True)))
            for index in range(self.architecture.mtp_layers)
        )

    def _indexer_cache(self) -> Indexer | None:
        return Indexer(head_dim=required(self.text, "index_head_dim")) if self.sparse else None

    def _indexer(self) -> Weights | None:
        if self.scheme is None:
            return None
        found = parts.Parts(self.scheme, "model.layers.0")
        parts.indexer(found, self.text)
        return found.weights()

    def _indices(self, layers: int) -> tuple[tuple[bool, ...], tuple[bool, ...], bool]:
        """Computing layers, layers with indexer weights, and whether their places are known."""
        if not self.sparse:
            return (), (), True
        stated = self.text.get("indexer_types")
        if isinstance(stated, dict) and self.architecture.index_sharing is None:
            full = stated.get("full", 0)
            if not isinstance(full, int) or not 0 <= full <= layers:
                raise ModelError(f"config.json: indexer_types: want at most {layers} layers, found {stated!r}")
            return (places := tuple(index < full for index in range(layers))), places, False
        if isinstance(stated, list) and self.architecture.index_sharing is None:
            if len(stated) != layers:
                raise ModelError(f"config.json: indexer_types: want {layers} entries, found {len(stated)}")
            return (places := tuple(entry == "full" for entry in stated)), places, True
        every = (True,) * layers
        sharing, shipped = self.architecture.index_sharing, self.shipped_sharing
        return _places(sharing, layers) or every, _places(shipped, layers) or every, True

    def _rope(self) -> int:
        """Bytes of the cosine and sine tables: a row a position, in the model's dtype (vLLM `RotaryEmbedding`).

        Positions are stretched by linear and YaRN scaling. Gemma 3 has an unstretched table more, for sliding layers.
        """
        width = number(self.text, "qk_rope_head_dim") if self.latent else self._head_dim()
        rows = stretched_positions(self.text) or 0
        if self.text.get("rope_local_base_freq"):
            rows += number(self.text, "max_position_embeddings") or 0
        return rows * (width or 0) * self.model_bytes

    def _kv_dtype(self) -> str | None:
        """What the checkpoint says of its cache (vLLM `get_kv_cache_quant_algo_string`, and `Attention`)."""
        outer = mapping(self.text, "quantization_config")
        for stated in (outer, mapping(outer, "quantization")):
            scheme_, algorithm = stated.get("kv_cache_scheme"), str(stated.get("kv_cache_quant_algo", "")).lower()
            if isinstance(scheme_, dict) and scheme_.get("type") == "float":
                algorithm = {8: "fp8", 4: "nvfp4"}.get(scheme_.get("num_bits", 0), algorithm)
            if algorithm in ("fp8", "nvfp4"):
                return algorithm
        return None


def _places(sharing: IndexSharing | None, layers: int) -> tuple[bool, ...]:
    return tuple(sharing.computes(layer) for layer in range(layers)) if sharing else ()
