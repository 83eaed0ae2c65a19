"""Bytes of what a multimodal checkpoint holds beside the language model, as far as config.json tells them."""

from typing import NamedTuple

from fleet.model.fields import Config, mapping, required
from fleet.model.shape import ModelError

SIGLIP = frozenset({"siglip_vision_model", "clip_vision_model"})


class Tower(NamedTuple):
    """Bytes in the checkpoint: `whole` of all, and of that `cut`, the layers' matrices, which TP divides."""

    whole: int = 0
    cut: int = 0


def tower(text: Config, plain: int) -> Tower:
    """A SigLIP or CLIP tower with its projector; nothing without any tower. ModelError where another one is there.

    SigLIP: patches and positions, layers of four square projections and a two-matrix MLP with biases, three norms. TP
    cuts the layers as it does those of the language model (vLLM `SiglipAttention`, `SiglipMLP`), unless
    mm_encoder_tp_mode is data.
    """
    vision = mapping(text, "vision_config")
    if not vision and not text.get("audio_config"):
        return Tower()
    if text.get("audio_config") or vision.get("model_type") not in SIGLIP:
        kind = vision.get("model_type", "audio")
        raise ModelError(f"bytes of its tower ({kind}; read the checkpoint: --checkpoint)")
    hidden, inner = required(vision, "hidden_size"), required(vision, "intermediate_size")
    patch, image = required(vision, "patch_size"), required(vision, "image_size")
    matrices = 4 * hidden * (hidden + 1) + 2 * hidden * inner + inner - hidden  # the bias behind a sum is whole
    layer = matrices + 6 * hidden
    layers = required(vision, "num_hidden_layers")
    embeddings = 3 * patch * patch * hidden + hidden + (image // patch) ** 2 * hidden
    projector = hidden * required(text, "hidden_size") + hidden
    whole = (layers * layer + embeddings + 2 * hidden + projector) * plain
    return Tower(whole=whole, cut=layers * matrices * plain)
