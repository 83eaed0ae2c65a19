"""From a service on a node to what a layout search asks: the case, and the ledger that judges it."""

import json
from functools import lru_cache
from typing import Any

from fleet.declaration import Evidence, NodeDeclaration, ServiceDeclaration, Speculative
from fleet.engines.engine import engine_of
from fleet.frozen import Frozen
from fleet.layouts.cuts import Cuts
from fleet.layouts.evidence import runs_of
from fleet.layouts.ranking import Choice, choose
from fleet.layouts.repair import REPAIRABLE
from fleet.layouts.search import Case
from fleet.layouts.sizes import Sizes
from fleet.layouts.widths import Widths, read_widths
from fleet.layouts.wiring import wiring_of
from fleet.ledger.budget import Budget, Measured, Stated
from fleet.ledger.cache.page import CacheError
from fleet.ledger.cold import Cold
from fleet.ledger.memory import LedgerMemory
from fleet.ledger.serving import Draft, Repair, Serving
from fleet.model.architecture import Architecture, laid_over
from fleet.model.checkpoint import Checkpoint
from fleet.model.read import read_model
from fleet.model.shape import Model, ModelError
from fleet.nodes.gpu import memory_bandwidth
from fleet.nodes.nvidia import Nvidia
from fleet.nodes.topology import Topology

MEMORY_SEEN_BY_ENGINE = 0.9906
"""What CUDA calls total memory, as a share of what nvidia-smi prints: 79.25 of 80.00 GiB (A100 80 GB, an operator)."""


class Subject(Frozen):
    """The model, as JSON texts: they are the same for all nodes that hold it, and can be the key of a cache."""

    config: str
    overrides: str
    checkpoint: Checkpoint | None = None
    """Its tensors, where they were read: then weights are by their headers."""

    @property
    def text(self) -> dict[str, Any]:
        """The language model's fields, overrides laid over them."""
        return laid_over(json.loads(self.config), json.loads(self.overrides))


def subject_of(config: dict[str, Any], overrides: dict[str, Any], checkpoint: Checkpoint | None = None) -> Subject:
    """The subject of a parsed config.json and the service's `hf_overrides`."""
    texts = (json.dumps(config, sort_keys=True), json.dumps(overrides, sort_keys=True))
    return Subject(config=texts[0], overrides=texts[1], checkpoint=checkpoint)


@lru_cache(maxsize=64)
def model_of(subject: Subject) -> Model | str:
    """The model as the ledger needs it, or why it cannot tell."""
    try:
        model = read_model(json.loads(subject.config), json.loads(subject.overrides), subject.checkpoint)
        model.require_weights()
    except (ModelError, RecursionError) as error:
        return str(error)
    return model


@lru_cache(maxsize=64)
def widths_of(subject: Subject) -> Widths:
    """What TP must divide."""
    return read_widths(subject.text)


def _flag(service: ServiceDeclaration, name: str, default: int) -> int:
    value = service.flags.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


CPU_SPACE = "VLLM_CPU_KVCACHE_SPACE"
"""GiB for KV on each rank of an engine built for CPU (vLLM `CpuPlatform.check_and_update_config`)."""


def stated_kv_bytes(service: ServiceDeclaration) -> int | None:
    """Bytes for KV that the service states, by flag or by that variable; None where the engine finds out by itself."""
    flag, space = service.flags.get("--kv-cache-memory-bytes"), service.env.get(CPU_SPACE, "")
    if isinstance(flag, int) and not isinstance(flag, bool) and flag > 0:
        return flag
    return int(space) * 2**30 if space.isascii() and space.isdecimal() and 0 < len(space) < 6 and int(space) else None


def serving_of(service: ServiceDeclaration, draft: Speculative | None, repair: Repair) -> Serving:
    """How the service is served, its sizes left at 1."""
    block = _flag(service, "--block-size", 0)
    return Serving(
        engine=service.image.engine,
        kv_cache_dtype=service.kv_cache_dtype,
        draft=Draft(method=draft.method, k=draft.k) if draft and _runs_layers(draft) else None,
        max_model_len=service.max_model_len,
        block_size=block or None,
        max_num_batched_tokens=_flag(service, "--max-num-batched-tokens", 8192),
        dcp=_flag(service, "--decode-context-parallel-size", 1),
        expert_parallel=service.flags.get("--enable-expert-parallel") is True,
        prefix_caching=service.flags.get("--enable-prefix-caching") is not False,
        repair=repair,
    )


def _runs_layers(draft: Speculative) -> bool:
    return not draft.method.startswith(("ngram", "suffix"))


class MeasuredCut(Frozen):
    """What a started engine logged on these sizes: other partitions of the same sizes follow from it."""

    sizes: Sizes
    budget: Measured


class Question(Frozen):
    """A search with everything that its answer depends on; nodes of one kind ask equal questions."""

    case: Case
    subject: Subject
    serving: Serving
    gpu_mib: int
    utilization: float
    max_num_seqs: int
    kv_bytes: int | None = None
    """What the service tells its engine to take for KV on each rank."""
    measured: MeasuredCut | None = None
    """Never part of what `auto` chooses: a layout must not change because it ran."""

    def memory(self) -> LedgerMemory | str:
        """The ledger for this question, or why there is none."""
        return memory_of(self)

    def choice(self) -> Choice:
        """The best layout and all others, by what is declared and what the node is."""
        return _choice(self.model_copy(update={"measured": None}) if self.measured else self)


