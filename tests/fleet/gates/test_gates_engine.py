"""The engine is a known one, the one in the image, and is asked only for what it can do with this model."""

from typing import Any

import pytest

from fleet.gate import FleetView
from fleet.nodes.node import Runtime
from tests.fleet.builders import GLM, IMAGE, LLAMA, facts, fails, fleet_with, image, node, passes, warns

NVSWITCH = node(nvlink_islands=((0, 1, 2, 3, 4, 5, 6, 7),))


def engine(version: str, **changes: Any) -> FleetView:
    return fleet_with(image=IMAGE | {"engine": version}, **changes)


ONE_STAGE = {"layout": {"tp": 8}}
TWO_STAGES = {"layout": {"tp": 4, "pp": 2, "partition": [42, 36]}}


def test_mtp_under_a_pipeline_needs_engine_0_30() -> None:
    passes("speculation-pp", engine("0.30.0", speculative="mtp:3"))
    passes("speculation-pp", engine("0.33.1", speculative="mtp:3"))
    passes("speculation-pp", engine("0.29.0", speculative="mtp:3", **ONE_STAGE))
    passes("speculation-pp", engine("0.29.0", speculative="none"))
    message = "want engine 0.30 or later", "found mtp:3 at PP 2 on engine 0.29.0"
    fails("speculation-pp", engine("0.29.0", speculative="mtp:3"), *message)


def test_mtp_under_a_pipeline_on_an_unknown_engine_is_refused() -> None:
    fails("speculation-pp", engine("0.99.0", speculative="mtp:3"), "want a known engine version")


def test_an_automatic_choice_falls_back_and_says_so() -> None:
    passes("speculation-pp", engine("0.29.0", speculative="auto"))
    warns("speculation-fallback", engine("0.29.0", speculative="auto"), "speculative auto -> none", "0.29.0")
    passes("speculation-fallback", engine("0.30.0", speculative="auto"))


@pytest.mark.parametrize("gate", ["speculation-pp", "ngram-v2", "runner", "mtp-layers"])
def test_no_speculation_is_always_possible(gate: str) -> None:
    passes(gate, engine("0.29.0", speculative="none"))
    passes(gate, engine("0.99.0", speculative="none", v2_runner=True))


def test_ngram_is_told_once_and_not_as_a_matter_of_the_runner() -> None:
    passes("runner", fleet_with(speculative="ngram"))
    passes("runner", fleet_with(speculative="ngram", v2_runner=True, **ONE_STAGE))


def test_ngram_is_not_asked_of_the_v2_runner() -> None:
    passes("ngram-v2", fleet_with(speculative="ngram", **ONE_STAGE))
    passes("ngram-v2", fleet_with(speculative="ngram", v2_runner=False, **ONE_STAGE))
    fails(
        "ngram-v2", fleet_with(speculative="ngram", v2_runner=True, **ONE_STAGE), "found ngram:3 with v2_runner: true"
    )
    passes("ngram-v2", fleet_with(speculative="mtp", v2_runner=True, **ONE_STAGE))


@pytest.mark.parametrize("method", ["ngram", "ngram_gpu"])
@pytest.mark.parametrize("setting", ["auto", True, False])
def test_ngram_is_not_asked_of_a_pipeline(method: str, setting: bool | str) -> None:
    fails("ngram-v2", fleet_with(speculative=method, v2_runner=setting), "PP 2, which needs the V2 model runner")


def test_the_runner_is_pinned_where_mtp_needs_it() -> None:
    (plan,) = fleet_with(speculative="mtp").plans
    assert plan.v2_runner is True
    passes("runner", fleet_with(speculative="mtp"))
    passes("runner", fleet_with(speculative="mtp", v2_runner=False, **ONE_STAGE))
    fails("runner", fleet_with(speculative="mtp", v2_runner=False), "pinned for mtp:3 at PP 2", "v2_runner: false")


def test_a_runner_left_to_the_engine_under_a_pipeline_is_refused() -> None:
    given = fleet_with(speculative="mtp")
    (plan,) = given.plans
    fails(
        "runner",
        given.model_copy(update={"plans": (plan.model_copy(update={"v2_runner": None}),)}),
        "left to the engine",
    )


def test_a_method_that_the_v2_runner_lacks_is_refused_under_a_pipeline() -> None:
    fails("runner", fleet_with(speculative="medusa"), "found medusa:3", "mtp, eagle")
    fails("runner", fleet_with(speculative="medusa", v2_runner=True, **ONE_STAGE), "found medusa:3")
    passes("runner", fleet_with(speculative="medusa", **ONE_STAGE))


def test_a_method_on_an_unknown_engine_is_not_one_of_its_runner() -> None:
    fails("runner", engine("0.99.0", speculative="mtp"), "want a known engine version")


@pytest.mark.parametrize("method", ["eagle", "eagle3", "medusa", "draft_model", "dflash"])
def test_a_method_with_a_draft_model_of_its_own_names_it(method: str) -> None:
    fails("draft-model", fleet_with(speculative=f"{method}:2"), f"found {method}:2 without --spec-model")
    for flag in ("--spec-model", "--spec_model"):
        passes("draft-model", fleet_with(speculative=f"{method}:2", flags={flag: "/srv/draft"}))


