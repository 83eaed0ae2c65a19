"""Bytes of the parts of a layer, matrix by matrix, and how tensor parallelism treats each.

Shapes are those of the checkpoints (Hugging Face names); what is split and what is whole on each rank is vLLM's:
column- and row-parallel matrices are split, `ReplicatedLinear` and norms are not.
"""

from fleet.model.fields import Config, number, required
from fleet.model.quantization import Scheme
from fleet.model.shape import Experts, Weights


class Parts:
    """Sums matrices of one layer. `path` is its name in the checkpoint, `model.layers.N`."""

    def __init__(self, scheme: Scheme, path: str) -> None:
        self.scheme = scheme
        self.path = path
        self.sharded = self.keys = self.replicated = self.absorbed = 0
        self.key_heads = 1
        self.experts: Experts | None = None

    def matrix(self, name: str, rows: int, columns: int) -> int:
        """Bytes of one matrix in the checkpoint."""
        return self.scheme.stored(f"{self.path}.{name}", rows, columns)

    def vector(self, elements: int) -> int:
        """Bytes of what is never quantised: norms, biases, routers."""
        return elements * self.scheme.plain

    def weights(self) -> Weights:
        """What was summed."""
        return Weights(
            sharded=self.sharded,
            keys=self.keys,
            key_heads=self.key_heads,
            replicated=self.replicated,
            experts=self.experts,
            absorbed=self.absorbed,
        )


def grouped_query(parts: Parts, config: Config, heads: int, kv_heads: int, head_dim: int, model_type: str) -> None:
    """Query, key, value and output projections, their biases and norms."""
    hidden = required(config, "hidden_size")
    gate = 2 if config.get("attn_output_gate", model_type in GATED) else 1
    query, keys = heads * head_dim, kv_heads * head_dim
    parts.sharded += parts.matrix("self_attn.q_proj", query * gate, hidden)
    parts.sharded += parts.matrix("self_attn.o_proj", hidden, query)
    parts.keys += 2 * parts.matrix("self_attn.k_proj", keys, hidden)
    parts.key_heads = kv_heads
    if config.get("attention_bias", model_type in BIASED) or config.get("qkv_bias"):
        parts.sharded += parts.vector(query)
        parts.keys += 2 * parts.vector(keys)
        parts.replicated += parts.vector(hidden) if config.get("attention_bias") and model_type not in BIASED else 0
    if model_type in SINKS:
        parts.sharded += parts.vector(heads)
    if model_type in HEAD_NORMS or config.get("use_qk_norm"):
        parts.replicated += 2 * parts.vector(head_dim)


GATED = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"})
"""The query projection also makes a gate for the output."""
BIASED = frozenset({"qwen2", "qwen2_moe", "qwen2_5_vl_text", "qwen2_vl"})
"""Biases of query, key and value although config.json does not say so."""
SINKS = frozenset({"gpt_oss"})
HEAD_NORMS = frozenset({"qwen3", "qwen3_moe", "gemma3", "gemma3_text", "minimax_m2", *GATED})


def latent(parts: Parts, config: Config, heads: int) -> None:
    """MLA: q_a and kv_a are whole on each rank, q_b, kv_b and o are split.

    A kv_b in 16 bit is used as it is (W_UK and W_UV are views of it); from a quantised one the engine keeps a copy in
    16 bit (vLLM `MLAAttention.process_weights_after_loading`).
    """
    hidden, rank = required(config, "hidden_size"), required(config, "kv_lora_rank")
    rope, nope = required(config, "qk_rope_head_dim"), required(config, "qk_nope_head_dim")
    value, query_rank = required(config, "v_head_dim"), number(config, "q_lora_rank")
    if query_rank:
        parts.replicated += parts.matrix("self_attn.q_a_proj", query_rank, hidden) + parts.vector(query_rank)
        parts.sharded += parts.matrix("self_attn.q_b_proj", heads * (nope + rope), query_rank)
    else:
        parts.sharded += parts.matrix("self_attn.q_proj", heads * (nope + rope), hidden)
    parts.replicated += parts.matrix("self_attn.kv_a_proj_with_mqa", rank + rope, hidden) + parts.vector(rank)
    parts.sharded += parts.matrix("self_attn.kv_b_proj", heads * (nope + value), rank)
    parts.sharded += parts.matrix("self_attn.o_proj", hidden, heads * value)
    if parts.scheme.quantised(f"{parts.path}.self_attn.kv_b_proj"):
        parts.absorbed += heads * (nope + value) * rank * parts.scheme.plain


