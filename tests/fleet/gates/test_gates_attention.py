"""A KV cache and an attention backend are ones that the engine version has for these GPUs."""

from typing import Any

import pytest

from fleet.gate import FleetView
from fleet.nodes.nvidia import Nvidia
from tests.fleet.builders import GLM, IMAGE, LLAMA, facts, fails, fleet_with, gpus, passes, warns

MLA = {"model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512}
DSA = {**GLM, "kv_lora_rank": 512}
STOCK = {name: value for name, value in IMAGE.items() if name != "backends"}


def on(capability: str | None, config: dict[str, Any] = LLAMA, engine: str = "0.30.0", **changes: Any) -> FleetView:
    """A service of a model on GPUs of this compute capability, from an image that nobody patched."""
    told = facts(config, nvidia=Nvidia(gpus=gpus(compute_cap=capability), driver="580.95.05"))
    image = changes.pop("image", STOCK) | {"engine": engine}
    plain: dict[str, Any] = {"speculative": "none", "layout": {"tp": 8}}
    return fleet_with(told=told, image=image, **(plain | changes))


@pytest.mark.parametrize(
    ("capability", "config", "dtype"),
    [
        ("8.0", LLAMA, "auto"),
        ("8.9", LLAMA, "fp8"),
        ("7.5", LLAMA, "fp8_e5m2"),
        ("8.0", MLA, "fp8"),
        ("9.0", DSA, "fp8_ds_mla"),
        ("10.0", DSA, "fp8"),
        ("12.0", LLAMA, "nvfp4"),
        ("10.3", DSA, "fp8_ds_mla"),
        ("12.1", LLAMA, "fp8"),
        ("8.0", {**LLAMA, "model_type": "minimax_m3"}, "fp8"),
    ],
)
def test_a_cache_that_some_backend_reads_there_passes(capability: str, config: dict[str, Any], dtype: str) -> None:
    passes("kv-cache-gpu", on(capability, config, kv_cache_dtype=dtype))


@pytest.mark.parametrize(
    ("capability", "config", "dtype", "text"),
    [
        ("8.9", LLAMA, "fp8_ds_mla", "for keys and values with kv_cache_dtype fp8_ds_mla, found none on compute"),
        ("8.0", MLA, "fp8_e5m2", "for MLA with kv_cache_dtype fp8_e5m2"),
        ("7.5", LLAMA, "nvfp4", "found none on compute capability 7.5 (GPU 0, 1, 2, 3, 4, 5, 6, 7); there they read"),
        ("9.0", DSA, "fp8_e5m2", "for sparse MLA"),
        ("12.0", DSA, "nvfp4_ds_mla", "there they read auto, fp8, fp8_ds_mla, fp8_e4m3"),
    ],
)
def test_a_cache_that_no_backend_reads_there_is_refused(
    capability: str, config: dict[str, Any], dtype: str, text: str
) -> None:
    fails("kv-cache-gpu", on(capability, config, kv_cache_dtype=dtype), text)


def test_sparse_attention_on_an_a100_is_a_warning_until_the_image_says_what_it_adds() -> None:
    told: dict[str, Any] = {"config": DSA, "kv_cache_dtype": "fp8_ds_mla"}
    warns("kv-cache-gpu", on("8.0", **told), "for this kind it has no backend there at all", "image.backends")
    passes("kv-cache-gpu", on("8.0", **told, image=STOCK | {"backends": ["SPARSE_SM80"]}))


def test_gpus_of_two_capabilities_are_each_judged() -> None:
    mixed = (*gpus(4, compute_cap="8.9"), *(gpu for gpu in gpus(8, compute_cap="7.5") if gpu.index >= 4))
    told = facts(LLAMA, nvidia=Nvidia(gpus=mixed, driver="580.95.05"))
    view = fleet_with(told=told, image=STOCK, speculative="none", layout={"tp": 8}, kv_cache_dtype="nvfp4")
    fails("kv-cache-gpu", view, "on compute capability 7.5 (GPU 4, 5, 6, 7)")


def test_what_is_not_known_does_not_pass() -> None:
    fails("kv-cache-gpu", on(None), "want the compute capability of GPU 0, found nothing")
    fails("kv-cache-gpu", on("7.0"), "want a compute capability that backends were asked about", "found 7.0")
    fails("kv-cache-gpu", on("9.0", engine="0.99.0"), "want an engine version with a catalog, found 0.99.0")
    fails("kv-cache-gpu", fleet_with(config=None, image=STOCK), "want config.json")
    gone = fleet_with(told=facts(LLAMA, nvidia=Nvidia(gpus=(), driver="580.95.05")), image=STOCK, layout={"tp": 8})
    fails("kv-cache-gpu", gone, "want 8 GPUs, found none (an empty list)")


@pytest.mark.parametrize(
    "flags",
    [
        {"--attention-backend": "FLASH_ATTN_MLA"},
        {"--attention-config": {"backend": "flash_attn_mla"}},
        {"--attention-config": '{"backend": "FLASH_ATTN_MLA"}'},
        {"--attention-config.backend": "FLASH_ATTN_MLA"},
    ],
)
def test_a_backend_that_the_owner_names_must_run_on_these_gpus(flags: dict[str, Any]) -> None:
    passes("attention-backend", on("9.0", MLA, flags=flags))
    text = "want compute capability 9.0 for FLASH_ATTN_MLA, found 8.0 of GPU 0, 1"
    fails("attention-backend", on("8.0", MLA, flags=flags), text)
    passes("kv-cache-gpu", on("8.0", MLA, flags=flags))  # one of the two says it


def test_a_backend_that_the_owner_names_must_read_the_cache() -> None:
    flags = {"--attention-backend": "FLASH_ATTN"}
    passes("attention-backend", on("9.0", flags=flags, kv_cache_dtype="fp8"))
    text = "want a KV cache that FLASH_ATTN reads (auto, bfloat16, float16, fp8, fp8_e4m3), found kv_cache_dtype: nvfp4"
    fails("attention-backend", on("9.0", flags=flags, kv_cache_dtype="nvfp4"), text)


def test_a_backend_that_nobody_knows_is_refused_unless_the_image_adds_it() -> None:
    flags = {"--attention-backend": "SPARSE_SM80"}
    fails("attention-backend", on("8.0", flags=flags), "that vLLM 0.30.0 has for CUDA, found SPARSE_SM80")
    passes("attention-backend", on("8.0", flags=flags, image=STOCK | {"backends": ["sparse_sm80"]}))
    fails("attention-backend", on("8.0", flags=flags, engine="0.99.0"), "an engine version with a catalog")
    fails("attention-backend", on(None, flags={"--attention-backend": "FLASHINFER"}), "compute capability of GPU 0")


def test_no_backend_named_asks_nothing() -> None:
    passes("attention-backend", on(None))
    passes("attention-backend", on(None, flags={"--attention-backend": "auto"}))


def test_a_backend_is_named_by_a_variable_only_where_the_version_reads_it() -> None:
    passes("attention-backend", on("8.0", env={"VLLM_ATTENTION_BACKEND": "CUTLASS_MLA"}))
