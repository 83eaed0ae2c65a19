"""One small model of each kind, counted by hand: the figures are written out."""

from typing import Any

import pytest

from fleet.ledger.cache.page import CacheError
from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Draft, Serving
from fleet.model.read import read_model
from fleet.model.shape import ModelError

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 1000,
}
LATENT = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_attention_heads": 8,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "vocab_size": 1000,
    "num_nextn_predict_layers": 1,
}
SPARSE = {
    **LATENT,
    "model_type": "glm_moe_dsa",
    "num_hidden_layers": 12,
    "index_topk": 8,
    "index_head_dim": 128,
    "index_n_heads": 2,
    "index_topk_freq": 4,
    "index_skip_topk_offset": 3,
}


def ledger(config: dict[str, Any], **flags: Any) -> Ledger:
    serving = {"engine": "0.30", "max_model_len": 1024, "max_num_batched_tokens": 128, **flags}
    return Ledger(read_model(config), Serving(**serving))


def test_a_dense_model() -> None:
    """q 64x64 + o 64x64 + three 64x128 matrices are split; k and v 16x64 each; two norms of 64; 2 bytes each."""
    layer = read_model(LLAMA).layers[0].weights
    assert layer is not None
    assert layer.sharded == (2 * 64 * 64 + 3 * 64 * 128) * 2 == 65_536
    assert (layer.keys, layer.replicated) == (2 * 16 * 64 * 2, 2 * 64 * 2)
    assert read_model(LLAMA).stored == 4 * (65_536 + 4_096 + 256) + 2 * 1000 * 64 * 2 + 128


def test_heads_are_replicated_past_the_kv_heads() -> None:
    """2 heads x (8 + 8) x 2 bytes x 4 layers = 256 B a token; at TP 2 one head each, at TP 4 and 8 still one."""
    rates = [ledger(LLAMA, tp=tp).bytes_per_token(0, 0, 4) for tp in (1, 2, 4, 8)]
    assert rates == [256, 128, 128, 128]
    layer = read_model(LLAMA).layers[0].weights
    assert layer is not None
    assert [layer.on_rank(tp) for tp in (1, 2, 4)] == [69_888, 32_768 + 2_048 + 256, 16_384 + 2_048 + 256]


def test_an_fp8_cache_takes_half_and_a_4_bit_one_has_a_scale_for_each_16() -> None:
    wide = {**LLAMA, "head_dim": 128}
    assert ledger(wide, kv_cache_dtype="nvfp4").bytes_per_token(0, 0, 4) == 4 * 2 * 2 * (64 + 8)
    assert ledger(LLAMA, kv_cache_dtype="fp8").bytes_per_token(0, 0, 4) == 128


@pytest.mark.parametrize(
    ("quantization", "rate"),
    [
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}}, 128),
        ({"kv_cache_quant_algo": "FP8"}, 128),
        ({"quantization": {"kv_cache_quant_algo": "NVFP4"}}, 64),  # 4 bits; the scale of 8 elements is none
        ({"kv_cache_scheme": None}, 256),
    ],
)
def test_a_cache_left_to_the_engine_is_what_the_checkpoint_says(quantization: dict[str, Any], rate: int) -> None:
    config = {**LLAMA, "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", **quantization}}
    assert ledger(config).bytes_per_token(0, 0, 4) == rate
    assert ledger(config, kv_cache_dtype="bfloat16").bytes_per_token(0, 0, 4) == 256


def test_the_vocabulary_is_padded_to_64_rows_before_it_is_split() -> None:
    """1000 rows become 1024: 1024 x 64 x 2 bytes / 4 ranks."""
    assert read_model(LLAMA).embedding_on_rank(4) == 1024 * 64 * 2 // 4


def test_embedding_first_head_last_and_a_tied_head_has_its_own_copy_in_a_pipeline() -> None:
    vocabulary, layer, norm = 1024 * 64 * 2, 69_888, 128
    plain = ledger(LLAMA, pp=2)
    assert plain.weights(0, 0, 3) == 3 * layer + vocabulary
    assert plain.weights(1, 3, 4) == layer + norm + vocabulary
    tied = {**LLAMA, "tie_word_embeddings": True}
    assert ledger(tied, pp=2).weights(1, 3, 4) == layer + norm + vocabulary
    assert ledger(tied).weights(0, 0, 4) == 4 * layer + norm + vocabulary
    assert read_model(tied).stored == read_model(LLAMA).stored - 1000 * 64 * 2


