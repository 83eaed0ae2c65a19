"""Bytes of one matrix of 256 rows and 1,024 columns in each stored form, counted by hand."""

from typing import Any

import pytest

from fleet.model.quantization import scheme
from fleet.model.shape import ModelError

ELEMENTS = 256 * 1024


def compressed(form: str, ignore: list[str] | None = None, **weights: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ignore or [], "config_groups": groups}


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}


@pytest.mark.parametrize(
    ("quantization", "size"),
    [
        (None, ELEMENTS * 2),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ELEMENTS + 2 * 8 * 4),
        ({"quant_method": "fp8"}, ELEMENTS + 4),
        (compressed("float-quantized", num_bits=8, type="float", strategy="channel"), ELEMENTS + 256 * 2),
        (compressed("float-quantized", num_bits=8, type="float", strategy="tensor"), ELEMENTS + 4),
        ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head"]}, ELEMENTS + 256 * 4),
        (
            compressed("float-quantized", num_bits=8, type="float", strategy="block", block_structure=[128, 128]),
            ELEMENTS + 2 * 8 * 4,
        ),
        (compressed("int-quantized", num_bits=8, type="int", strategy="channel"), ELEMENTS + 256 * 2),
        # 4 bits, a 16-bit scale for each 128, two int64 for the shape
        (compressed("pack-quantized", **INT4, symmetric=True), ELEMENTS // 2 + 256 * 8 * 2 + 16),
        # and a 4-bit zero point for each scale
        (compressed("pack-quantized", **INT4, symmetric=False), ELEMENTS // 2 + 256 * 8 * 2 + 256 * 8 // 2 + 16),
        (compressed("pack-quantized", num_bits=8, type="int", strategy="channel"), ELEMENTS + 256 * 2 + 16),
        (
            compressed("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16),
            ELEMENTS // 2 + ELEMENTS // 16 + 8,
        ),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, ELEMENTS // 2 + 8 * 128 + 8 * 256 * 2),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, ELEMENTS // 2 + 8 * 128 + 8 * 256 * 2 + 1024 * 4),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, ELEMENTS + 256 + 256 * 2 + 1024 * 4),
        ({"quant_method": "mxfp4"}, ELEMENTS // 2 + ELEMENTS // 32),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, ELEMENTS // 2 + ELEMENTS // 16 + 8),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, ELEMENTS + 8),
    ],
)
def test_a_matrix_takes_these_bytes(quantization: dict[str, Any] | None, size: int) -> None:
    config = {"quantization_config": quantization} if quantization else {}
    assert scheme(config, 2).stored("model.layers.3.mlp.experts.0.up_proj", 256, 1024) == size


@pytest.mark.parametrize(
    ("ignore", "kept"),
    [
        ("re:.*self_attn.*", "model.layers.3.self_attn.o_proj"),
        ("re:model.layers.[0-2].mlp.*", "model.layers.2.mlp.up_proj"),
        ("model.layers.3.self_attn.o_proj", "model.layers.3.self_attn.o_proj"),
        ("model.layers.3", "model.layers.3.mlp.up_proj"),
        ("shared_experts", "model.layers.9.mlp.shared_experts.up_proj"),
        ("model.layers.*.self_attn*", "model.layers.11.self_attn.o_proj"),
    ],
)
def test_an_ignored_matrix_stays_in_16_bit(ignore: str, kept: str) -> None:
    found = scheme({"quantization_config": compressed("pack-quantized", [ignore], **INT4)}, 2)
    assert not found.quantised(kept)
    assert found.quantised("model.layers.30.mlp.experts.5.up_proj")


def test_mxfp4_is_of_experts_alone() -> None:
    found = scheme({"quantization_config": {"quant_method": "mxfp4"}}, 2)
    assert not found.quantised("model.layers.3.self_attn.q_proj")


def test_groups_of_one_form_are_one_and_of_several_are_told() -> None:
    alike = compressed("pack-quantized", **INT4)
    alike["config_groups"]["group_1"] = alike["config_groups"]["group_0"]
    assert scheme({"quantization_config": alike}, 2).quantised("model.layers.0.mlp.up_proj")
    alike["config_groups"]["group_1"] = {"weights": {**INT4, "num_bits": 8, "strategy": "channel"}}
    with pytest.raises(ModelError, match=r"want groups of one form.*found 2 forms"):
        scheme({"quantization_config": alike}, 2)


@pytest.mark.parametrize(
    "quantization",
    [
        {"quant_method": "bitsandbytes"},
        {"bits": 4},
        {"quant_method": "fp8", "weight_block_size": [128]},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
        {"quant_method": "awq", "bits": 5},
        {"quant_method": "awq", "group_size": 0},
        {"quant_method": "modelopt", "quant_algo": "W4A8"},
        {"quant_method": "compressed-tensors", "config_groups": {}},
        {"quant_method": "compressed-tensors", "config_groups": {"a": 1}},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 7}}}},
        compressed("pack-quantized", ["re:("], **INT4),
        {"quant_method": "awq", "modules_to_not_convert": "lm_head"},
    ],
)
def test_a_form_that_is_not_known_is_told(quantization: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"config\.json: quantization_config"):
        scheme({"quantization_config": quantization}, 2)
