"""Checkpoint headers, read here and summed on the node: both give the same, and say what is cut off."""

import json
import os
from pathlib import Path

import pytest
from checkpoints import Shapes, dense, header, sparse, write, write_shards
from fake_node import FakeNode

from facts.checkpoint import INDEX, read_checkpoint
from facts.parse.checkpoint import with_checkpoints
from facts.parse.frames import parse_frames
from fleet.model.shape import ModelError
from fleet.nodes.node import ModelFolder
from fleet.nodes.request import ProbeRequest, ServiceRequest

LLAMA = {
    "num_hidden_layers": 3,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 96,
}
SPARSE = {
    **LLAMA,
    "num_hidden_layers": 11,
    "num_nextn_predict_layers": 1,
    "moe_intermediate_size": 32,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "n_routed_experts": 12,
    "first_k_dense_replace": 1,
    "index_head_dim": 128,
    "index_n_heads": 2,
}


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def folder(node: FakeNode, shapes: Shapes | None = None, shards: int = 0, spaces: bool = False) -> Path:
    path = node.root / "srv model"
    path.mkdir()
    if shapes and shards:
        write_shards(path, shapes, shards)
    elif shapes:
        write(path / "model.safetensors", shapes, spaces)
    return path


def on_the_node(node: FakeNode, path: Path) -> ModelFolder:
    request = ProbeRequest(services=(ServiceRequest(name="chat", model=str(path), image="x@y", port=1),))
    answer, script = node.ask(request, "checkpoint")
    (model,) = with_checkpoints((ModelFolder(path=str(path)),), parse_frames(answer, script.nonce)["checkpoint"])
    return model


@pytest.mark.parametrize(
    ("shapes", "shards", "spaces"),
    [(dense(LLAMA), 0, False), (dense(LLAMA), 0, True), (sparse(SPARSE, {0, 4, 5}), 5, False)],
    ids=["one file", "with spaces in its JSON", "five shards"],
)
def test_the_node_sums_what_is_read_here(node: FakeNode, shapes: Shapes, shards: int, spaces: bool) -> None:
    path = folder(node, shapes, shards, spaces)
    here, there = read_checkpoint(path), on_the_node(node, path)
    assert there.checkpoint_error is None
    assert there.checkpoint == here
    total = max(e["data_offsets"][1] for name, e in header(shapes).items() if name != "__metadata__")
    assert here.size == total and here.files == max(1, shards)


@pytest.mark.parametrize("length", [0x5C0A, 0x200D, 0x2227, 0x5C5C, 0x2A80, 0x7FFF, 0xFF09, 0x1000A, 0x10100])
def test_a_header_of_any_length_is_read_whole_on_the_node(node: FakeNode, length: int) -> None:
    """Its length begins the file as bytes, among them some that a shell takes for more than bytes."""
    path = folder(node, dense(LLAMA))
    file = path / "model.safetensors"
    raw = file.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    assert size <= length
    file.write_bytes(length.to_bytes(8, "little") + raw[8 : 8 + size].ljust(length) + raw[8 + size :])
    there = on_the_node(node, path)
    assert there.checkpoint_error is None and there.checkpoint == read_checkpoint(path)


def cut_header(path: Path) -> None:
    os.truncate(path / "model.safetensors", 100)


def cut_data(path: Path) -> None:
    os.truncate(path / "model.safetensors", (path / "model.safetensors").stat().st_size - 1)


def only_seven_bytes(path: Path) -> None:
    os.truncate(path / "model.safetensors", 7)


def length_beyond_reason(path: Path) -> None:
    with (path / "model.safetensors").open("r+b") as file:
        file.write(b"\xff" * 8)


def without_a_shard(path: Path) -> None:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (path / INDEX).write_text(json.dumps(index))
    (path / "model.safetensors").rename(path / "model-1.safetensors")


def nothing(path: Path) -> None:
    (path / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (cut_header, "model.safetensors: the header is cut off: want"),
        (cut_data, "model.safetensors: the file is cut off: want"),
        (only_seven_bytes, "the header is not that of safetensors"),
        (length_beyond_reason, "the header is not that of safetensors"),
        (without_a_shard, "model-2.safetensors"),
        (nothing, "*.safetensors"),
    ],
)
def test_a_damaged_checkpoint_is_told_here_and_on_the_node(node: FakeNode, damage: object, told: str) -> None:
    path = folder(node, dense(LLAMA))
    assert callable(damage)
    damage(path)
    with pytest.raises(ModelError) as refused:
        read_checkpoint(path)
    assert told in str(refused.value) and "\n" not in str(refused.value)
    there = on_the_node(node, path)
    assert there.checkpoint is None and told in (there.checkpoint_error or "")


def test_a_header_that_is_no_json_is_told(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes((9).to_bytes(8, "little") + b"{not json")
    with pytest.raises(ModelError, match="the header is no JSON"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"weight_map": 3}', '{"weight_map": {}}'])
def test_an_index_that_names_no_shard_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(ModelError, match=r"index\.json: want"):
        read_checkpoint(tmp_path)


def test_a_node_that_was_never_asked_says_so() -> None:
    from facts.parse.frames import Section

    (model,) = with_checkpoints((ModelFolder(path="/srv/x"),), Section(text="", code=0))
    assert model.checkpoint is None and model.checkpoint_error == "the node did not look at this checkpoint"
