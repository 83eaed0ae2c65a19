"""Does the layout divide the model into parts that the engine can run, and keep every GPU busy?"""

from collections.abc import Mapping

from fleet.gate import gate
from fleet.known import Undecidable, architecture_of, checkpoint_of, config_of, layout_of
from fleet.layouts.layout import usable_gpus
from fleet.model.shape import ModelError
from fleet.model.sharding import cuts
from fleet.plan import Plan
from fleet.verdict import Finding


@gate("hidden-divides", reads="config.json, layout", remedy="choose a TP that divides hidden_size", needs_facts=True)
def hidden_divides(plan: Plan) -> Finding | None:
    """TP divides the hidden size: embeddings and sequence-parallel parts are cut along it."""
    hidden, tp = architecture_of(plan).hidden_size, layout_of(plan).tp
    if hidden is None:
        raise Undecidable("hidden_size in config.json", "none")
    return None if hidden % tp == 0 else Finding(want=f"hidden_size {hidden} divisible by TP", got=f"TP {tp}")


@gate(
    "quantisation-blocks",
    reads="config.json (intermediate sizes, quantization_config), layout, flags",
    remedy="choose another TP, --enable-expert-parallel for experts, or a checkpoint with other groups",
    needs_facts=True,
)
def quantisation_blocks(plan: Plan) -> list[Finding]:
    """Each rank's part of an MLP is a whole number of quantisation blocks: 29,568 / TP 8 with groups of 128 is not.

    The engine does not check it for every kind of quantisation, and then fails while it loads, or answers nonsense.
    """
    tp = layout_of(plan).tp
    try:
        found = cuts(config_of(plan), plan.service.hf_overrides)
    except ModelError as error:
        raise Undecidable("a quantisation and sizes that are known", str(error)) from None
    spread = plan.service.flags.get("--enable-expert-parallel") is True
    return [
        Finding(want=f"{cut.field} {cut.size} / TP {_whole(cut.block)}", got=f"{cut.size} / {tp} = {cut.size / tp:g}")
        for cut in found
        if not cut.fits(tp) and not (cut.experts and spread)
    ]


def _whole(block: int) -> str:
    return f"in whole blocks of {block}" if block > 1 else "whole"


@gate(
    "indexer-weights",
    reads="tensor names of the checkpoint, config.json, hf_overrides",
    remedy="cut where a layer computes its own indices, or use a checkpoint that ships these indexers",
    needs_facts=True,
)
def indexer_weights(plan: Plan) -> Finding | None:
    """Each layer that is forced to compute its own indices has an indexer in the checkpoint, not uninitialised weights.

    Nothing shows at prompts of at most index_topk tokens (2,048).
    """
    architecture = architecture_of(plan)
    now, shipped = architecture.index_sharing, architecture.shipped_sharing
    if now is None or shipped is None:
        return None
    forced = [layer for layer in range(architecture.layers) if now.computes(layer) and not shipped.computes(layer)]
    if not forced:
        return None
    folder = plan.model_folder
    if folder is None or folder.indexer_layers is None:
        said = (folder.tensors_error if folder else None) or "tensor names that were not read"
        raise Undecidable(f"indexers of layers {', '.join(map(str, forced))}", said)
    missing = [layer for layer in forced if layer not in folder.indexer_layers]
    if not missing:
        return None
    want = f"an indexer for each forced layer ({', '.join(map(str, forced))})"
    return Finding(want=want, got=f"none for layers {', '.join(map(str, missing))}")


@gate(
    "hybrid-stages",
    reads="config.json (layer_types), partition",
    severity="warn",
    remedy="give each stage of {service} a layer of each kind",
    needs_facts=True,
)
def hybrid_stages(plan: Plan) -> list[Finding]:
    """In a model of several kinds of layers each stage has some of each: one without attention keeps no KV cache."""
    cut, config = layout_of(plan), config_of(plan)
    nested = config.get("text_config")
    kinds = {**config, **(nested if isinstance(nested, Mapping) else {})}.get("layer_types")
    if cut.pp == 1 or kinds is None or cut.partition is None:
        return []
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise Undecidable("layer_types as a list of names", repr(kinds)[:200])
    findings, begin = [], 0
    for stage, layers in enumerate(cut.partition):
        missing = sorted(set(kinds) - set(kinds[begin : begin + layers]))
        if missing:
            got = f"no {', '.join(missing)} on stage {stage}"
            findings.append(Finding(want="layers of each kind on each stage", got=got, warning=True))
        begin += layers
    return findings


