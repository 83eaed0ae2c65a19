"""Every layout of one model on the GPUs of one node, each judged: what it holds, what it sends, why it cannot be."""

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

from fleet.engines.engine import Engine
from fleet.frozen import Frozen
from fleet.layouts.boundary import Partition, even_partition, stages_of
from fleet.layouts.cuts import Cuts
from fleet.layouts.device_order import device_order
from fleet.layouts.legality import problems, speculation_problem
from fleet.layouts.objective import Objective, Target
from fleet.layouts.partition import Tokens, best_partition
from fleet.layouts.sizes import Sizes, every_sizes
from fleet.layouts.traffic import Shape, Traffic, traffic
from fleet.layouts.widths import Widths
from fleet.layouts.wiring import Wiring
from fleet.model.architecture import Architecture

GIB = 2**30


class Memory(Protocol):
    """What the ledger tells of one model on GPUs of one kind. All of one rank of a stage with layers first..end-1."""

    def refusal(self, sizes: Sizes) -> str | None:
        """Why it cannot tell of these sizes; None where it can."""

    def tokens(self, sizes: Sizes, stage: int, first: int, end: int) -> int:
        """KV tokens that fit; negative where the weights leave no room."""

    def by_stage(self, sizes: Sizes) -> Tokens:
        """`tokens` of these sizes, for who asks often."""

    def weights(self, sizes: Sizes, stage: int, first: int, end: int) -> int:
        """Bytes of weights."""

    def range(self, sizes: Sizes, partition: Partition) -> tuple[int, int] | None:
        """The pool at worst and at best, where tokens are the middle of a range."""

    @property
    def budget(self) -> int:
        """Bytes that the engine may use of a GPU."""

    @property
    def monotone(self) -> bool:
        """Does a stage with fewer of the same layers never hold fewer tokens? Not so where KV groups are padded."""


class Case(Frozen):
    """All that a search depends on. Equal cases have equal answers, so that nodes of one kind are searched once."""

    wiring: Wiring
    gpus: tuple[int, ...]
    """Healthy GPUs that the service may use."""
    model: Architecture
    widths: Widths = Widths()
    cuts: Cuts
    objective: Objective = "latency"
    max_model_len: int
    engine: Engine | None = None
    version: str
    speculative: str | None = None
    """The method, where one is asked for by name; it must run. None: auto or none."""
    drafts: int = 0
    """Tokens drafted a step where the draft is a layer of the model (MTP)."""
    bandwidth: int | None = None
    """Memory bandwidth of a GPU in bytes a second."""
    active_bytes: int | None = None
    """Bytes of weights that one token reads, over all ranks of one replica; None where the ledger cannot tell."""
    prefill_tokens_per_s: float | None = None

    @property
    def request(self) -> int:
        """Tokens of one request at the service's length."""
        return self.objective.context if isinstance(self.objective, Target) else self.max_model_len

    @cached_property
    def shape(self) -> Shape:
        """What decides the traffic."""
        layers = self.model.layers
        routed = max(layers - self.widths.dense_layers, 0) if self.widths.experts else 0
        return Shape(layers=layers, hidden_size=self.widths.hidden or 1, moe_layers=routed, draft_steps=self.drafts)


class Candidate(Frozen):
    """One layout, judged. `problem`: why it cannot be used; it may still have figures.

    `doubt`: it holds only where memory turns out better than the middle of what is estimated.
    """

    sizes: Sizes
    partition: Partition
    """Layers of each stage, also for one stage."""
    order: tuple[int, ...]
    traffic: Traffic
    """Of one step of one request."""
    pool: int | None = None
    """KV tokens of one replica; None where memory is unknown or no partition fits."""
    weights: tuple[int, ...] = ()
    """Bytes on a rank of each stage."""
    step_s: float | None = None
    """Relative cost of one step of one request: reading the weights and talking. For ranking only."""
    problem: str | None = None
    doubt: str | None = None

    def __str__(self) -> str:
        text = str(self.sizes)
        return f"{text} {','.join(map(str, self.partition))}" if self.sizes.pp > 1 else text

    def resident(self, request: int) -> int:
        """Requests of that many tokens that stay resident over all replicas."""
        return (self.pool or 0) // request * self.sizes.dp


def draft_weight(layers: int, drafts: int, stages: int) -> Callable[[int, int, int], int]:
    """Compute of a stage in layers; the draft layer runs `drafts` times on the last stage."""
    return lambda stage, first, end: end - first + (drafts if stage == stages - 1 else 0)


def candidates(case: Case, memory: Memory | None) -> tuple[Candidate, ...]:
    """Every TP x PP, each with as many replicas as fit and its best partition, in order of size."""
    return tuple(_judged(case, memory, sizes) for sizes in every_sizes(len(case.gpus)))


def _judged(case: Case, memory: Memory | None, sizes: Sizes) -> Candidate:
    even = even_partition(case.model.layers, min(sizes.pp, case.model.layers))
    against = [*problems(sizes, case.model, case.widths)]
    wrong = speculation_problem(sizes.pp, case.speculative, case.engine, case.version)
    against += [wrong] if wrong else []
    if memory and not against:
        refused = memory.refusal(sizes)
        against += [refused] if refused else []
    if against:
        return Candidate(sizes=sizes, partition=even, order=(), traffic=Traffic(tokens=1), problem="; ".join(against))
    partition = best_cut(case, memory, sizes)
    return candidate(case, memory, sizes, partition or even)


