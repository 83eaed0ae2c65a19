"""`fleet pool`: the JSON that machines read, the table that people read, and every wrong input told in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkpoints import dense, write
from typer.testing import CliRunner, Result

from cli.main import app

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
}
KEYS = [
    "bytes_per_token",
    "stage_tokens",
    "binding_stage",
    "pool_tokens",
    "weights_gib",
    "partition",
    "layer_mib",
    "mtp_layer_mib",
    "checkpoint_gib",
]


def pool(tmp_path: Path, *flags: str, config: Any = LLAMA) -> Result:
    path = tmp_path / "config.json"
    if isinstance(config, bytes):
        path.write_bytes(config)
    elif config is not None:
        path.write_text(json.dumps(config))
    return CliRunner().invoke(app, ["pool", "--config", str(path), "--engine", "0.30", *flags])


def test_the_json_has_the_agreed_keys_and_the_binding_stage(tmp_path: Path) -> None:
    done = pool(tmp_path, "--tp", "2", "--pp", "2", "--partition", "3,1", "--available-gib", "0.01,0.01", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert list(told) == KEYS
    assert told["bytes_per_token"] == [96, 32] and told["partition"] == [3, 1]
    assert told["stage_tokens"] == [111_840, 335_536] and told["pool_tokens"] == 111_840
    assert told["binding_stage"] == 0 and told["mtp_layer_mib"] is None
    assert told["layer_mib"] == pytest.approx(69_888 / 2**20, abs=0.01)


def test_the_table_names_the_stage_that_binds(tmp_path: Path) -> None:
    done = pool(tmp_path, "--pp", "2", "--available-gib", "0.02,0.01")
    assert done.exit_code == 0
    assert "llama (dense), 4 layers, TP1/PP2" in done.stdout and "requests of 2,048 tokens" in done.stdout
    (bound,) = [line for line in done.stdout.splitlines() if "binds" in line]
    assert bound.split()[0] == "1"


def test_one_number_for_a_pipeline_is_that_of_the_first_stage(tmp_path: Path) -> None:
    done = pool(tmp_path, "--pp", "2", "--available-gib", "0.01", "--json")
    told = json.loads(done.stdout)
    assert "that of stage 0" in done.stderr
    weigh_alike = told["weights_gib"][0] == told["weights_gib"][1]
    assert weigh_alike and told["stage_tokens"][0] == pytest.approx(told["stage_tokens"][1], abs=16)


def test_a_measurement_of_another_cut_moves_its_layers(tmp_path: Path) -> None:
    measured = tmp_path / "measured.yaml"
    measured.write_text(yaml.safe_dump({"stages_2_2_gib": [{"available_kv": 0.1}, {"available_kv": 0.1}]}))
    flags = ("--pp", "2", "--measured", str(measured), "--json", "--partition")
    even, uneven = (json.loads(pool(tmp_path, *flags, cut).stdout) for cut in ("2,2", "3,1"))
    assert even["stage_tokens"] == [round(0.1 * 2**30) // (128 * 16) * 16] * 2
    room = round(0.1 * 2**30) - 69_888
    assert uneven["stage_tokens"][0] == room // (192 * 16) * 16


@pytest.mark.parametrize(("loaded", "told"), [(303_616 / 2**30, False), (0.5, True)])
def test_a_measurement_of_another_model_is_noticed_by_its_weights(tmp_path: Path, loaded: float, told: bool) -> None:
    """Each stage: 2 x 69,888 bytes, an embedding or head of 131,072, positions of 2,048 x 8 x 2: 303,616 bytes."""
    measured = tmp_path / "measured.yaml"
    stages = [{"available_kv": 0.1, "weights": loaded}, {"available_kv": 0.1}]
    measured.write_text(yaml.safe_dump({"partition": [2, 2], "stages": stages}))
    done = pool(tmp_path, "--pp", "2", "--measured", str(measured), "--json")
    assert done.exit_code == 0
    assert ("of weights, the ledger counts 0.00: was it this model" in done.stderr) == told


def test_a_gpu_that_nobody_measured_has_a_range(tmp_path: Path) -> None:
    done = pool(tmp_path, "--gpu-memory-gib", "24", "--json")
    told = json.loads(done.stdout)
    low, high = told["range_tokens"]
    assert low < told["pool_tokens"] < high
    assert "nothing was measured" in pool(tmp_path, "--gpu-memory-gib", "24").stdout


def test_the_checkpoint_itself_is_weighed_and_contradictions_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    size = write(folder / "model.safetensors", dense(LLAMA))
    flags = ("--available-gib", "1", "--json", "--checkpoint", str(folder))
    assert json.loads(pool(tmp_path, *flags).stdout)["checkpoint_gib"] == round(size / 2**30, 3)
    refused = pool(tmp_path, *flags, config={**LLAMA, "num_hidden_layers": 3})
    told = "config.json says 3 layers, tensors name layer 3"
    assert (refused.exit_code, json.loads(refused.stdout)) == (1, {"error": told}) and told in refused.stderr


def test_a_pool_that_holds_no_request_is_told_beside_the_numbers(tmp_path: Path) -> None:
    done = pool(tmp_path, "--available-gib", "0.0001", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["pool_tokens"] < 2048
    assert "hold no request of 2048: the engine will not start" in done.stderr


def test_weights_that_are_unknown_leave_the_pool_known(tmp_path: Path) -> None:
    few = {"num_hidden_layers": 40, "num_key_value_heads": 8, "num_attention_heads": 40, "head_dim": 128}
    done = pool(tmp_path, "--available-gib", "6.51", "--max-model-len", "32768", "--json", config=few)
    told = json.loads(done.stdout)
    assert told["pool_tokens"] == 42_656
    assert told["weights_gib"] is None and told["checkpoint_gib"] is None and told["layer_mib"] is None
    assert "weights unknown: hidden_size" in done.stderr


ROOM = ("--available-gib", "1")


@pytest.mark.parametrize(
    ("config", "flags", "told"),
    [
        (None, ROOM, "No such file"),
        (b"{", ROOM, "want JSON"),
        (b"\xff\xfe\x00", ROOM, "want JSON"),
        (b"[" * 100_000, ROOM, "want JSON"),
        ([1], ROOM, "want an object"),
        ({}, ROOM, "num_hidden_layers: want a positive integer, found None"),
        ({**LLAMA, "num_hidden_layers": 0}, ROOM, "num_hidden_layers: want a positive integer, found 0"),
        ({**LLAMA, "num_hidden_layers": -4}, ROOM, "num_hidden_layers: want a positive integer, found -4"),
        ({**LLAMA, "num_hidden_layers": "4"}, ROOM, "num_hidden_layers: want a positive integer, found '4'"),
        ({**LLAMA, "num_hidden_layers": 4.5}, ROOM, "num_hidden_layers"),
        ({**LLAMA, "num_hidden_layers": 10**12}, ROOM, "num_hidden_layers: want at most 10000, found 1000000000000"),
        ({**LLAMA, "num_nextn_predict_layers": 10**12}, ROOM, "MTP layers: want at most"),
        ({**LLAMA, "head_dim": 10**400}, ROOM, "head_dim: want a number that a model can have"),
        ({**LLAMA, "num_attention_heads": None, "head_dim": None}, ROOM, "num_attention_heads"),
        ({**LLAMA, "hidden_size": 100, "head_dim": None}, ROOM, "head_dim: want it stated"),
        ({**LLAMA, "model_type": "rwkv9"}, ROOM, "model_type 'rwkv9' is unknown to the ledger"),
        ({**LLAMA, "model_type": ["llama"]}, ROOM, "model_type"),
        ({**LLAMA, "compress_ratios": [4]}, ROOM, "compressed sparse attention (DeepSeek-V4) is not modelled"),
        ({**LLAMA, "layer_types": ["full_attention"]}, ROOM, "layer_types: want 4 entries, one a layer, found 1"),
        ({**LLAMA, "layer_types": ["full_attention"] * 3 + ["dream"]}, ROOM, "found 'dream': not modelled"),
        ({**LLAMA, "layer_types": 7}, ROOM, "layer_types: want a list of texts, found 7"),
        ({**LLAMA, "layer_types": {"full_attention": 9}}, ROOM, "layer_types: want 4 layers in all, found 9"),
        ({**LLAMA, "sliding_window": 32, "model_type": ""}, ROOM, "which layers slide is not told"),
        ({**LLAMA, "quantization_config": 3}, ROOM, "quantization_config: want an object, found 3"),
        ({**LLAMA, "text_config": {"num_hidden_layers": 0}}, ROOM, "num_hidden_layers"),
        ({**LLAMA, "rope_scaling": 3}, ROOM, "rope_scaling: want a mapping"),
        (LLAMA, (), "want exactly one of --available-gib, --measured and --gpu-memory-gib"),
        (LLAMA, (*ROOM, "--gpu-memory-gib", "80"), "want exactly one of"),
        (LLAMA, ("--available-gib", "nan"), "--available-gib: want GiB above 0, found 'nan'"),
        (LLAMA, ("--available-gib", "inf"), "--available-gib: want GiB above 0"),
        (LLAMA, ("--available-gib", "-1"), "--available-gib: want GiB above 0"),
        (LLAMA, ("--available-gib", "0"), "--available-gib: want GiB above 0"),
        (LLAMA, ("--available-gib", ""), "--available-gib: want GiB, found"),
        (LLAMA, ("--available-gib", "1,2"), "--available-gib: want 1 numbers, one a stage, found 2"),
        (LLAMA, ("--available-gib", "0.0000001"), "not one block fits"),
        (LLAMA, ("--gpu-memory-gib", "nan"), "--gpu-memory-gib: want GiB above 0"),
        (LLAMA, ("--gpu-memory-gib", "24", "--gpu-memory-utilization", "1.5"), "at most 1, found '1.5'"),
        (LLAMA, (*ROOM, "--gpu-memory-utilization", "nan"), "want a number above 0 and at most 1, found 'nan'"),
        (LLAMA, (*ROOM, "--gpu-memory-utilization", ""), "want a number above 0 and at most 1, found ''"),
        (LLAMA, ("--gpu-memory-gib", "0.1"), "not one block fits"),
        (LLAMA, (*ROOM, "--tp", "2", "--dcp", "4"), "--dcp: want a divisor of TP 2, found 4"),
        (LLAMA, (*ROOM, "--tp", "0"), "--tp: want a positive number, found 0"),
        (LLAMA, (*ROOM, "--tp", "1000000"), "want at most 4096 GPUs"),
        (LLAMA, (*ROOM, "--tp", "3"), "tp: want a divisor of 8 attention heads, found 3"),
        (LLAMA, (*ROOM, "--pp", "5"), "pp: want at most 4"),
        (LLAMA, (*ROOM, "--engine", "new"), "--engine: want a version"),
        (LLAMA, (*ROOM, "--pp", "2", "--partition", "3,2"), "--partition: want 4 layers in all, found 5"),
        (LLAMA, (*ROOM, "--pp", "2", "--partition", "4"), "--partition: want 2 parts for PP 2, found 1"),
        (LLAMA, (*ROOM, "--pp", "2", "--partition", "4,0"), "--partition: want layers on every stage"),
        (LLAMA, (*ROOM, "--pp", "2", "--partition", "5,-1"), "--partition: want layers on every stage"),
        (LLAMA, (*ROOM, "--pp", "2", "--partition", "a,b"), "--partition: want numbers of layers"),
        (LLAMA, (*ROOM, "--pp", "2", "--partition", f"{10**20},1"), "--partition: want numbers of layers"),
        (LLAMA, (*ROOM, "--max-model-len", "0"), "--max-model-len: want a positive number"),
        ({**LLAMA, "max_position_embeddings": None}, ROOM, "--max-model-len: want tokens"),
        (LLAMA, (*ROOM, "--kv-cache-dtype", "fp3"), "kv-cache-dtype: want one of"),
        (LLAMA, (*ROOM, "--kv-cache-dtype", "fp8_ds_mla"), "want a model with MLA"),
        (LLAMA, (*ROOM, "--speculative", "mtp"), "want a model with MTP layers"),
        (LLAMA, (*ROOM, "--speculative", "mtp:0"), "--speculative: want none, mtp, or METHOD:K"),
        (LLAMA, (*ROOM, "--speculative", "eagle3"), "want the config.json of its draft model"),
        (LLAMA, (*ROOM, "--repair", "some"), "--repair: want none, first or all"),
        (LLAMA, (*ROOM, "--checkpoint", "/nonexistent"), "want *.safetensors, found none"),
        (LLAMA, (*ROOM, "--checkpoint", "x" * 5000), "File name too long"),
        (LLAMA, ("--measured", "/nonexistent"), "/nonexistent: No such file"),
    ],
)
def test_a_wrong_input_is_told_in_one_line(tmp_path: Path, config: Any, flags: tuple[str, ...], told: str) -> None:
    done = pool(tmp_path, *flags, config=config)
    assert done.exit_code == 1, done.output
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert told in line
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "want YAML"),
        ("[]", "want a mapping"),
        ("a: 1", "want stages_39_39_gib"),
        ("stages_2_2_gib: []", "stages_2_2_gib: want 2 mappings, one a stage"),
        ("stages_2_2_gib: [{available_kv: 1}, {}]", "stages_2_2_gib[1].available_kv: want GiB above 0, found nothing"),
        ("stages_2_2_gib: [{available_kv: 1}, {available_kv: .nan}]", "available_kv: want GiB above 0, found nan"),
        ("stages_2_2_gib: [{available_kv: 1}, {available_kv: true}]", "want GiB above 0, found True"),
        ("stages_2_3_gib: [{available_kv: 1}, {available_kv: 1}]", "want 4 layers as in the model, found 5"),
        ("stages_4_gib: [{available_kv: 1}]", "want a measurement with 2 stages, found 1"),
        ("partition: [2, x]\nstages: []", "stages: want a partition such as [39, 39]"),
    ],
)
def test_a_wrong_measurement_is_told_with_its_field(tmp_path: Path, text: str, told: str) -> None:
    measured = tmp_path / "measured.yaml"
    measured.write_text(text)
    done = pool(tmp_path, "--pp", "2", "--measured", str(measured))
    assert (done.exit_code, done.stdout) == (1, "")
    assert told in done.stderr and len(done.stderr.splitlines()) == 1
