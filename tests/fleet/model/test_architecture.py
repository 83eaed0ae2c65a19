"""What config.json tells of a model."""

from typing import Any

import pytest

from fleet.model.architecture import ArchitectureError, read_architecture
from tests.fleet.builders import GLM, LLAMA


def test_the_numbers_of_a_sparse_model_are_read() -> None:
    model = read_architecture(GLM)
    assert (model.model_type, model.layers, model.attention_heads, model.mtp_layers) == ("glm_moe_dsa", 78, 64, 1)
    assert model.max_positions == 1_048_576
    assert model.shares_indices


def test_a_dense_model_shares_nothing() -> None:
    model = read_architecture(LLAMA)
    assert (model.kv_heads, model.mtp_layers, model.index_sharing) == (8, 0, None)
    assert not model.shares_indices


@pytest.mark.parametrize("missing", ["num_hidden_layers", "num_attention_heads"])
def test_a_missing_number_is_named(missing: str) -> None:
    with pytest.raises(ArchitectureError, match=missing):
        read_architecture({name: value for name, value in GLM.items() if name != missing})


@pytest.mark.parametrize("value", [0, -1, 1.5, "78", True, [78]])
def test_a_number_that_makes_no_sense_is_shown(value: object) -> None:
    with pytest.raises(ArchitectureError, match="num_hidden_layers: want a positive integer"):
        read_architecture(GLM | {"num_hidden_layers": value})


def test_an_empty_config_is_no_model() -> None:
    with pytest.raises(ArchitectureError):
        read_architecture({})


def test_sparse_attention_without_frequency_or_pattern_shares_nothing() -> None:
    plain = {name: value for name, value in GLM.items() if name != "index_topk_freq"}
    assert not read_architecture(plain).shares_indices
    assert not read_architecture(GLM | {"index_topk_freq": 1}).shares_indices


def test_without_an_offset_the_engines_own_is_taken() -> None:
    plain = {name: value for name, value in GLM.items() if name != "index_skip_topk_offset"}
    sharing = read_architecture(plain).index_sharing
    assert sharing is not None
    assert [layer for layer in range(10) if sharing.computes(layer)] == [0, 1, 5, 9]


@pytest.mark.parametrize(
    "change",
    [
        {"index_topk_pattern": ["F"]},
        {"index_skip_topk_offset": "3"},
        {"index_topk_freq": -1},
        {"index_skip_topk_offset": 0},
    ],
)
def test_index_sharing_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ArchitectureError):
        read_architecture(GLM | change)


def test_overrides_change_what_runs_and_not_which_model_it_is() -> None:
    model = read_architecture(GLM, {"index_topk_freq": 1, "max_position_embeddings": 4096})
    assert model.index_sharing is not None
    assert all(model.index_sharing.computes(layer) for layer in range(78))
    assert model.max_positions == 4096
    assert model.shares_indices


def test_a_nested_language_model_is_found() -> None:
    model = read_architecture({"model_type": "vision", "text_config": LLAMA})
    assert (model.model_type, model.layers) == ("llama", 80)


def test_an_override_of_one_nested_field_keeps_the_others() -> None:
    nested = {"model_type": "vision", "text_config": LLAMA}
    model = read_architecture(nested, {"text_config": {"max_position_embeddings": 4096}})
    assert (model.max_positions, model.layers) == (4096, 80)
    assert read_architecture(nested, {"max_position_embeddings": 4096}).max_positions == 4096


@pytest.mark.parametrize(
    ("scaling", "positions"),
    [
        ({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16_384}, 131_072),
        ({"rope_type": "yarn", "factor": 4}, 131_072),
        ({"rope_type": "dynamic", "factor": 2.0}, 262_144),
        ({"type": "linear", "factor": 2.0}, 262_144),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 131_072),
        ({"rope_type": "default"}, 131_072),
        (None, 131_072),
    ],
)
def test_the_longest_context_follows_the_kind_of_rope(scaling: object, positions: int) -> None:
    assert read_architecture(LLAMA | {"rope_scaling": scaling}).max_positions == positions


@pytest.mark.parametrize(
    ("scaling", "positions"),
    [
        ({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16_384}, 65_536),
        ({"type": "yarn", "factor": 4}, 524_288),
        ({"rope_type": "deepseek_yarn", "factor": 2, "original_max_position_embeddings": 4096}, 262_144),
        ({"type": "linear", "factor": 2.0}, None),
    ],
)
def test_engines_before_0_30_stretched_what_yarn_stretches(scaling: object, positions: int | None) -> None:
    assert read_architecture(LLAMA | {"rope_scaling": scaling}).yarn_positions == positions


def test_the_smallest_stated_length_counts_or_the_one_that_the_model_says_of_itself() -> None:
    assert read_architecture(LLAMA | {"seq_length": 8192}).max_positions == 8192
    assert read_architecture(LLAMA | {"max_sequence_length": 4096}).max_positions == 4096
    for length in (8192, 524_288):  # Command R states 8192 positions and serves 131072
        assert read_architecture(LLAMA | {"model_max_length": length}).max_positions == length
    silent = {name: value for name, value in LLAMA.items() if name != "max_position_embeddings"}
    assert read_architecture(silent).max_positions is None


def test_rope_scaling_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(ArchitectureError, match="rope_scaling"):
        read_architecture(LLAMA | {"rope_scaling": "yarn"})


@pytest.mark.parametrize("value", [-1, "1", True, 1.5])
def test_mtp_layers_that_make_no_sense_are_refused(value: object) -> None:
    with pytest.raises(ArchitectureError, match="MTP layers"):
        read_architecture(GLM | {"num_nextn_predict_layers": value})


def test_mtp_layers_have_two_names() -> None:
    assert read_architecture(LLAMA | {"mtp_num_hidden_layers": 1}).mtp_layers == 1
