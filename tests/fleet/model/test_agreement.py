"""A config.json that is not that of the tensors beside it is told, and one that is, is not."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.model.agreement import disagreement
from fleet.model.checkpoint import Checkpoint, parse_lines, summed
from fleet.model.shape import ModelError
from tests.checkpoints import Shapes, dense, header, sparse
from tests.fleet.model.test_checkpoint import COMPUTING, PACKED

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "tie_word_embeddings": False,
}
RECORDED = sorted(Path("inventory/recorded").glob("*.probe"))


def read(shapes: Shapes) -> Checkpoint:
    return summed([("model.safetensors", header(shapes))])


def test_a_config_of_its_tensors_agrees() -> None:
    assert disagreement(LLAMA, read(dense(LLAMA))) is None
    assert disagreement(PACKED, read(sparse(PACKED, COMPUTING))) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_hidden_layers": 5}, "config.json says 5 layers, tensors name 4 of them"),
        ({"num_hidden_layers": 3}, "config.json says 3 layers, tensors name layer 3"),
        ({"hidden_size": 512, "head_dim": 16}, "hidden_size 512, tensors have a norm of 256"),
        ({"num_attention_heads": 16}, "num_attention_heads x head_dim x hidden_size = 131,072, tensors have 65,536"),
        ({"num_key_value_heads": 4}, "num_key_value_heads x head_dim x hidden_size = 32,768, tensors have 16,384"),
        ({"head_dim": 64}, "tensors have "),
        (
            {"intermediate_size": 512},
            "intermediate_size x hidden_size = 131,072, tensors have 180,224 elements",
        ),
        ({"vocab_size": 4000}, "an embedding of 2048000 bytes (vocab_size x hidden_size), tensors have 512000"),
        ({"quantization_config": {"quant_method": "fp8"}}, "has a quantization_config, tensors are not quantised"),
        ({"num_local_experts": 8, "num_experts_per_tok": 2}, "says routed experts in layer 0, tensors have none"),
    ],
)
def test_each_number_that_the_tensors_contradict_is_named(change: dict[str, Any], said: str) -> None:
    assert said in (disagreement(LLAMA | change, read(dense(LLAMA))) or "")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_attention_heads": PACKED["num_attention_heads"] * 2}, "num_attention_heads x "),
        ({"kv_lora_rank": PACKED["kv_lora_rank"] * 2}, "(kv_lora_rank + qk_rope_head_dim) x hidden_size"),
        ({"v_head_dim": PACKED["v_head_dim"] * 2}, "v_head_dim"),
        ({"n_routed_experts": PACKED["n_routed_experts"] - 1}, "experts, tensors of layer"),
        ({"intermediate_size": PACKED["intermediate_size"] * 2}, "intermediate_size x hidden_size"),
    ],
)
def test_so_are_those_of_latent_attention_and_of_experts(change: dict[str, Any], said: str) -> None:
    assert said in (disagreement(PACKED | change, read(sparse(PACKED, COMPUTING))) or "")


def test_a_kind_that_the_ledger_does_not_know_is_held_against_its_sizes_all_the_same() -> None:
    strange = LLAMA | {"model_type": "brand_new"}
    assert disagreement(strange, read(dense(LLAMA))) is None
    assert "num_key_value_heads" in (disagreement(strange | {"num_key_value_heads": 8}, read(dense(LLAMA))) or "")
    assert "none of layer 4" in (disagreement(strange | {"num_hidden_layers": 6}, read(dense(LLAMA))) or "")


def test_heads_that_have_a_gate_beside_each_agree() -> None:
    shapes = {
        name: (dtype, (2 * shape[0], *shape[1:])) if "q_proj" in name else (dtype, shape)
        for name, (dtype, shape) in dense(LLAMA).items()
    }
    assert disagreement(LLAMA | {"model_type": "brand_new"}, read(shapes)) is None


def test_layers_of_two_kinds_may_have_heads_of_two_sizes() -> None:
    shapes = dense(LLAMA)
    wide = {name: shape for name, shape in dense(LLAMA | {"head_dim": 64}).items() if ".layers.3." in name}
    told = LLAMA | {"model_type": "brand_new", "global_head_dim": 64}
    assert disagreement(told, read(shapes | wide)) is None
    assert disagreement(LLAMA, read(shapes | wide)) is not None


def test_fused_and_quantised_matrices_are_not_judged_by_their_size() -> None:
    shapes = {name: shape for name, shape in dense(LLAMA).items() if "k_proj" not in name and "v_proj" not in name}
    assert disagreement(LLAMA | {"model_type": "brand_new", "num_attention_heads": 4}, read(shapes)) is None


@given(
    st.dictionaries(
        st.sampled_from(sorted(LLAMA)),
        st.none() | st.integers(-3, 2**40) | st.text(max_size=5) | st.lists(st.integers()),
    )
)
def test_whatever_config_json_says_it_is_told_in_words_or_not_at_all(change: dict[str, Any]) -> None:
    try:
        said = disagreement(LLAMA | change, read(dense(LLAMA)))
    except ModelError as error:
        said = str(error)
    assert said is None or said


@pytest.mark.parametrize("name", ["glm-dsa-78", "qwen-72b", "llama-70b"])
def test_the_lab_s_checkpoints_are_those_of_their_config(name: str) -> None:
    text = "".join(path.read_text() for path in RECORDED)
    block = text.partition(f"checkpoint /srv/models/{name}\n")[2].partition("\nfiles ")[0]
    config = json.loads(Path(f"lab/models/{name}/config.json").read_text())
    assert disagreement(config, parse_lines(block.splitlines())) is None
