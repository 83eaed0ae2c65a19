"""A model with the weights that its checkpoint really has, in place of those that config.json would give."""

import re
from collections.abc import Iterable

from fleet.model.checkpoint import DTYPE_BITS, Checkpoint, Tensors
from fleet.model.shape import ContradictionError, Experts, Layer, Model, Weights

_TOWER = re.compile(
    r"(?:^|\.)(?:visual|vision\w*|multi_modal_projector|mm_\w+|audio\w*|image_\w+|patch_\w+|embed_vision)\."
)
_EMBEDDING = re.compile(r"(?:embed_tokens|wte|word_embeddings|embeddings|tok_embeddings)\.weight$")
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|output|embed_out)\.\w+$")
_REPLICATED = re.compile(
    r"norm|q_a_proj|kv_a_proj|(?:mlp|block_sparse_moe|feed_forward|mixer)\.(?:gate|router)\.|e_score_correction_bias"
    r"|expert_bias|shared_expert_gate|\.eh_proj|fused_qkv_a|weight_shape|g_idx|routing_bias"
)
_KEYS = re.compile(r"\.(?:k_proj|v_proj)\.")
_ROUTED = re.compile(r"\.experts\.")
_INDEXER = re.compile(r"\.indexer\.")
_DRAFT = re.compile(r"(?:^|\.)mtp\.")
_PACKED = re.compile(r"weight_packed|qweight|weight_scale|_blocks$|_scales$|absmax")


def with_checkpoint(model: Model, checkpoint: Checkpoint) -> Model:
    """The same model, weighed by its tensors. ContradictionError where config.json contradicts their names."""
    sorter = _Sorter(model)
    for one in checkpoint.tensors:
        sorter.take(one)
    sorter.contradictions()
    layers, drafts = sorter.layers(), sorter.drafts()
    return model.model_copy(
        update={
            "layers": layers,
            "drafts": drafts,
            "indexer": sorter.indexer() or model.indexer,
            "shipped": tuple(index in sorter.shipped for index in range(len(layers))) if model.computing else (),
            "embedding": sorter.embedding,
            "tied": sorter.tied,
            "head": 0 if sorter.tied else sorter.head,
            "final": sorter.final,
            "vision": sorter.vision,
            "whole": checkpoint.size,
            "missing": (),
            "notes": (*model.notes, *sorter.notes()),
        }
    )


class _Sum:
    """Bytes of one layer, as they are added up."""

    def __init__(self) -> None:
        self.sharded = self.keys = self.replicated = self.routed = self.experts = self.absorbed = 0