def test_a_mixture_of_experts() -> None:
    """8 experts of three 64x32 matrices are split, the router 8x64 is whole on each rank."""
    mixture = {**LLAMA, "model_type": "qwen3_moe", "num_experts": 8, "moe_intermediate_size": 32}
    layer = read_model(mixture).layers[0].weights
    assert layer is not None and layer.experts is not None
    assert layer.experts.bytes == 8 * 3 * 64 * 32 * 2 == 98_304
    assert layer.replicated == 2 * 128 + 8 * 64 * 2 + 2 * 8 * 2  # norms, router, norms of query and key heads
    assert layer.experts.on_rank(tp=4) == 98_304 // 4
    assert layer.experts.on_rank(tp=1, ep=8) == 98_304 // 8


def test_mla_keeps_one_vector_whatever_the_tp_and_replicates_what_leads_to_it() -> None:
    """(16 + 4) x 2 bytes x 4 layers = 160 B; q_a 24x64 and kv_a 20x64 with their norms are whole on each rank."""
    assert [ledger(LATENT, tp=tp).bytes_per_token(0, 0, 4) for tp in (1, 8)] == [160, 160]
    layer = read_model(LATENT).layers[0].weights  # dense: first_k_dense_replace
    assert layer is not None
    assert layer.replicated == (24 * 64 + 24 + 20 * 64 + 16 + 2 * 64) * 2
    assert layer.sharded == (96 * 24 + 128 * 16 + 64 * 64 + 3 * 64 * 128) * 2


def test_a_quantised_kv_b_is_kept_once_more_in_16_bit() -> None:
    """W_UK and W_UV are views of a kv_b in 16 bit; from one in fp8 the engine makes a copy of 128 x 16 x 2 bytes."""
    quantised = {**LATENT, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    plain, layer = read_model(LATENT).layers[0].weights, read_model(quantised).layers[0].weights
    assert plain is not None and layer is not None
    assert (plain.absorbed, layer.absorbed) == (0, 128 * 16 * 2)


def test_an_mtp_draft_lies_on_the_last_stage_with_an_embedding_of_its_own() -> None:
    """The draft is a routed layer and its projection of 64 x 128, with three norms more; 20 x 2 bytes a token."""
    model = read_model(LATENT)
    routed, draft = model.layers[1].weights, model.drafts[0].weights
    assert routed is not None and draft is not None
    assert draft.stored - routed.stored == (64 * 128 + 3 * 64) * 2 == model.draft_stored - routed.stored
    without, given = ledger(LATENT, pp=2), ledger(LATENT, pp=2, draft=Draft(method="mtp"))
    assert given.bytes_per_token(1, 2, 4) - without.bytes_per_token(1, 2, 4) == 40
    assert given.bytes_per_token(0, 0, 2) == without.bytes_per_token(0, 0, 2)
    assert given.weights(1, 2, 4) - without.weights(1, 2, 4) == draft.on_rank(1) + 1024 * 64 * 2
    alone = ledger(LATENT, draft=Draft(method="mtp")).weights(0, 0, 4) - ledger(LATENT).weights(0, 0, 4)
    assert alone == draft.on_rank(1)


def test_indexers_are_on_computing_layers_on_repaired_ones_and_on_the_draft() -> None:
    """12 layers, freq 4, offset 3: 0, 1, 2, 6 and 10 compute. 132 B each beside 40 B of the vector."""
    draft = Draft(method="mtp")
    whole = ledger(SPARSE, draft=draft)
    assert whole.bytes_per_token(0, 0, 12) == 13 * 40 + 6 * 132
    every, first, none = (ledger(SPARSE, pp=2, draft=draft, repair=repair) for repair in ("all", "first", "none"))
    assert [one.indexers(1, 3, 12) for one in (every, first, none)] == [6, 4, 3]  # 3, 4, 5 are orphans; 6, 10, draft
    assert every.bytes_per_token(1, 3, 12) == 10 * 40 + 6 * 132
    assert every.bytes_per_token(0, 0, 3) == 3 * 40 + 3 * 132
    assert every.indexers(1, 6, 12) == first.indexers(1, 6, 12) == 3  # starts on a computing layer
    weights = every.weights(1, 3, 12) - none.weights(1, 3, 12)
    assert weights == 3 * (2 * 128 * 24 + 128 * 64 + 2 * 64 + 2 * 128) * 2


def test_a_sparse_model_without_mtp_layers_has_indexers_all_the_same() -> None:
    plain = {key: value for key, value in SPARSE.items() if key != "num_nextn_predict_layers"}
    assert ledger(plain).bytes_per_token(0, 0, 12) == 12 * 40 + 5 * 132


@pytest.mark.parametrize(("engine", "least"), [("0.28", 64), ("0.30", 65)])
def test_the_engine_starts_only_with_the_blocks_of_one_request(engine: str, least: int) -> None:
    """1,024 tokens take 64 blocks; from 0.29 on one more is held back."""
    counted = ledger(LLAMA, engine=engine)
    size = counted.block_bytes(0, 0, 4)
    assert [counted.pool((4,), (blocks * size,)).starts for blocks in (least - 1, least)] == [False, True]


def test_fp8_ds_mla_takes_656_bytes_whatever_the_ranks() -> None:
    assert ledger(SPARSE, kv_cache_dtype="fp8_ds_mla").bytes_per_token(0, 0, 12) == 12 * 656 + 5 * 132
    with pytest.raises(CacheError, match="want a model with MLA"):
        ledger(LLAMA, kv_cache_dtype="fp8_ds_mla")


def sliding(layers: int = 12, every: int = 6) -> dict[str, Any]:
    kinds = ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(layers)]
    return {
        **LLAMA,
        "model_type": "gemma3_text",
        "num_hidden_layers": layers,
        "layer_types": kinds,
        "sliding_window": 32,
    }


