"""The state that one request keeps in a layer of linear attention or Mamba."""

from fleet.ledger.cache.kind import State
from fleet.model.fields import Config, mapping, number, required
from fleet.model.pattern import Kind
from fleet.model.shape import ModelError

DTYPE_BYTES = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}


def state_of(text: Config, kind: Kind, model_bytes: int) -> State:
    """The state of a layer of this kind. Where config.json lacks a size, `State.missing` says which."""
    make = {"kda": _delta_attention, "linear": _delta_net, "mamba": _mamba}[kind]
    try:
        return make(text, model_bytes)
    except ModelError as error:
        return State(conv_dim=0, conv_kernel=1, recurrent=0, recurrent_bytes=0, missing=str(error))


def _recurrent_bytes(text: Config, model_bytes: int) -> int:
    """Bytes of an element of the recurrent state. Qwen 3.5 keeps float32 by default, others the model's dtype."""
    stated, model_type = text.get("mamba_ssm_cache_dtype") or text.get("mamba_ssm_dtype"), text.get("model_type")
    if isinstance(stated, str) and stated in DTYPE_BYTES:
        return DTYPE_BYTES[stated]
    if stated not in (None, "auto"):
        raise ModelError(f"config.json: mamba_ssm_dtype: want one of {', '.join(DTYPE_BYTES)}, found {stated!r:.40}")
    if not model_type:
        raise ModelError("config.json: mamba_ssm_dtype: want it stated where model_type is not, found nothing")
    return 4 if str(model_type).startswith("qwen3_5") else model_bytes


def _delta_attention(text: Config, model_bytes: int) -> State:
    """Kimi delta attention: keys, values and queries of one width; float32 (vLLM `kda_state_dtype`)."""
    linear = mapping(text, "linear_attn_config")
    heads, width = required(linear, "num_heads"), required(linear, "head_dim")
    return State(
        conv_dim=3 * heads * width,
        conv_kernel=number(linear, "short_conv_kernel_size") or 4,
        recurrent=heads * width * width,
        recurrent_bytes=4,
    )


def _delta_net(text: Config, model_bytes: int) -> State:
    """Gated delta net (vLLM `gated_delta_net_state_shape`)."""
    key_dim, value_dim = required(text, "linear_key_head_dim"), required(text, "linear_value_head_dim")
    keys, heads = required(text, "linear_num_key_heads"), required(text, "linear_num_value_heads")
    return State(
        conv_dim=2 * key_dim * keys + heads * value_dim,
        conv_kernel=required(text, "linear_conv_kernel_dim"),
        recurrent=heads * value_dim * key_dim,
        recurrent_bytes=_recurrent_bytes(text, model_bytes),
    )


def _mamba(text: Config, model_bytes: int) -> State:
    """Mamba 2 (vLLM `mamba2_state_shape`)."""
    heads, width = required(text, "mamba_num_heads"), required(text, "mamba_head_dim")
    groups, state = required(text, "n_groups"), required(text, "ssm_state_size")
    return State(
        conv_dim=heads * width + 2 * groups * state,
        conv_kernel=required(text, "conv_kernel"),
        recurrent=heads * width * state,
        recurrent_bytes=_recurrent_bytes(text, model_bytes),
        groups=groups,
        group_dim=state,
    )