@pytest.mark.parametrize("method", ["none", "auto", "mtp", "deepseek_mtp", "ngram", "ngram_gpu", "suffix", "dspark"])
def test_a_method_that_drafts_by_itself_needs_no_model(method: str) -> None:
    passes("draft-model", fleet_with(speculative=method))


def test_mtp_needs_a_model_with_mtp_layers() -> None:
    passes("mtp-layers", fleet_with(speculative="mtp"))
    passes("mtp-layers", fleet_with(speculative="eagle3", config=LLAMA))
    passes("mtp-layers", fleet_with(speculative="auto", config=LLAMA))
    fails("mtp-layers", fleet_with(speculative="mtp", config=LLAMA), "want a model with MTP layers for mtp:3")
    fails("mtp-layers", fleet_with(speculative="deepseek_mtp", config=GLM | {"num_nextn_predict_layers": 0}))
    fails("mtp-layers", fleet_with(speculative="mtp", told=facts(config=None)), "model unknown")


def test_custom_all_reduce_is_off_at_tp_2_on_nvlink_pairs() -> None:
    tp2 = {"layout": {"tp": 2, "pp": 2, "partition": [42, 36]}}
    passes("custom-all-reduce", fleet_with(**tp2))
    passes("custom-all-reduce", fleet_with(**tp2, disable_custom_all_reduce=True))
    fails("custom-all-reduce", fleet_with(**tp2, disable_custom_all_reduce=False), "invalid argument", "graph capture")


def test_custom_all_reduce_may_stay_on_at_other_sizes_and_on_other_nodes() -> None:
    passes("custom-all-reduce", fleet_with(disable_custom_all_reduce=False))
    passes("custom-all-reduce", fleet_with(NVSWITCH, layout={"tp": 2}, disable_custom_all_reduce=False))
    passes("custom-all-reduce", fleet_with(node(nvlink_islands=()), layout={"tp": 2}, disable_custom_all_reduce=False))


def test_an_engine_version_is_a_known_one() -> None:
    passes("engine-known", engine("0.31.2"))
    fails("engine-known", engine("0.99.0"), "0.28, 0.29, 0.30", "found 0.99.0")


def test_the_image_holds_the_declared_engine() -> None:
    passes("image-engine", fleet_with())
    passes("image-engine", engine("0.30"))
    fails("image-engine", engine("0.31.0"), "want engine 0.31.0 in the image, found 0.30.0")
    fails("image-engine", engine("0.3"), "found 0.30.0")


def test_an_image_without_a_label_is_a_warning() -> None:
    told = facts(runtime=Runtime(name="podman", version="5", images=(image(engine=None),)))
    warns("image-engine", fleet_with(told=told), "no label org.vllm-fleet.engine")


def test_an_image_that_is_not_there_holds_no_engine() -> None:
    fails("image-engine", fleet_with(told=facts(runtime=Runtime(name="podman", version="5"))), "no such image")
    fails("image-engine", fleet_with(told=facts(runtime=Runtime(name="podman", error="exit 125"))), "exit 125")


@pytest.mark.parametrize(
    ("flag", "field"),
    [
        ("--pipeline-parallel-size", "layout.pp"),
        ("--pipeline_parallel_size", "layout.pp"),
        ("--pipeline", "layout.pp"),
        ("--max-model-len", "max_model_len"),
        ("--speculative-config.method", "speculative"),
        ("--spec-method", "speculative"),
        ("--spec_tokens", "speculative"),
        ("--no-disable-custom-all-reduce", "disable_custom_all_reduce"),
        ("--hf_overrides.index_topk_freq", "hf_overrides"),
        ("--config", "the fields of the service"),
    ],
)
def test_a_flag_does_not_go_around_the_field_that_the_gates_read(flag: str, field: str) -> None:
    fails("set-once", fleet_with(flags={flag: 4}), f"{flag} (field: {field})")


def test_a_draft_model_without_a_method_turns_on_speculation_that_no_gate_saw() -> None:
    flags = {"--spec-model": "/srv/draft"}
    fails("set-once", fleet_with(flags=flags, speculative="none"), "--spec-model (field: speculative)")
    passes("set-once", fleet_with(flags=flags, speculative="eagle3:2"))


@pytest.mark.parametrize(
    "name", ["VLLM_PP_LAYER_PARTITION", "VLLM_USE_V2_MODEL_RUNNER", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"]
)
def test_a_variable_does_not_go_around_the_field_that_the_gates_read(name: str) -> None:
    fails("set-once", fleet_with(env={name: "0"}), name)
    fails("set-once", fleet_with(secrets={name: {"env": "X"}}), name)


def test_flags_and_variables_without_a_field_of_their_own_are_the_owners() -> None:
    flags = {"--max-num-seqs": 64, "--model-impl": "auto", "--config-format": "hf", "--no-enable-prefix-caching": True}
    passes("set-once", fleet_with(flags=flags, env={"NCCL_DEBUG": "WARN", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}))
