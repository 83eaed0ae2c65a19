"""Published configs leave out what their class says: Gemma 3 most of all."""

from typing import Any

import pytest

from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Serving
from fleet.model.architecture import read_architecture
from fleet.model.class_defaults import CLASS_DEFAULTS
from fleet.model.read import read_model

TOWER = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "image_size": 896,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
}


def gemma_3(**text: Any) -> dict[str, Any]:
    """As the published config.json: the fields that differ from the class, and no others."""
    rope = {"factor": 8.0, "rope_type": "linear"}
    inner = {"model_type": "gemma3_text", "sliding_window": 1024, "rope_scaling": rope, **text}
    return {"model_type": "gemma3", "text_config": inner, "vision_config": TOWER, "torch_dtype": "bfloat16"}


GEMMA_4B = gemma_3(hidden_size=2560, intermediate_size=10240, num_hidden_layers=34)
GEMMA_12B = gemma_3(
    hidden_size=3840, intermediate_size=15360, num_hidden_layers=48, num_attention_heads=16, num_key_value_heads=8
)
GEMMA_27B = gemma_3(
    hidden_size=5376,
    intermediate_size=21504,
    num_hidden_layers=62,
    num_attention_heads=32,
    num_key_value_heads=16,
    head_dim=128,
)


@pytest.mark.parametrize(
    ("config", "engine", "tp", "logged"),
    [(GEMMA_12B, "0.19", 1, 23.31), (GEMMA_27B, "0.8", 4, 13.1665)],
    ids=["12b", "27b-tp4"],
)
def test_gemma_3_as_published_weighs_what_the_engine_logged(
    config: dict[str, Any], engine: str, tp: int, logged: float
) -> None:
    """12B: a measured start-up; 27B: vLLM issue 15676. The vision tower's layers are cut by TP too."""
    ledger = Ledger(read_model(config), Serving(engine=engine, tp=tp, max_model_len=8192))
    assert ledger.weights(0, 0, ledger.layers) / 2**30 == pytest.approx(logged, rel=0.02)


def test_gemma_3_as_published_keeps_heads_of_256() -> None:
    model = read_model(GEMMA_12B)
    assert (model.head_dim, model.key_heads, model.vocabulary) == (256, 8, 262208)
    assert read_model(GEMMA_4B).key_heads == 4
    assert read_architecture(GEMMA_4B).attention_heads == 8


def test_the_context_of_gemma_3_is_stated_stretched_already() -> None:
    """The engine serves 131,072 tokens, though rope_scaling has a factor of 8 (vLLM `_get_and_verify_max_len`)."""
    assert read_architecture(GEMMA_27B).max_positions == 131072
    llama = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 4096}
    assert read_architecture({**llama, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}).max_positions == 8192


@pytest.mark.parametrize("kind", CLASS_DEFAULTS)
def test_what_a_config_states_stands_and_null_is_null(kind: str) -> None:
    shape = {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64}
    config = {"model_type": kind, "vocab_size": 512, "intermediate_size": 96, "num_experts": 0, **shape}
    assert read_model(config).head_dim == CLASS_DEFAULTS[kind]["head_dim"]
    assert read_model({**config, "head_dim": 32}).head_dim == 32
    assert read_model({**config, "head_dim": None}).head_dim == 16


def test_a_config_that_lost_its_quantisation_is_told() -> None:
    shape = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64}
    config = {"model_type": "gpt_oss", "vocab_size": 512, "intermediate_size": 96, "num_local_experts": 4, **shape}
    (note,) = read_model(config).notes
    assert "weights are counted at 2 bytes a value, and gpt_oss is published as mxfp4" in note
    assert read_model({**config, "quantization_config": {"quant_method": "mxfp4"}}).notes == ()
    assert read_model({**config, "model_type": "qwen3_moe"}).notes == ()


def test_a_tower_is_cut_by_tp_but_for_its_embeddings_and_projector() -> None:
    model = read_model(GEMMA_27B)
    whole, half, quarter = (model.vision_on_rank(tp) for tp in (1, 2, 4))
    assert whole == model.vision
    assert whole - half == pytest.approx(2 * (half - quarter), abs=4)
    kept = model.vision - model.vision_cut
    patches = (3 * 14 * 14 + 1 + 64 * 64) * 1152 * 2
    projector = (1152 * 5376 + 1152) * 2
    assert kept == patches + projector + (27 * 6 + 2) * 1152 * 2
