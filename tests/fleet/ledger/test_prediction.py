"""What the ledger expects of a plan is shown stage by stage, or not at all."""

from fleet.ledger.prediction import prediction
from tests.fleet.builders import facts, fleet_with, node, plans_of, service, view

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def test_each_stage_has_its_weights_and_its_room_and_the_smallest_decides() -> None:
    declared = service(layout={"tp": 4, "pp": 2, "partition": [42, 38]}, max_model_len=8192, speculative="none")
    (plan,) = plans_of(view(node(), declared, told=facts(LLAMA)))
    told = prediction(plan)
    assert told is not None and [stage.layers for stage in told.stages] == [42, 38]
    assert told.tokens == min(stage.tokens for stage in told.stages) > 0
    for stage in told.stages:
        assert 0 < stage.weights + stage.available <= told.limit <= told.gpu
    assert "tokens" in str(told) and told.source


def test_nothing_is_predicted_of_an_unknown_model() -> None:
    (plan,) = fleet_with(config={"model_type": "nobody-knows"}).plans
    assert prediction(plan) is None