def indexer(parts: Parts, config: Config) -> None:
    """The sparse-attention indexer, whole on each rank (vLLM `Indexer`: ReplicatedLinear)."""
    hidden, heads = required(config, "hidden_size"), required(config, "index_n_heads")
    width, query_rank = required(config, "index_head_dim"), required(config, "q_lora_rank")
    parts.replicated += parts.matrix("self_attn.indexer.wq_b", heads * width, query_rank)
    parts.replicated += parts.matrix("self_attn.indexer.wk", width, hidden)
    parts.replicated += parts.vector(heads * hidden) + 2 * parts.vector(width)


def dense(parts: Parts, config: Config, intermediate: int, gated: bool = True) -> None:
    """Gate, where there is one, up and down projections."""
    hidden = required(config, "hidden_size")
    parts.sharded += (2 if gated else 1) * parts.matrix("mlp.up_proj", intermediate, hidden)
    parts.sharded += parts.matrix("mlp.down_proj", hidden, intermediate)


def routed(parts: Parts, config: Config, count: int, gated: bool = True) -> None:
    """Router, routed experts and shared experts."""
    hidden = required(config, "hidden_size")
    width = required(config, "moe_intermediate_size", "intermediate_size")
    padded = parts.scheme.experts_only
    each = (2 if gated else 1) * parts.matrix("mlp.experts.0.gate_proj", width, hidden)
    each += parts.matrix("mlp.experts.0.down_proj", hidden, width)
    parts.experts = Experts(bytes=count * each, count=count, intermediate=width, hidden=hidden, padded=padded)
    parts.replicated += parts.vector(count * hidden)
    if padded:  # gpt-oss: biases of the router and of each expert
        parts.replicated += parts.vector(count)
        parts.sharded += parts.vector(count * 2 * width)
        parts.replicated += parts.vector(count * hidden)
    elif config.get("topk_method") == "noaux_tc" or config.get("use_routing_bias"):
        parts.replicated += count * 4
    shared = number(config, "shared_expert_intermediate_size", least=0)
    if shared is None and str(config.get("model_type", "")).startswith("llama4"):
        shared = width
    elif shared is None:
        shared = (number(config, "n_shared_experts", "num_shared_experts", least=0) or 0) * width
    elif shared:
        parts.replicated += parts.vector(hidden)
    if shared:
        parts.sharded += 2 * parts.matrix("mlp.shared_experts.gate_proj", shared, hidden)
        parts.sharded += parts.matrix("mlp.shared_experts.down_proj", hidden, shared)


def delta_net(parts: Parts, config: Config) -> None:
    """Gated delta net of Qwen3-Next and its kin: projections, convolution, and small vectors, split by heads."""
    hidden = required(config, "hidden_size")
    key = required(config, "linear_num_key_heads") * required(config, "linear_key_head_dim")
    heads = required(config, "linear_num_value_heads")
    value = heads * required(config, "linear_value_head_dim")
    parts.sharded += parts.matrix("linear_attn.in_proj_qkvz", 2 * key + 2 * value, hidden)
    parts.sharded += parts.matrix("linear_attn.in_proj_ba", 2 * heads, hidden)
    parts.sharded += parts.matrix("linear_attn.out_proj", hidden, value)
    parts.sharded += parts.vector((2 * key + value) * required(config, "linear_conv_kernel_dim"))
    parts.sharded += 2 * parts.vector(heads)
    parts.replicated += parts.vector(required(config, "linear_value_head_dim"))


def mamba(parts: Parts, config: Config) -> None:
    """Mamba 2 of Nemotron-H: input and output projections, convolution, and small vectors, split by heads."""
    hidden, heads = required(config, "hidden_size"), required(config, "mamba_num_heads")
    inner = heads * required(config, "mamba_head_dim")
    mixed = inner + 2 * required(config, "n_groups") * required(config, "ssm_state_size")
    parts.sharded += parts.matrix("mixer.in_proj", inner + mixed + heads, hidden)
    parts.sharded += parts.matrix("mixer.out_proj", hidden, inner)
    parts.sharded += parts.vector(mixed * (required(config, "conv_kernel") + 1) + 3 * heads + inner)
