"""A checkpoint's quantisation runs on the GPUs that it is placed on."""

import pytest

from fleet.gate import FleetView
from fleet.nodes.nvidia import Nvidia
from tests.fleet.builders import GLM, facts, fails, fleet_with, gpus, passes


def on(capability: str | None, method: object) -> FleetView:
    """glm, quantised by this method, on GPUs of this compute capability."""
    config = GLM | {"quantization_config": {"quant_method": method}}
    return fleet_with(told=facts(config, nvidia=Nvidia(gpus=gpus(compute_cap=capability), driver="570.86.15")))


@pytest.mark.parametrize(
    ("capability", "method"),
    [("8.0", "compressed-tensors"), ("7.5", "fp8"), ("9.0", "modelopt"), ("12.0", "mxfp4"), ("6.0", "gptq")],
)
def test_gpus_that_are_new_enough_pass(capability: str, method: str) -> None:
    passes("quantisation-gpu", on(capability, method))


@pytest.mark.parametrize(
    ("capability", "method", "least"), [("7.0", "fp8", "7.5"), ("7.5", "mxfp4", "8.0"), ("6.1", "awq", "7.5")]
)
def test_gpus_that_are_too_old_are_named(capability: str, method: str, least: str) -> None:
    text = f"want compute capability {least} for {method}, found {capability} of GPU 0 (NVIDIA A100-SXM4-80GB)"
    fails("quantisation-gpu", on(capability, method), text)


def test_a_checkpoint_that_is_not_quantised_asks_nothing() -> None:
    passes("quantisation-gpu", fleet_with())


@pytest.mark.parametrize("capability", [None, "new", "8"])
def test_a_capability_that_is_not_told_is_not_enough(capability: str | None) -> None:
    fails("quantisation-gpu", on(capability, "fp8"), "the compute capability of GPU 0")


@pytest.mark.parametrize("method", ["wings", 8, None])
def test_a_method_that_nobody_knows_is_not_passed(method: object) -> None:
    fails("quantisation-gpu", on("9.0", method), "a quant_method known here")
