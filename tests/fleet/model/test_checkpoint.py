"""Weights by the tensors of the checkpoint: the same as by config.json; what contradicts it is told."""

from typing import Any

import pytest
from checkpoints import BITS, Shapes, dense, header, linear, sparse
from hypothesis import given
from hypothesis import strategies as st
from test_ledger_by_hand import LLAMA, SPARSE

from fleet.model.checkpoint import Checkpoint, Tensors, parse_lines, summed
from fleet.model.read import read_model
from fleet.model.shape import ModelError

PACKED: dict[str, Any] = {
    **SPARSE,
    "moe_intermediate_size": 32,
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "ignore": [
            "lm_head",
            "re:.*self_attn.*",
            "re:.*shared_experts.*",
            r"re:.*mlp\.gate$",
            "re:model.layers.0.mlp.*",
        ],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "symmetric": False, "strategy": "group", "group_size": 32},
            }
        },
    },
}
COMPUTING = {0, 1, 2, 6, 10}


def read(shapes: Shapes) -> Checkpoint:
    return summed([("model.safetensors", header(shapes))])


def size(shapes: Shapes) -> int:
    return max(entry["data_offsets"][1] for name, entry in header(shapes).items() if name != "__metadata__")


def without(shapes: Shapes, part: str) -> Shapes:
    return {name: shape for name, shape in shapes.items() if part not in name}


def test_a_dense_checkpoint_weighs_what_its_config_says() -> None:
    by_config, by_tensors = read_model(LLAMA), read_model(LLAMA, None, read(dense(LLAMA)))
    assert by_tensors.stored == by_config.stored == size(dense(LLAMA))
    assert by_tensors.layers == by_config.layers


def test_a_packed_sparse_checkpoint_weighs_what_its_config_says_to_the_byte() -> None:
    shapes = sparse(PACKED, COMPUTING)
    by_config, by_tensors = read_model(PACKED), read_model(PACKED, None, read(shapes))
    assert by_tensors.stored == by_config.stored == size(shapes)
    assert by_tensors.layer_stored == by_config.layer_stored
    assert by_tensors.draft_stored == by_config.draft_stored
    for tp in (1, 2, 4):
        pairs = zip(by_tensors.layers, by_config.layers, strict=True)
        assert all(a.weights and b.weights and a.weights.on_rank(tp) == b.weights.on_rank(tp) for a, b in pairs)


def test_what_a_draft_repeats_of_the_model_is_in_the_checkpoint_and_not_on_a_rank_twice() -> None:
    shapes = sparse(PACKED, COMPUTING)
    repeated = linear("model.layers.12.embed_tokens", 1000, 64) | linear("model.layers.12.shared_head.head", 1000, 64)
    plain, model = (read_model(PACKED, None, read(one)) for one in (shapes, shapes | repeated))
    assert model.stored - plain.stored == 2 * 1000 * 64 * 2
    assert model.drafts == plain.drafts


def test_which_layers_ship_an_indexer_is_read_from_the_names() -> None:
    model = read_model(PACKED, None, read(sparse(PACKED, set(range(12)))))
    assert all(model.shipped) and sum(model.computing) == 5
    assert model.stored - read_model(PACKED).stored == 7 * (model.indexer.stored if model.indexer else 0)
    lacking = read_model(PACKED, None, read(sparse(PACKED, COMPUTING)))
    assert any("7 layers ship no indexer weights" in note for note in lacking.notes)


def test_a_nested_language_model_and_its_tower_are_told_apart() -> None:
    shapes = dense(LLAMA, "model.language_model") | linear("model.visual.blocks.0.attn.qkv", 30, 10)
    shapes |= linear("model.visual.blocks.1.attn.qkv", 30, 10)
    config = {"model_type": "mistral3", "text_config": LLAMA, "vision_config": {"model_type": "pixtral"}}
    model = read_model(config, None, read(shapes))
    assert model.vision == 2 * 600
    assert not model.missing and model.layers == read_model(LLAMA).layers


def test_an_untied_head_that_config_json_leaves_open_is_known_from_the_tensors() -> None:
    tied = without(dense(LLAMA), "lm_head")
    assert read_model(LLAMA, None, read(tied)).tied
    assert not read_model(LLAMA, None, read(dense(LLAMA))).tied


