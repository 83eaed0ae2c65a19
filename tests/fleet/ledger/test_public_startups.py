"""Start-ups that people posted, none of which the ledger was made from: the pool within 1 %, the weights within 2 %."""

from typing import Any, NamedTuple

import pytest

from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Draft, Serving
from fleet.model.read import read_model

FP8 = {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}}
AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}}
MXFP4 = {
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
    }
}


def shape(kind: str, layers: int, hidden: int, heads: int, kv_heads: int, **more: Any) -> dict[str, Any]:
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "tie_word_embeddings": False}
    counts = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "max_position_embeddings": 40960}
    return {"model_type": kind, "torch_dtype": "bfloat16", **sizes, **counts, **more}


def mixture(layers: int, hidden: int, heads: int, inner: int) -> dict[str, Any]:
    experts = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": inner, "decoder_sparse_step": 1}
    return shape(
        "qwen3_moe", layers, hidden, heads, 4, head_dim=128, intermediate_size=6144, vocab_size=151936, **experts
    )


def hybrid(layers: int, hidden: int, heads: int, kv_heads: int, values: int, kind: str, **more: Any) -> dict[str, Any]:
    """Qwen3.5, 3.6 and 3.8: each fourth layer has attention; the sizes of the others are left to the class."""
    types = (["linear_attention"] * 3 + ["full_attention"]) * (layers // 4)
    linear = {"layer_types": types, "linear_num_value_heads": values, "mamba_ssm_dtype": "float32"}
    return shape(kind, layers, hidden, heads, kv_heads, vocab_size=248320, mtp_num_hidden_layers=1, **linear, **more)


QWEN3_30B = mixture(48, 2048, 32, 768)
QWEN36_27B = hybrid(64, 5120, 24, 4, 48, "qwen3_5_text", intermediate_size=17408)
QWEN36_35B = hybrid(
    40, 2048, 16, 2, 32, "qwen3_5_moe_text", num_experts=256, num_experts_per_tok=8, moe_intermediate_size=512
)
LLAMA = shape("llama", 32, 4096, 32, 8, intermediate_size=14336, vocab_size=128256)
QWEN25_7B = shape("qwen2", 28, 3584, 28, 4, intermediate_size=18944, vocab_size=152064)
MINIMAX = shape("minimax_m2", 62, 3072, 48, 8, intermediate_size=1536, num_local_experts=256, vocab_size=200064)
GPT_OSS = shape(
    "gpt_oss", 24, 2880, 64, 8, intermediate_size=2880, num_local_experts=32, vocab_size=201088, attention_bias=True
)
DEEPSEEK = shape(
    "deepseek_v2",
    27,
    2048,
    16,
    16,
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    qk_nope_head_dim=128,
    v_head_dim=128,
    n_routed_experts=64,
    n_shared_experts=2,
    num_experts_per_tok=6,
    moe_intermediate_size=1408,
    first_k_dense_replace=1,
    intermediate_size=10944,
    vocab_size=102400,
)


class Posted(NamedTuple):
    """What was posted: GiB available for KV, tokens of the pool, GiB of weights on a rank."""

    where: str
    config: dict[str, Any]
    engine: str
    tp: int
    length: int
    available: float = 1
    tokens: int | None = None
    weights: float | None = None
    kv: str = "auto"
    mtp: int | None = None


POSTED = [
    Posted("vllm 25350", {**QWEN3_30B, **FP8}, "0.10", 1, 100_000, 10.55, 230_528, 29.09, "fp8"),
    Posted("vllm 17469", QWEN3_30B, "0.8", 4, 32_768, weights=14.2474),
    Posted("vllm 10517", LLAMA, "0.8", 1, 20_000, 3.81, 31_232, 14.9888),
    Posted("vllm 13882", {**QWEN25_7B, **AWQ}, "0.8", 1, 4096, weights=5.2032),
    Posted("vllm 15871", DEEPSEEK, "0.8", 1, 32_768, 0.95, 32_768, 29.3),
    Posted("spark-vllm-docker 396", MINIMAX, "0.29", 2, 196_608, 28.74, 240_816),
    Posted("gpt-oss-20b on an A100", {**GPT_OSS, **MXFP4}, "0.19", 1, 131_072, weights=13.72),
    Posted("club-3090 594", QWEN36_27B, "0.24", 2, 262_144, 5.33, 300_220, kv="fp8", mtp=3),
    Posted("talos-argocd-proxmox 1995", QWEN36_27B, "0.28", 2, 131_072, 4.99, 302_921, kv="fp8"),
    Posted("club-3090 612", QWEN36_35B, "0.24", 1, 131_072, 5.98, 567_978, kv="fp8"),
    Posted("1Cat-vLLM 237", QWEN36_27B, "0.22", 4, 8192, 5.35, 215_401),
]


@pytest.mark.parametrize("case", POSTED, ids=lambda case: case.where)
def test_a_posted_start_up_is_foretold(case: Posted) -> None:
    draft = Draft(method="mtp", k=case.mtp) if case.mtp else None
    serving = Serving(
        engine=case.engine,
        tp=case.tp,
        max_model_len=case.length,
        kv_cache_dtype=case.kv,
        draft=draft,
        prefix_caching=True,
    )
    ledger = Ledger(read_model(case.config), serving)
    if case.tokens is not None:
        found = ledger.pool((ledger.layers,), (int(case.available * 2**30),))
        assert found.tokens == pytest.approx(case.tokens, rel=0.01)
    if case.weights is not None:
        assert ledger.weights(0, 0, ledger.layers) / 2**30 == pytest.approx(case.weights, rel=0.02)
    assert case.tokens is not None or case.weights is not None