@lru_cache(maxsize=256)
def memory_of(question: Question) -> LedgerMemory | str:
    """The ledger that judges this question's layouts, or why there is none."""
    model = model_of(question.subject)
    if isinstance(model, str):
        return model
    text = question.subject.text
    memory_gib = question.gpu_mib / 1024 * MEMORY_SEEN_BY_ENGINE
    budget: Budget = Cold(
        memory_gib=memory_gib,
        utilization=question.utilization,
        max_num_seqs=question.max_num_seqs,
        hidden=int(text.get("hidden_size") or 0),
        vocabulary=int(text.get("vocab_size") or 0),
    )
    if question.kv_bytes is not None:
        budget = Stated(bytes=question.kv_bytes)
    engine = question.case.engine
    under_pipeline = engine is not None and engine.speculation_under_pp
    whole = int(memory_gib * 2**30)
    limit = int(memory_gib * question.utilization * 2**30)
    measured = question.measured
    known = (measured.sizes, measured.budget) if measured else None
    weighed = question.subject.checkpoint is not None
    found = LedgerMemory(model, question.serving, budget, whole, limit, under_pipeline, known, weighed=weighed)
    try:
        found.ledger(Sizes(tp=1))
    except (ModelError, CacheError) as error:
        return str(error)
    return found


@lru_cache(maxsize=256)
def _choice(question: Question) -> Choice:
    memory = question.memory()
    return choose(question.case, None, memory) if isinstance(memory, str) else choose(question.case, memory)


def active_bytes(model: Model, widths: Widths) -> int | None:
    """Bytes of weights that one token reads: all of a dense layer, of a layer's experts those that it passes."""
    total = model.head or model.embedding
    for layer in model.layers:
        if layer.weights is None:
            return None
        experts = layer.weights.experts
        total += layer.weights.stored
        if experts and widths.active_experts:
            total -= experts.bytes * (experts.count - min(widths.active_experts, experts.count)) // experts.count
    return total


@lru_cache(maxsize=64)
def _active(subject: Subject) -> int | None:
    model = model_of(subject)
    return None if isinstance(model, str) else active_bytes(model, widths_of(subject))


def healthy_gpus(usable: tuple[int, ...], nvidia: Nvidia | None) -> tuple[int, ...]:
    """Those that the node listed without an error in place of a value; all of them where it was not asked."""
    if nvidia is None or not nvidia.gpus:
        return usable
    sound = {gpu.index for gpu in nvidia.gpus if gpu.problem is None}
    return tuple(gpu for gpu in usable if gpu in sound)


def question_of(
    node: NodeDeclaration,
    service: ServiceDeclaration,
    architecture: Architecture,
    subject: Subject,
    evidence: tuple[Evidence, ...] = (),
    topology: Topology | None = None,
    nvidia: Nvidia | None = None,
    indexers: frozenset[int] = frozenset(),
) -> Question:
    """The question that this service asks on this node. `indexers`: layers known to have indexer weights."""
    usable = service.gpus if service.gpus is not None else tuple(range(node.gpus.count))
    widths = widths_of(subject)
    by_pattern = indexers if _pattern_may_repair(service, architecture) else frozenset()
    engine, draft = engine_of(service.image.engine), draft_of(service, architecture)
    case = Case(
        wiring=wiring_of(node, topology),
        gpus=healthy_gpus(tuple(sorted(set(usable))), nvidia),
        model=architecture,
        widths=widths,
        cuts=Cuts(
            model=architecture,
            repaired=service.boundary_repaired,
            repairable=by_pattern,
            max_pool_loss=service.boundary.max_pool_loss if service.boundary.repair == "auto" else 0.0,
            runs=runs_of(evidence, service.model, service.image.engine),
        ),
        objective=service.objective,
        max_model_len=service.max_model_len,
        engine=engine,
        version=service.image.engine,
        speculative=service.speculative.method if isinstance(service.speculative, Speculative) else None,
        drafts=draft.k if draft and draft.method.endswith("mtp") else 0,
        bandwidth=memory_bandwidth(node.gpus.model),
        active_bytes=_active(subject),
        prefill_tokens_per_s=service.prefill_tokens_per_s,
    )
    return Question(
        case=case,
        subject=subject,
        serving=serving_of(service, draft, "all" if service.boundary_repaired else "first" if by_pattern else "none"),
        gpu_mib=node.gpus.memory_mib,
        utilization=service.gpu_memory_utilization,
        max_num_seqs=_flag(service, "--max-num-seqs", 1024),
        kv_bytes=stated_kv_bytes(service),
    )


def _pattern_may_repair(service: ServiceDeclaration, architecture: Architecture) -> bool:
    """May the engine's own pattern make a layer compute (`fleet.layouts.repair`), where its indexer has weights?"""
    sharing = architecture.index_sharing
    wanted = service.boundary.repair in ("auto", "pattern") and not service.boundary_repaired
    return wanted and sharing is not None and architecture.model_type in REPAIRABLE


def draft_of(service: ServiceDeclaration, architecture: Architecture) -> Speculative | None:
    """The speculation that a layout without a pipeline would get; under one, `auto` may fall back to none."""
    if isinstance(service.speculative, Speculative):
        return service.speculative
    return Speculative(method="mtp") if service.speculative == "auto" and architecture.mtp_layers else None