@pytest.mark.parametrize(
    ("config", "shapes", "told"),
    [
        ({**LLAMA, "num_hidden_layers": 5}, dense(LLAMA), "says 5 layers, tensors name 4 of them"),
        ({**LLAMA, "num_hidden_layers": 2}, dense(LLAMA), "says 2 layers, tensors name layer 3"),
        ({**LLAMA, "vocab_size": 3000}, dense(LLAMA), "says an embedding of 384000 bytes"),
        ({**LLAMA, "hidden_size": 32}, dense(LLAMA), "says hidden_size 32, tensors have a norm of 64"),
        ({**LLAMA, "tie_word_embeddings": False}, without(dense(LLAMA), "lm_head"), "tensors have no lm_head"),
        (LLAMA, without(dense(LLAMA), "embed_tokens"), "tensors have no embedding"),
        ({**LLAMA, "quantization_config": {"quant_method": "fp8"}}, dense(LLAMA), "tensors are not quantised"),
        ({**LLAMA, "num_experts": 4, "model_type": "qwen3_moe"}, dense(LLAMA), "says routed experts in layer 0"),
        ({**PACKED, "n_routed_experts": 3}, sparse(PACKED, COMPUTING), "says 3 experts, tensors of layer 1 name 4"),
        ({**PACKED, "index_topk": None}, sparse(PACKED, COMPUTING), "says no sparse attention, tensors have indexers"),
        (PACKED, sparse(PACKED, COMPUTING - {6}), "layer 6 computes its own indices, tensors have no indexer"),
        (PACKED, without(sparse(PACKED, COMPUTING), "kv_b_proj"), "says MLA, tensors have no kv_b_proj"),
        ({**PACKED, "quantization_config": None}, sparse(PACKED, COMPUTING), "says nothing of quantisation"),
    ],
)
def test_a_config_that_contradicts_the_tensor_names_is_told(config: dict[str, Any], shapes: Shapes, told: str) -> None:
    with pytest.raises(ModelError, match=r"config\.json (says|has)") as refused:
        read_model(config, None, read(shapes))
    assert told in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {"dtype": "BF17", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "BF16", "shape": "2", "data_offsets": [0, 4]},
        {"dtype": "BF16", "shape": [-2], "data_offsets": [0, 4]},
        {"dtype": "BF16", "shape": [2], "data_offsets": [0]},
        {"dtype": "BF16", "shape": [2], "data_offsets": [0, 6]},
        {"dtype": "BF16", "shape": [10**30], "data_offsets": [0, 4]},
    ],
)
def test_an_entry_that_is_no_tensor_is_told_with_its_file_and_name(entry: object) -> None:
    with pytest.raises(ModelError, match=r"model-1\.safetensors: model\.norm\.weight: want"):
        summed([("model-1.safetensors", {"model.norm.weight": entry})])


def test_a_layer_number_beyond_reason_is_told_and_not_laid_out() -> None:
    entry = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    with pytest.raises(ModelError, match="want a layer below 10000"):
        summed([("x", {f"model.layers.{10**12}.mlp.up_proj.weight": entry})])


tensors = st.builds(
    Tensors,
    name=st.from_regex(r"[a-z.#_]{1,40}", fullmatch=True),
    dtype=st.sampled_from(sorted(BITS)),
    layers=st.sets(st.integers(0, 200), max_size=12).map(lambda layers: tuple(sorted(layers))),
    count=st.integers(1, 512),
    size=st.integers(0, 2**40),
)


@given(st.lists(tensors, min_size=1, max_size=8))
def test_what_a_node_sends_is_read_back_as_it_was(sent: list[Tensors]) -> None:
    read = parse_lines([one.line for one in sent], files=3)
    key = lambda one: (one.name, one.dtype, one.count, one.size, one.layers)  # noqa: E731
    assert sorted(read.tensors, key=key) == sorted(sent, key=key)
    assert read.size == sum(one.count * one.size * max(1, len(one.layers)) for one in sent)


@pytest.mark.parametrize("line", ["", "1 2 BF16 0-", "1 2 XX - model.norm", "1 2 BF16 - a b", "-1 2 BF16 - a"])
def test_a_line_that_is_none_is_told(line: str) -> None:
    with pytest.raises(ModelError, match="want `COUNT BYTES DTYPE LAYERS NAME`"):
        parse_lines([line], files=1)