class _Sorter:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.count = len(model.layers)
        self.sums: dict[int, _Sum] = {}
        self.shipped: dict[int, int] = {}
        self.embedding = self.head = self.final = self.vision = 0
        self.packed = 0
        self.highest = -1
        self.width = 0
        """Elements of the final norm: hidden_size."""
        self.unknown: list[str] = []
        self.latent = False

    def take(self, one: Tensors) -> None:
        """Put one kind of tensor where it belongs."""
        size = self._loaded(one)
        self.packed += bool(_PACKED.search(one.name))
        if _TOWER.search(one.name):
            self.vision += size * max(1, len(one.layers))
        elif _DRAFT.search(one.name):
            self._draft_part(one, size)
        elif one.layers:
            for layer in one.layers:
                self._layer_part(one, size, layer)
        elif _EMBEDDING.search(one.name):
            self.embedding += size
        elif _HEAD.search(one.name):
            self.head += size
        elif "norm" in one.name:
            self.final += size
            if one.name.endswith("norm.weight"):
                self.width = one.size * 8 // DTYPE_BITS[one.dtype]
        else:
            self.unknown.append(one.name)
            self.final += size

    def _loaded(self, one: Tensors) -> int:
        """Bytes once loaded: matrices in float32 become 16 bit."""
        size = one.count * one.size
        wide = one.dtype == "F32" and one.name.endswith(".weight") and "norm" not in one.name
        return size * self.model.model_bytes // 4 if wide else size

    def _draft_part(self, one: Tensors, size: int) -> None:
        """`mtp.layers.N.*` and what all drafts share, which is counted with the first."""
        for layer in one.layers or (0,):
            self._add(self._sum(self.count + layer), one, size)

    def _layer_part(self, one: Tensors, size: int, layer: int) -> None:
        self.highest = max(self.highest, layer)
        if _INDEXER.search(one.name):
            self.shipped[layer] = self.shipped.get(layer, 0) + size
            return
        if layer >= self.count and (_EMBEDDING.search(one.name) or ".shared_head.head." in one.name):
            return  # the engine shares these of the model
        self._add(self._sum(layer), one, size)

    def _sum(self, layer: int) -> _Sum:
        return self.sums.setdefault(layer, _Sum())

    def _add(self, total: _Sum, one: Tensors, size: int) -> None:
        name = one.name
        self.latent = self.latent or "kv_b_proj" in name
        if _ROUTED.search(name):
            total.routed += size
            total.experts = max(total.experts, one.count)
        elif _REPLICATED.search(name):
            total.replicated += size
        elif _KEYS.search(name):
            total.keys += size
        else:
            total.sharded += size
            if ".kv_b_proj." in name and one.dtype not in ("BF16", "F16", "F32"):
                total.absorbed += _elements(one) * self.model.model_bytes

    @property
    def tied(self) -> bool:
        """Is the head the embedding? Where config.json leaves it open, the tensors tell."""
        return self.model.tied if self.model.tied_stated else not self.head

    def layers(self) -> tuple[Layer, ...]:
        """The model's layers with these weights."""
        return tuple(self._weighed(layer, index) for index, layer in enumerate(self.model.layers))

    def drafts(self) -> tuple[Layer, ...]:
        """The MTP layers; none where the checkpoint has none, whatever config.json says."""
        there = [index for index in range(len(self.model.drafts)) if self.count + index in self.sums]
        return tuple(self._weighed(self.model.drafts[index], self.count + index) for index in there)

    def _weighed(self, layer: Layer, index: int) -> Layer:
        found, stated = self.sums.get(index, _Sum()), layer.weights
        routed = stated.experts if stated else None
        experts = None
        if found.routed:
            experts = Experts(
                bytes=found.routed,
                count=routed.count if routed else max(1, found.experts),
                intermediate=routed.intermediate if routed else 0,
                hidden=routed.hidden if routed else 0,
                padded=bool(routed and routed.padded),
            )
        return layer.model_copy(
            update={
                "weights": Weights(
                    sharded=found.sharded,
                    keys=found.keys,
                    key_heads=self.model.key_heads,
                    replicated=found.replicated,
                    experts=experts,
                    absorbed=found.absorbed,
                )
            }
        )

    def indexer(self) -> Weights | None:
        """One indexer: those of all layers are alike, the largest is taken."""
        return Weights(replicated=max(self.shipped.values())) if self.shipped else None

    def notes(self) -> Iterable[str]:
        """What a reader must know of these weights."""
        if self.unknown:
            yield f"tensors of no known kind are counted whole on the last stage: {', '.join(self.unknown[:3])}"
        lacking = [index for index in range(self.count) if self.model.computing and index not in self.shipped]
        if lacking:
            yield f"{len(lacking)} layers ship no indexer weights: made to compute, they would use what is in memory"
        if self.model.drafts and not self.drafts():
            yield "config.json has MTP layers, the checkpoint has none"

    def contradictions(self) -> None:
        """ContradictionError where the names of the tensors are not those of this config.json."""
        model, layers = self.model, self.count
        there = [index for index in self.sums if index < layers]
        if len(there) < layers or self.highest >= layers + len(model.drafts):
            names = (
                f"tensors name {len(there)} of them" if len(there) < layers else f"tensors name layer {self.highest}"
            )
            raise ContradictionError(f"config.json says {layers} layers, {names}")
        if model.latent != self.latent:
            raise ContradictionError(
                f"config.json says {'MLA' if model.latent else 'no MLA'}, tensors have "
                f"{'kv_b_proj' if self.latent else 'no kv_b_proj'}"
            )
        if not self.embedding:
            raise ContradictionError("config.json says vocab_size, tensors have no embedding")
        if model.tied_stated and not model.tied and not self.head:
            raise ContradictionError("config.json says that embedding and head are not tied, tensors have no lm_head")
        if self.packed and not model.quantised:
            raise ContradictionError("config.json says nothing of quantisation, tensors are quantised")
        if model.quantised and not self.packed:
            raise ContradictionError("config.json has a quantization_config, tensors are not quantised")
        self._experts_agree()
        self._indexers_agree()
        if self.width and model.hidden and self.width != model.hidden:
            raise ContradictionError(
                f"config.json says hidden_size {model.hidden}, tensors have a norm of {self.width}"
            )
        if model.embedding:
            self._embeddings_agree()

    def _experts_agree(self) -> None:
        for index, layer in enumerate(self.model.layers):
            stated = layer.weights.experts if layer.weights else None
            found = self.sums[index]
            if layer.weights is None:
                continue
            if (stated is None) != (found.routed == 0):
                raise ContradictionError(
                    f"config.json says {'routed experts' if stated else 'no routed experts'} in layer {index}, "
                    f"tensors have {'none' if stated else 'some'}"
                )
            if stated and found.experts > 1 and found.experts % stated.count:
                raise ContradictionError(
                    f"config.json says {stated.count} experts, tensors of layer {index} name {found.experts}"
                )

    def _indexers_agree(self) -> None:
        model = self.model
        if not model.computing and self.shipped:
            raise ContradictionError("config.json says no sparse attention, tensors have indexers")
        for index, computes in enumerate(model.shipped):
            if computes and index not in self.shipped:
                raise ContradictionError(
                    f"config.json says that layer {index} computes its own indices, tensors have no indexer"
                )

    def _embeddings_agree(self) -> None:
        row = self.model.embedding // self.model.vocabulary
        if not self.model.embedding <= self.embedding <= self.model.embedding + 1024 * row:  # rows may be padded
            raise ContradictionError(
                f"config.json says an embedding of {self.model.embedding} bytes (vocab_size x hidden_size), "
                f"tensors have {self.embedding}"
            )


def _elements(one: Tensors) -> int:
    """Elements of a quantised matrix: a byte each for fp8 and int8, else eight 4-bit numbers an int32."""
    if "scale" in one.name or "zero" in one.name or "shape" in one.name:
        return 0
    return one.count * one.size * (2 if one.dtype in ("I32", "U32", "U8") else 1)
