"""Dimensions of a layout that are not used, and why: so that nobody has to try them to know."""

from fleet.frozen import Frozen
from fleet.layouts.search import Case
from fleet.layouts.sizes import Sizes

FLAGS = {
    "DCP": "--decode-context-parallel-size",
    "PCP": "--prefill-context-parallel-size",
    "EP": "--enable-expert-parallel",
    "block size": "--block-size",
    "blocks override": "--num-gpu-blocks-override",
    "KV bytes override": "--kv-cache-memory-bytes",
    "CPU offload": "--cpu-offload-gb",
}
NCCL = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_NCHANNELS_PER_PEER")


class Unused(Frozen):
    """One dimension, and why it is left alone."""

    dimension: str
    why: str


def unused(case: Case, sizes: Sizes, flags: frozenset[str], env: frozenset[str], nodes: int = 1) -> tuple[Unused, ...]:
    """Every dimension that the layout does not use. `flags`, `env`: what the service sets itself, which is left out."""
    reasons = {
        "DCP": _dcp(case),
        "PCP": "adds no KV room, and the V2 model runner refuses it under a pipeline",
        "DP": _dp(case, sizes),
        "EP": _ep(case),
        "several nodes": "this looks at one node; stages over several are declared, with nodes, tp and pp",
        "block size": "changes how the pool is counted, not how large it is",
        "blocks override": "would put a guess in the place of what the engine measures",
        "KV bytes override": "skips the engine's profiling and ignores gpu_memory_utilization; too much crashes",
        "CPU offload": "the last resort: each step would read weights over PCIe; quantise before, cut before",
        "NCCL settings": "every algorithm, protocol and number of channels that an operator tried was slower",
    }
    if sizes.dp > 1:
        del reasons["DP"]
    used = {name for name, flag in FLAGS.items() if flag in flags}
    used |= {"NCCL settings"} if env & {*NCCL} else set()
    return tuple(Unused(dimension=name, why=why) for name, why in reasons.items() if name not in used)


def _dcp(case: Case) -> str:
    if case.model.index_sharing is not None or case.model.shares_indices:
        return "sparse attention backends return no log-sum-exp, and the engine asserts at start (seen)"
    return "spreads one request's KV over a TP group at the price of an exchange in every layer; not searched"


def _dp(case: Case, sizes: Sizes) -> str:
    gpus = len(case.gpus)
    return f"a replica takes TP x PP = {sizes.instance} of {gpus} GPUs; a second one would need {2 * sizes.instance}"


def _ep(case: Case) -> str:
    if not case.widths.experts:
        return "the model has no experts"
    return "moves experts, not KV: no room is gained, and an operator measured 1.5 % less"