def test_a_model_that_slides_has_groups_of_as_many_layers_as_the_rarer_kind() -> None:
    """10 sliding and 2 full layers: 6 groups of 2. A page of 2 heads x 16 x 2 bytes x 16 tokens = 1,024 B, two a block.

    A request of 1,024 tokens takes 64 blocks of the full group, and of each sliding one
    ceil(min(31 + 2 x 128, 1024) / 16) + 1 = 19.
    """
    counted = ledger(sliding())
    assert [len(one.layers) for one in counted.groups] == [2] * 6
    assert counted.block_bytes(0, 0, 12) == 2 * 1024
    blocks = 64 + 5 * 19
    assert counted.tokens(0, 0, 12, blocks * 2 * 2048) == 2 * 1024
    old = ledger(sliding(), engine="0.19")
    assert old.tokens(0, 0, 12, 600 * 2048) == 600 // 6 * 16


def test_layers_that_nearly_balance_are_padded_to_the_larger_number() -> None:
    """12 and 13 layers, as gpt-oss with an EAGLE draft: two groups of up to 13, not three of 12."""
    config = {**LLAMA, "model_type": "gpt_oss", "num_hidden_layers": 25, "sliding_window": 32, "num_local_experts": 2}
    config["layer_types"] = ["full_attention" if i % 2 == 0 else "sliding_attention" for i in range(25)]
    counted = ledger(config)
    assert sorted(len(one.layers) for one in counted.groups) == [12, 13]
    assert counted.block_bytes(0, 0, 25) == 13 * 1024


def test_groups_are_spread_so_that_each_stage_has_its_share() -> None:
    """Groups hold layers i, i + n, ...: two stages of 6 layers have one layer of each group."""
    counted = ledger(sliding(), pp=2)
    assert counted.block_bytes(0, 0, 6) == counted.block_bytes(1, 6, 12) == 1024


HYBRID = {
    **LLAMA,
    "model_type": "qwen3_next",
    "num_hidden_layers": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
}


def test_a_linear_hybrid_grows_its_block_until_a_page_holds_a_state() -> None:
    """State: (2x32 + 64) x 3 x 2 + 4 x 16 x 16 x 4 = 4,864 B; attention 64 B a token: 76 tokens, rounded to 80."""
    counted = ledger(HYBRID)
    assert {one.page.block for one in counted.groups} == {80}
    assert counted.block_bytes(0, 0, 8) == 2 * 80 * 64  # 4 groups of 2 layers
    # a request of 1,024 tokens: 13 blocks of attention, 2 of each of three groups of states
    assert counted.tokens(0, 0, 8, 19 * 5 * 10_240) == 5 * 1024
    assert ledger(HYBRID, prefix_caching=False).tokens(0, 0, 8, 16 * 5 * 10_240) == 5 * 1024


def test_tp_splits_a_state_and_drafts_lengthen_it() -> None:
    mtp = {**HYBRID, "mtp_num_hidden_layers": 1}
    blocks = [ledger(HYBRID, tp=tp).groups[0].page.block for tp in (1, 2)]
    assert blocks == [80, 80]  # half the state, half the heads
    drafting = ledger(mtp, draft=Draft(method="mtp", k=2))
    assert drafting.groups[0].page.block == 96  # 4,864 + 128 x 2 x 2 = 5,376 B: 84 tokens
    assert drafting.limits.state_blocks == 4


