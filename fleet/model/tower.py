"""Bytes of what a multimodal checkpoint holds beside the language model, as far as config.json tells them."""

from fleet.model.fields import Config, mapping, required
from fleet.model.shape import ModelError

SIGLIP = frozenset({"siglip_vision_model", "clip_vision_model"})


def tower(text: Config, plain: int) -> int:
    """Bytes of a SigLIP or CLIP tower with its projector; 0 without any tower. ModelError where another one is there.

    SigLIP: patches and positions, layers of four square projections and a two-matrix MLP with biases, three norms.
    """
    vision = mapping(text, "vision_config")
    if not vision and not text.get("audio_config"):
        return 0
    if text.get("audio_config") or vision.get("model_type") not in SIGLIP:
        kind = vision.get("model_type", "audio")
        raise ModelError(f"bytes of its tower ({kind}; read the checkpoint: --checkpoint)")
    hidden, inner = required(vision, "hidden_size"), required(vision, "intermediate_size")
    patch, image = required(vision, "patch_size"), required(vision, "image_size")
    layer = 4 * hidden * (hidden + 1) + 2 * hidden * inner + inner + hidden + 4 * hidden
    embeddings = 3 * patch * patch * hidden + hidden + (image // patch) ** 2 * hidden
    projector = hidden * required(text, "hidden_size") + hidden
    return (required(vision, "num_hidden_layers") * layer + embeddings + 2 * hidden + projector) * plain
