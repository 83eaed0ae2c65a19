"""The kinds of model that the ledger knows, by `model_type` of config.json."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


DENSE = _names(
    "llama mistral ministral ministral3 qwen2 qwen3 phi3 granite gemma gemma2 gemma3 gemma3_text cohere cohere2 olmo2 "
    "olmo3 glm glm4 starcoder2 internlm2 internlm3 seed_oss exaone exaone4 smollm3 helium nemotron aquila baichuan yi "
    "stablelm arcee apertus hunyuan_v1_dense mistral3 mistral3_text qwen2_5_vl qwen2_vl qwen2_5_vl_text qwen3_vl "
    "qwen3_vl_text ernie4_5 mimo olmo cwm exaone4_text"
)
MIXTURE = _names(
    "mixtral qwen2_moe qwen3_moe gpt_oss minimax_m2 glm4_moe llama4 llama4_text olmoe phimoe granitemoe dots1 "
    "hunyuan_v1_moe ernie4_5_moe bailing_moe qwen3_vl_moe qwen3_vl_moe_text deepseek flex_olmo afmoe"
)
LATENT = _names("deepseek_v2 deepseek_v3 kimi_k2 glm4_moe_lite kimi_k25 deepseek_vl_v2")
SPARSE = _names("deepseek_v32 glm_moe_dsa")
HYBRID = _names("qwen3_next qwen3_5 qwen3_5_moe qwen3_5_text qwen3_5_moe_text nemotron_h nemotron_h_moe kimi_linear")
KNOWN = DENSE | MIXTURE | LATENT | SPARSE | HYBRID

TIED = frozenset({"gemma", "gemma2", "gemma3", "gemma3_text", "cohere", "cohere2"})
"""Models that share embedding and head where config.json does not say (their Hugging Face configurations)."""
SHIPPED_QUANTISED = {
    "gpt_oss": "mxfp4",
    "deepseek_v3": "fp8",
    "deepseek_v32": "fp8",
    "kimi_k2": "fp8 or int4",
    "minimax_m2": "fp8",
}
"""Kinds whose published checkpoints are quantised: a config.json of theirs that states no form may have lost it."""
UNGATED = frozenset({"nemotron", "starcoder2", "arcee", "apertus", "nemotron_h", "nemotron_h_moe"})
"""An MLP of two matrices, without a gate."""
FOUR_NORMS = frozenset({"gemma2", "gemma3", "gemma3_text"})
"""Norms before and after both parts of a layer."""

NOT_MODELLED = {
    "compress_ratios": "compressed sparse attention (DeepSeek-V4)",
    "index_kpool": "pooled indexer keys",
    "attn_layer_period": "Jamba's attention period",
    "global_head_dim": "two head sizes in one model (Gemma 4)",
    "layer_group_size": "lightning attention",
    "attn_type_list": "lightning attention (MiniMax-Text)",
}
"""Fields that only models have whose cache is planned in a way that is not modelled."""