def best_cut(case: Case, memory: Memory | None, sizes: Sizes) -> Partition | None:
    """The partition with the largest pool that the rules allow; without a ledger the most even one.

    None: there is none, or no partition could hold the weights, which are more than all stages together may use.
    """
    layers, stages = case.model.layers, sizes.pp
    few = case.cuts.only(stages)
    if memory and memory.weights(sizes, 0, 0, layers) > stages * memory.budget:
        return None
    enough = None
    if isinstance(case.objective, Target):
        enough = -(-case.objective.concurrent // sizes.dp) * case.objective.context

    tokens: Tokens = memory.by_stage(sizes) if memory else lambda stage, first, end: 0
    if few is not None:
        return max(few, key=lambda cut: pool_of(cut, tokens), default=None)

    def allowed(layer: int) -> bool:
        return stages != 2 or case.cuts.problem((layer, layers - layer)) is None

    def cut(may_start: Callable[[int], bool]) -> Partition | None:
        weight = draft_weight(layers, case.drafts, stages)
        return best_partition(layers, stages, tokens, weight, may_start, enough, memory is None or memory.monotone)

    aligned = cut(lambda layer: case.cuts.may_start(layer) and allowed(layer))
    if not case.cuts.repairable or stages != 2 or memory is None:
        return aligned
    free = cut(allowed)
    if aligned is None or free is None:
        return aligned or free
    least = (1 - case.cuts.max_pool_loss) * pool_of(free, tokens)
    return aligned if pool_of(aligned, tokens) >= least else free


def pool_of(partition: Partition, tokens: Callable[[int, int, int], int]) -> int:
    """The smallest of all stages."""
    ends = [sum(partition[: at + 1]) for at in range(len(partition))]
    return min(
        tokens(stage, end - layers, end) for stage, (layers, end) in enumerate(zip(partition, ends, strict=True))
    )


def candidate(case: Case, memory: Memory | None, sizes: Sizes, partition: Partition) -> Candidate:
    """One layout with its figures, and what stands against it; its sizes are legal."""
    order = device_order(case.wiring, case.gpus, sizes.tp, sizes.pp, sizes.dp)
    sent = traffic(case.wiring, order, (sizes.tp, sizes.pp, sizes.dp), case.shape, 1 + case.drafts)
    pool: int | None = None
    weights: tuple[int, ...] = ()
    if memory:
        stages = tuple(enumerate(stages_of(partition)))
        pool = min(memory.tokens(sizes, stage, *cut) for stage, cut in stages)
        weights = tuple(memory.weights(sizes, stage, *cut) for stage, cut in stages)
    read = case.active_bytes / sizes.tp / case.bandwidth if case.active_bytes and case.bandwidth else None
    found = Candidate(
        sizes=sizes,
        partition=partition,
        order=order,
        traffic=sent,
        pool=pool,
        weights=weights,
        step_s=sent.seconds + read if read is not None else None,
    )
    short = _does_not_hold(case, memory, found)
    if memory and max(weights) > memory.budget:
        return found.model_copy(update={"problem": short})
    problem = case.cuts.problem(partition) or _too_slow(case, found, read)
    if short and memory:
        at_best = memory.range(sizes, partition)
        if at_best and at_best[1] >= case.request:
            return found.model_copy(update={"problem": problem, "doubt": f"{short} (at best {at_best[1]:,})"})
    return found.model_copy(update={"problem": problem or short})


def _does_not_hold(case: Case, memory: Memory | None, found: Candidate) -> str | None:
    if memory is None or found.pool is None:
        return None
    heaviest = max(found.weights)
    where = f" on stage {found.weights.index(heaviest)}" if found.sizes.pp > 1 else ""
    if heaviest > memory.budget:
        return f"weights {heaviest / GIB:.1f} GiB{where} exceed {memory.budget / GIB:.1f}"
    if found.pool <= 0:
        beside = "and what the engine needs beside them"
        return f"weights {heaviest / GIB:.1f} GiB{where} {beside} exceed {memory.budget / GIB:.1f}"
    if found.pool < case.request:
        return f"a pool of {found.pool:,} tokens is less than one request of {case.request:,}"
    return None


def _too_slow(case: Case, found: Candidate, read_s: float | None) -> str | None:
    """What arithmetic alone rules out: reading the weights takes longer than the owner allows."""
    target = case.objective
    if not isinstance(target, Target):
        return None
    if target.tpot_p99_ms and read_s is not None:
        least = 1000 * read_s / (1 + case.drafts)
        if least > target.tpot_p99_ms:
            return f"reading the weights alone takes {least:.1f} ms a token, more than {target.tpot_p99_ms:g}"
    if target.ttft_p99_s and case.prefill_tokens_per_s:
        waits = -(-target.concurrent // found.sizes.dp) * target.context / case.prefill_tokens_per_s
        if waits > target.ttft_p99_s:
            return f"the last of {target.concurrent} prompts waits {waits:.0f} s, more than {target.ttft_p99_s:g}"
    return None