def test_a_state_whose_dtype_is_not_told_needs_the_block_size_that_the_engine_logged() -> None:
    silent = {key: value for key, value in HYBRID.items() if key not in ("model_type", "mamba_ssm_dtype")}
    silent["layer_types"] = (["linear_attention"] * 3 + ["full_attention"]) * 2
    with pytest.raises(CacheError, match="mamba_ssm_dtype: want it stated where model_type is not"):
        ledger(silent)
    assert {one.page.block for one in ledger(silent, block_size=80).groups} == {80}
    assert {one.page.block for one in ledger({**silent, "model_type": "qwen3_5"}).groups} == {80}
    assert {one.page.block for one in ledger({**silent, "model_type": "qwen3_next"}).groups} == {48}  # 2,816 B


def test_nemotron_h_names_its_layers_by_letters() -> None:
    """M-*-: one Mamba layer, one of attention, two of MLP alone, which keep nothing."""
    config = {key: value for key, value in LLAMA.items() if key != "num_hidden_layers"}
    config |= {"model_type": "nemotron_h", "hybrid_override_pattern": "M-*-", "mamba_num_heads": 4}
    config |= {"mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4}
    counted = ledger(config)
    assert counted.layers == 4
    # state: (32 + 2x2x16) x 3 x 2 + 4 x 8 x 16 x 2 = 1,600 B; attention 64 B a token: 25 tokens, rounded to 32
    assert counted.block_bytes(0, 0, 4) == 32 * 64
    with pytest.raises(CacheError, match=r"stage 1: want a layer with a cache among 3..3"):
        ledger(config, pp=2).block_bytes(1, 3, 4)


def test_an_eagle_draft_is_another_model_whose_layers_lie_on_the_last_stage() -> None:
    draft_model = read_model({**LLAMA, "num_hidden_layers": 1})
    serving = Serving(engine="0.30", pp=2, max_model_len=1024, draft=Draft(method="eagle3"))
    counted = Ledger(read_model(LLAMA), serving, draft_model)
    assert counted.bytes_per_token(1, 2, 4) - counted.bytes_per_token(0, 0, 2) == 64
    with pytest.raises(ModelError, match=r"want the config\.json of its draft model"):
        Ledger(read_model(LLAMA), serving)


@pytest.mark.parametrize(
    ("method", "extra"),
    [
        ("eagle", 2 * 64 * 64),  # fc: embedding and hidden state
        ("eagle3", 3 * 64 * 64 + (64 + 2 * 16) * 64),  # fc: three hidden states; q, k and v read 2 x 64
        ("draft_model", 1024 * 64),  # its own embedding
    ],
)
def test_a_draft_weighs_its_layers_its_head_and_what_joins_it_to_the_target(method: str, extra: int) -> None:
    """One layer of 69,888 bytes, a head of 512 x 64 of its own vocabulary, a norm of 64."""
    draft_model = read_model({**LLAMA, "num_hidden_layers": 1, "draft_vocab_size": 512})
    serving = Serving(engine="0.30", max_model_len=1024, draft=Draft(method=method))
    target = read_model(LLAMA)
    with_draft = Ledger(target, serving, draft_model).weights(0, 0, 4)
    without = Ledger(target, serving.model_copy(update={"draft": None})).weights(0, 0, 4)
    assert with_draft - without == 69_888 + (512 * 64 + 64 + extra) * 2


def test_dcp_multiplies_the_tokens_of_a_block() -> None:
    one, four = ledger(SPARSE), ledger(SPARSE, dcp=4)
    assert four.tokens(0, 0, 12, 2**30) == pytest.approx(4 * one.tokens(0, 0, 12, 2**30), rel=0.01)
    assert four.bytes_per_token(0, 0, 12) == one.bytes_per_token(0, 0, 12) / 4


def test_overrides_change_what_computes_and_not_what_is_shipped() -> None:
    model = read_model(SPARSE, {"index_topk_freq": 1})
    assert sum(model.computing) == 12 and sum(model.shipped) == 5


def test_a_multimodal_model_nests_its_language_model() -> None:
    nested = {"model_type": "mistral3", "text_config": LLAMA}
    assert read_model(nested).stored == read_model(LLAMA).stored
    tower = {**nested, "vision_config": {"model_type": "pixtral", "hidden_size": 8}}
    assert "tower (pixtral" in read_model(tower).missing[0]
    assert ledger(tower).bytes_per_token(0, 0, 4) == 256
    with pytest.raises(ModelError, match="weights unknown"):
        ledger(tower).weights(0, 0, 4)
