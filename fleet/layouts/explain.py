"""A layout and why it is that one: what it holds, what else there was, and what was left alone."""

from fleet.frozen import Frozen
from fleet.layouts.boundary import Partition, even_partition, orphans
from fleet.layouts.capacity import Capacity, capacity, wrong_cut
from fleet.layouts.dimensions import Unused, unused
from fleet.layouts.legality import problems
from fleet.layouts.objective import Target
from fleet.layouts.question import Question
from fleet.layouts.ranking import Choice, Rejected
from fleet.layouts.search import Candidate, candidate
from fleet.layouts.sizes import Sizes

ANSWER = 256
"""Tokens of an answer, where nothing else is said."""
CUTS = 4
"""Other partitions of the chosen sizes that are told."""


class Request(Frozen):
    """A request in tokens, and how many of them stay resident on the node."""

    prompt: int
    answer: int
    resident: int | None = None
    prefill_tokens_per_s: float | None = None
    replicas: int = 1

    @property
    def tokens(self) -> int:
        """Prompt and answer."""
        return self.prompt + self.answer

    @property
    def note(self) -> str:
        """What resident does not mean."""
        many = max(self.resident or 1, 1)
        each = -(-many // self.replicas)
        text = f"{many} resident is not {many} times faster: a replica reads prompts one after the other"
        if many == 1:
            text = "prompts are read one after the other"
        if self.prefill_tokens_per_s is None:
            rate = "wall time is about prompt tokens x N / measured prefill rate"
            return f"{text}; {rate}, which is not declared (prefill_tokens_per_s)"
        seconds = self.prompt * each / self.prefill_tokens_per_s
        rate = f"{self.prefill_tokens_per_s:g} tokens/s (declared)"
        return f"{text}; {self.prompt:,} x {each} / {rate} is about {seconds:,.0f} s"


class Explanation(Frozen):
    """One service on one node. `capacity` None: memory is unknown, `unknown` says why."""

    objective: str
    declared: bool
    """By the owner; else chosen."""
    candidate: Candidate
    capacity: Capacity | None = None
    unknown: str | None = None
    request: Request
    rejected: tuple[Rejected, ...] = ()
    unused: tuple[Unused, ...] = ()
    numa: tuple[int | None, ...] = ()
    """Of each rank."""
    repaired: tuple[str, ...] = ()
    """Stages that start on a layer that shares indices, and what makes them sound."""
    balance: float = 1.0
    """Compute of the busiest stage over that of the mean one, the draft layer counted once for each drafted token."""
    notes: tuple[str, ...] = ()


class LayoutRefused(ValueError):
    """The layout that was asked about cannot be; the text says why."""


def request_of(asked: Question, prompt: int | None, answer: int) -> Request:
    """The request that capacity is told for: as asked, else the target's, else as long as the engine takes."""
    case = asked.case
    if prompt is None:
        whole = case.objective.context if isinstance(case.objective, Target) else case.max_model_len
        prompt = max(whole - answer, 1)
    return Request(prompt=prompt, answer=answer, prefill_tokens_per_s=case.prefill_tokens_per_s)


def explain(
    asked: Question,
    declared: tuple[Sizes, Partition | None] | None = None,
    order: tuple[int, ...] | None = None,
    prompt: int | None = None,
    answer: int = ANSWER,
    flags: frozenset[str] = frozenset(),
    env: frozenset[str] = frozenset(),
) -> Explanation:
    """The declared layout, or the best, with everything that is to be said of it. Raises LayoutRefused.

    `order`: a declared device order. `flags`, `env`: names that the service sets itself.
    """
    choice, memory = asked.choice(), asked.memory()
    chosen = _declared(asked, *declared, order) if declared else choice.best
    if chosen is None:
        way = "quantise the model, lower max_model_len, or use more or larger GPUs"
        raise LayoutRefused(f"no layout can be: {choice.why_none}; {way}")
    held = capacity(asked, chosen.sizes, chosen.partition)
    request = request_of(asked, prompt, answer)
    if isinstance(held, Capacity):
        request = request.model_copy(update={"resident": held.resident(request.tokens), "replicas": chosen.sizes.dp})
    others = _others(choice, chosen)
    return Explanation(
        objective=str(asked.case.objective),
        declared=declared is not None,
        candidate=chosen,
        capacity=held if isinstance(held, Capacity) else None,
        unknown=held if isinstance(held, str) else None,
        request=request,
        rejected=(*_other_cuts(asked, chosen), *others),
        unused=unused(asked.case, chosen.sizes, flags, env),
        numa=tuple(asked.case.wiring.numa[gpu] for gpu in chosen.order if gpu < asked.case.wiring.gpus),
        repaired=_repairs(asked, chosen.partition),
        balance=balance(chosen.partition, asked.case.drafts),
        notes=(*choice.notes, *(memory.model.notes if not isinstance(memory, str) else ())),
    )


def _declared(asked: Question, sizes: Sizes, partition: Partition | None, order: tuple[int, ...] | None) -> Candidate:
    case, memory = asked.case, asked.memory()
    against = problems(sizes, case.model, case.widths)
    if sizes.ranks > len(case.gpus):
        against = (f"{sizes.ranks} ranks for {len(case.gpus)} GPUs", *against)
    cut = partition or even_partition(case.model.layers, sizes.pp) if sizes.pp > 1 else (case.model.layers,)
    wrong = wrong_cut(case, sizes, cut) if not against else None
    refused = memory.refusal(sizes) if not isinstance(memory, str) and not against and not wrong else None
    if against or wrong or refused:
        raise LayoutRefused(f"{sizes}: {'; '.join([*against, *filter(None, (wrong, refused))])}")
    found = candidate(case, None if isinstance(memory, str) else memory, sizes, cut)
    return found.model_copy(update={"order": order}) if order else found


def _others(choice: Choice, chosen: Candidate) -> list[Rejected]:
    """All layouts but this one; where it was declared, what the search would take comes first."""
    others = list(choice.rejected)
    if choice.best is not None and choice.best.sizes != chosen.sizes:
        others.insert(0, Rejected(candidate=choice.best, reason="what auto would take for this objective"))
    return [one for one in others if one.candidate.sizes != chosen.sizes]


def _other_cuts(asked: Question, chosen: Candidate) -> list[Rejected]:
    """Other partitions of the same sizes: the engine's own, those that hold more and are refused, and the next best."""
    case, memory, sizes = asked.case, asked.memory(), chosen.sizes
    if sizes.pp == 1 or isinstance(memory, str):
        return []
    layers = case.model.layers
    cuts = {even_partition(layers, sizes.pp)}
    if sizes.pp == 2:
        cuts |= {(first, layers - first) for first in range(1, layers)}
    judged = [candidate(case, memory, sizes, cut) for cut in sorted(cuts) if cut != chosen.partition]
    judged.sort(key=lambda one: -(one.pool or 0))
    even = [one for one in judged if one.partition == even_partition(layers, sizes.pp)]
    refused = [one for one in judged if one.problem and (one.pool or 0) > (chosen.pool or 0) and one not in even]
    sound = [one for one in judged if one.problem is None and one not in even]
    told = [*even, *refused[: CUTS // 2], *sound][:CUTS]
    return [Rejected(candidate=one, reason=one.problem or _pool_words(one, chosen)) for one in told]


def _pool_words(one: Candidate, chosen: Candidate) -> str:
    if (one.pool or 0) > (chosen.pool or 0):
        return f"would hold {one.pool:,} tokens instead of {chosen.pool:,}"
    return f"holds {one.pool:,} tokens instead of {chosen.pool:,}"


def _repairs(asked: Question, partition: Partition) -> tuple[str, ...]:
    cuts = asked.case.cuts
    told = []
    for one in orphans(partition, asked.case.model):
        first = one.layers[0]
        how = "made to compute their own" if cuts.repaired else "not repaired"
        if not cuts.repaired and len(partition) == 2 and first in cuts.repairable:
            how = f"layer {first} is made to compute its own by index_topk_pattern"
        told.append(
            f"stage {one.stage}: layers {', '.join(map(str, one.layers))} share layer {one.source}'s indices, {how}"
        )
    return tuple(told)


def balance(partition: Partition, drafts: int) -> float:
    """Compute of the busiest stage over the mean, in layers; the draft layer counts `drafts` times, on the last."""
    loads = [*partition[:-1], partition[-1] + drafts]
    return max(loads) * len(loads) / sum(loads)