@gate("visible-devices", reads="env, image.engine", remedy="take it out: {service} has device_order", needs_facts=False)
def visible_devices(plan: Plan) -> Finding | None:
    """CUDA_VISIBLE_DEVICES of the owner names GPUs in a form that the engine takes: indices, or whole GPU UUIDs.

    Read in 0.28 to 0.32: a UUID is looked up by NVML, which knows none that is cut short and none of MIG.
    """
    value = plan.service.env.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    words = [word.strip() for word in value.split(",")]
    bad = [word for word in words if not (word.isdecimal() and word.isascii()) and not _uuid(word)]
    if not bad and len(set(words)) == len(words) >= layout_of(plan).ranks:
        return None
    want = f"{layout_of(plan).ranks} different indices or GPU UUIDs"
    return Finding(want=want, got=f"{len(words)} entries" + (f", of which {len(bad)} are neither" if bad else ""))


def _uuid(word: str) -> bool:
    parts = word.removeprefix("GPU-").split("-")
    return word.startswith("GPU-") and [len(part) for part in parts] == [8, 4, 4, 4, 12]


@gate(
    "stages-busy",
    reads="flags (--max-num-seqs), layout",
    severity="warn",
    remedy="raise --max-num-seqs of {service}, or use fewer stages",
)
def stages_busy(plan: Plan) -> Finding | None:
    """At least four requests for each pipeline stage may run at once; with D of them a share (P-1)/(D+P-1) is idle."""
    pp, most = layout_of(plan).pp, max_num_seqs(plan)
    if pp == 1 or most is None or most >= 4 * pp:
        return None
    bubble = (pp - 1) / (most + pp - 1)
    return Finding(
        want=f"--max-num-seqs of at least 4 x PP {pp} = {4 * pp}",
        got=f"{most}: {bubble:.0%} of each GPU's time is the pipeline's bubble",
        warning=True,
    )


def max_num_seqs(plan: Plan) -> int | None:
    """Requests that one engine runs at once; None: left to the engine, whose default is 256 or more."""
    value = plan.service.flags.get("--max-num-seqs")
    if value is None:
        return None
    if isinstance(value, bool) or not str(value).isascii() or not str(value).isdecimal():
        raise Undecidable("--max-num-seqs as a number", repr(value))
    return int(str(value))


@gate(
    "gpus-used",
    reads="layout, gpus of the service",
    severity="warn",
    remedy="use DP or a wider layout, or declare gpus of {service}: then what is left is meant",
)
def gpus_used(plan: Plan) -> Finding | None:
    """TP x PP x DP uses every GPU that the service may use."""
    cut, gpus = layout_of(plan), usable_gpus(plan.node, plan.service)
    idle = sorted(set(gpus) - set(cut.device_order))
    if not idle or len(cut.device_order) > len(gpus):
        return None
    want = f"all of GPU {', '.join(map(str, gpus))} in use"
    return Finding(want=want, got=f"{', '.join(map(str, idle))} idle at {cut}", warning=True)


READ_GIB_S = 0.6
"""A checkpoint of 390.58 GiB was ready after 654 to 670 s (an operator's figure): a rate that real storage has."""
BEST_GIB_S = 10.0
"""No storage of one node that we know of reads faster into GPUs."""


@gate(
    "start-budget",
    reads="policy.start_budget_s, sizes of the checkpoint",
    severity="fail or warn",
    remedy="raise policy.start_budget_s of {service}: a start that is cut off loads everything again",
    needs_facts=True,
)
def start_budget(plan: Plan) -> Finding | None:
    """The start budget is longer than the checkpoint takes to be read: at 0.6 GiB/s, or it warns; at 10, or fails."""
    gib, budget = checkpoint_of(plan).size / 2**30, plan.service.policy.start_budget_s
    usual, least = gib / READ_GIB_S, gib / BEST_GIB_S
    if budget >= usual:
        return None
    want = f"at least {usual:.0f} s for {gib:.0f} GiB at {READ_GIB_S} GiB/s"
    return Finding(want=want, got=f"start_budget_s: {budget}", warning=budget >= least)


@gate(
    "checkpoint",
    reads="model.safetensors.index.json, headers and sizes of the shards",
    remedy="bring the checkpoint to {node} once more (deliver.py), or take what is no part of it away",
    needs_facts=True,
)
def checkpoint(plan: Plan) -> Finding | None:
    """Every shard that the index names is there, and as long as its own header says."""
    folder = plan.model_folder
    if folder is not None and folder.checkpoint is not None and folder.checkpoint_error is None:
        return None
    got = (folder.checkpoint_error or folder.error if folder else None) or "nothing"
    return Finding(want=f"a whole checkpoint in {plan.service.model}", got=got)
