"""Whatever stands in a field of config.json: a model, or a refusal in one line. Never a traceback, never a hang."""

from typing import Any

import pytest
from checkpoints import dense, header, sparse
from test_checkpoint import COMPUTING, PACKED
from test_ledger_by_hand import HYBRID, LATENT, LLAMA, SPARSE, sliding

from fleet.ledger.cache.page import CacheError
from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Serving
from fleet.model.checkpoint import summed
from fleet.model.read import read_model
from fleet.model.shape import ModelError

JUNK = [
    0,
    -1,
    1,
    3,
    1.5,
    "",
    "x",
    "7",
    True,
    [],
    {},
    [1],
    ["x"],
    {"a": 1},
    [None],
    {"a": []},
    10**12,
    10**400,
    float("nan"),
]
FIELDS = [
    "attention_bias",
    "attention_chunk_size",
    "audio_config",
    "decoder_sparse_step",
    "dtype",
    "full_attention_interval",
    "hybrid_override_pattern",
    "indexer_types",
    "interleave_moe_layer_step",
    "layer_types",
    "layers_block_type",
    "linear_attn_config",
    "max_position_embeddings",
    "mlp_only_layers",
    "moe_layer_freq",
    "quantization_config",
    "rope_local_base_freq",
    "rope_scaling",
    "shared_expert_intermediate_size",
    "sliding_window",
    "sliding_window_pattern",
    "text_config",
    "tie_word_embeddings",
    "use_sliding_window",
    "vision_config",
]
CONFIGS = {"dense": LLAMA, "latent": LATENT, "sparse": SPARSE, "packed": PACKED, "sliding": sliding(), "hybrid": HYBRID}


def used(config: dict[str, Any], field: str, value: object) -> None:
    """Read the model and count with it, as far as it can be told."""
    try:
        model = read_model({**config, field: value})
        ledger = Ledger(model, Serving(engine="0.30", tp=2, max_model_len=4096))
        ledger.tokens(0, 0, ledger.layers, 2**30)
        if not model.missing:
            ledger.weights(0, 0, ledger.layers)
    except (ModelError, CacheError) as error:
        assert str(error) and "\n" not in str(error) and len(str(error)) < 400


@pytest.mark.parametrize("name", CONFIGS)
def test_junk_in_any_field_is_told_in_one_line(name: str) -> None:
    config = CONFIGS[name]
    for field in sorted({*config, *FIELDS}):
        for value in JUNK:
            try:
                used(config, field, value)
            except Exception as error:
                pytest.fail(f"{field}: {str(value)[:40]!r}: {type(error).__name__}: {str(error)[:200]}")


@pytest.mark.parametrize(("config", "shapes"), [(LLAMA, dense(LLAMA)), (PACKED, sparse(PACKED, COMPUTING))])
def test_junk_beside_a_checkpoint_is_told_in_one_line(config: dict[str, Any], shapes: Any) -> None:
    checkpoint = summed([("model.safetensors", header(shapes))])
    for field in sorted({*config, *FIELDS}):
        for value in JUNK:
            try:
                read_model({**config, field: value}, None, checkpoint)
            except ModelError as error:
                assert "\n" not in str(error)
            except Exception as error:
                pytest.fail(f"{field}: {str(value)[:40]!r}: {type(error).__name__}: {str(error)[:200]}")
