"""The model is there, known, and long enough."""

from typing import Any

import pytest

from fleet.gate import FleetView
from fleet.nodes.node import ModelFolder
from tests.fleet.builders import GLM, MODEL, ask, checkpoint, facts, fails, fleet_with, passes, service, warns


def told(**folder: Any) -> FleetView:
    return fleet_with(told=facts(models=(ModelFolder(path=MODEL, **folder),)))


def test_the_checkpoint_is_on_the_node() -> None:
    passes("model-present", fleet_with())
    fails("model-present", told(error="no such file"), f"want {MODEL}/config.json, found no such file")
    fails("model-present", fleet_with(told=facts(models=())), "found nothing", "bring the checkpoint to a1")


@pytest.mark.parametrize("gate", ["model-present", "checkpoint", "config-tensors", "start-budget", "hidden-divides"])
def test_a_folder_that_the_node_did_not_come_to_is_unknown_and_nobody_is_told_to_bring_it(gate: str) -> None:
    hung = "did not end in time: 'the probe never came to it'"
    cut = told(error=hung, checkpoint_error=hung)
    fails(gate, cut, "did not end in time", "see what hangs on a1 (nvidia-smi, a mount), then ask again")
    assert all(verdict.unknown for verdict in ask(gate, cut) if verdict.status == "fail")


def test_a_model_that_could_not_be_read_is_unknown() -> None:
    passes("model-known", fleet_with())
    fails("model-known", told(error="config.json: line 3: not JSON"), "model unknown: config.json: line 3: not JSON")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers: want a positive integer, found None"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"index_topk_freq": 0}, "index_topk_freq"),
        ({"index_topk_pattern": "S" * 78}, "layer 0 shares top-k indices"),
        ({"num_nextn_predict_layers": "one"}, "MTP layers: want an integer, found 'one'"),
    ],
)
def test_a_config_that_makes_no_sense_is_named_by_its_field(change: dict[str, Any], text: str) -> None:
    fails("model-known", fleet_with(config=GLM | change), text)


def stretched(engine: str, **more: Any) -> FleetView:
    """A model of 32768 positions that the owner stretches fourfold."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    config = {**GLM, "max_position_embeddings": 32_768}
    image = service().image.model_copy(update={"engine": engine})
    return fleet_with(config=config, image=image, max_model_len=131_072, hf_overrides={"rope_scaling": yarn, **more})


@pytest.mark.parametrize("engine", ["0.28.0", "0.29.0"])
def test_an_engine_that_stretches_what_yarn_stretches_takes_the_longer_context(engine: str) -> None:
    passes("max-model-len", stretched(engine))


@pytest.mark.parametrize("engine", ["0.30.0", "0.32.0"])
def test_from_0_30_on_the_longer_context_must_be_stated_too(engine: str) -> None:
    told = ("at most 32768 tokens, found 131072", "set max_position_embeddings to 131072 in hf_overrides too")
    fails("max-model-len", stretched(engine), *told)
    passes("max-model-len", stretched(engine, max_position_embeddings=131_072))


def test_an_engine_that_nobody_knows_decides_nothing_of_yarn() -> None:
    fails("max-model-len", stretched("0.99.0"))


def test_the_length_fits_the_model() -> None:
    passes("max-model-len", fleet_with(max_model_len=1_048_576))
    fails("max-model-len", fleet_with(max_model_len=1_048_577), "want at most 1048576 tokens, found 1048577")


@pytest.mark.parametrize("value", ["1", "true", "True"])
def test_a_length_that_the_owner_allowed_the_engine_is_a_warning(value: str) -> None:
    env = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": value}
    warns("max-model-len", fleet_with(max_model_len=2_000_000, env=env), "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1")


def test_a_variable_that_is_off_allows_nothing() -> None:
    fails("max-model-len", fleet_with(max_model_len=2_000_000, env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "0"}))


def test_a_model_that_does_not_state_its_positions_is_a_warning() -> None:
    silent = {name: value for name, value in GLM.items() if name != "max_position_embeddings"}
    warns("max-model-len", fleet_with(config=silent), "a model that states its positions")


def test_the_length_of_an_unknown_model_is_not_enough() -> None:
    fails("max-model-len", told(error="not JSON"), "model unknown")


def test_a_config_json_is_that_of_the_tensors_beside_it() -> None:
    passes("config-tensors", fleet_with())
    fails("config-tensors", fleet_with(config=None), "want config.json")
    fails("config-tensors", fleet_with(config=dict(GLM)), "want the tensors of the checkpoint, found nothing")
    other = told(config=GLM | {"num_hidden_layers": 90}, checkpoint=checkpoint())
    fails(
        "config-tensors",
        other,
        "found config.json says 90 layers, tensors name 79 of them",
    )
