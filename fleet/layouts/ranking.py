"""Which of the layouts that hold is the best, by what the service is for; and why each of the others is not."""

from collections.abc import Callable
from typing import Any

from fleet.frozen import Frozen
from fleet.layouts.objective import Target
from fleet.layouts.search import Candidate, Case, Memory, candidates
from fleet.layouts.wiring import LINK_CLASSES

ROOM = 4
"""Requests of full length for each stage with which an instance counts as roomy (a rule of thumb: `max_num_seqs` of at
least 4 x PP keeps a pipeline full)."""
NEAR = 1.1
"""Costs, and pools, that differ by less than this factor count as equal: the estimates are no better than that."""


class Rejected(Frozen):
    """A layout that was not chosen, and why."""

    candidate: Candidate
    reason: str

    @property
    def name(self) -> str:
        """The layout; without its replicas where one alone cannot be, for then no number of them can."""
        one = self.candidate
        alone = one.sizes.model_copy(update={"dp": 1})
        return str(one.model_copy(update={"sizes": alone}) if one.problem else one)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class Choice(Frozen):
    """The best layout of a case, or None where none can be; all others with their reasons, the best of them first."""

    best: Candidate | None
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...] = ()

    @property
    def why_none(self) -> str:
        """What stands against the best of them, one for each kind of reason; of those that divide, if any do."""
        near = tuple(one for one in self.rejected if one.candidate.order) or self.rejected
        return "; ".join(map(str, telling(near, most=3, each=1))) or "no GPU"


def telling(rejected: tuple[Rejected, ...], most: int, each: int) -> tuple[Rejected, ...]:
    """The first of them, but no more than `each` that fail for the same kind of reason, whatever its numbers."""
    told: list[Rejected] = []
    kinds: list[str] = []
    for one in rejected:
        kind = "".join(letter for letter in one.reason if letter.isalpha())
        if kinds.count(kind) < each:
            told.append(one)
            kinds.append(kind)
    return tuple(told[:most])


Key = tuple[Any, ...]
Reason = Callable[[Candidate, Candidate], str]


def choose(case: Case, memory: Memory | None, unknown: str = "") -> Choice:
    """The best layout for the case's objective. `unknown`: why there is no ledger.

    Without a ledger only layouts are considered that spread the model over as many GPUs as any: whether a smaller
    instance would hold it is not known.
    """
    found = candidates(case, memory)
    usable = [one for one in found if one.problem is None]
    notes = []
    if memory is None and usable:
        widest = max(one.sizes.instance for one in usable)
        small = f"memory is unknown ({unknown}), and fewer GPUs an instance may not hold the model"
        found = tuple(
            one.model_copy(update={"problem": small}) if one.problem is None and one.sizes.instance < widest else one
            for one in found
        )
        usable = [one for one in found if one.problem is None]
        notes.append(f"memory is unknown ({unknown}): chosen by rules alone, over as many GPUs as the model divides by")
    sure = [one for one in usable if not one.doubt]
    if sure:
        found = tuple(one.model_copy(update={"problem": one.problem or one.doubt}) for one in found)
        usable = sure
    elif usable:
        notes.append("every layout that may hold does so only where memory turns out better than estimated")
    ranked, differs = _ranked(case, usable)
    best = ranked[0] if ranked else None
    losers = [Rejected(candidate=one, reason=differs(one, best)) for one in ranked[1:] if best]
    others = [Rejected(candidate=one, reason=one.problem or "") for one in found if one.problem]
    others.sort(key=lambda one: _nearness(case, one.candidate))
    return Choice(best=best, rejected=(*losers, *others), notes=tuple(notes))


def _nearness(case: Case, one: Candidate) -> Key:
    """Of the layouts that cannot be: those that divide, then those that leave no GPU idle, then the roomiest first."""
    room = one.pool if one.pool is not None else -(1 << 62)
    return (not one.order, len(case.gpus) - one.sizes.ranks, -room, one.sizes.pp, -one.sizes.tp)


def _ranked(case: Case, usable: list[Candidate]) -> tuple[list[Candidate], Reason]:
    """All usable layouts, the best for the objective first, and what tells two of them apart by it."""
    objective = case.objective
    if objective == "latency":
        return _quickest(usable), _slower
    if objective == "context":
        return _largest(usable), _smaller
    if isinstance(objective, Target):
        met = [one for one in usable if one.pool is None or one.resident(case.request) >= objective.concurrent]
        inner = _quickest(met) if objective.tpot_p99_ms else sorted(met, key=_replicas_first(case))
        others = sorted((one for one in usable if one not in met), key=lambda one: _fullest(case, one))
        return [*inner, *others], _target_reason(case, objective, bool(met))
    roomy = [one for one in usable if _roomy(case, one)]
    others = sorted((one for one in usable if one not in roomy), key=lambda one: _fullest(case, one))
    reason = _throughput_reason(case) if roomy else _fewer(case)
    return [*sorted(roomy, key=_replicas_first(case)), *others], reason


def _quickest(usable: list[Candidate]) -> list[Candidate]:
    """By the cost of a step; of those that are nearly as quick as the quickest the one with the largest pool."""
    ordered = sorted(usable, key=_by_step)
    if ordered and ordered[0].step_s is not None:
        near = [one for one in ordered if (one.step_s or 0) <= ordered[0].step_s * NEAR]
        best = max(near, key=lambda one: one.resident(1))
        ordered = [best, *(one for one in ordered if one is not best)]
    return ordered


def _largest(usable: list[Candidate]) -> list[Candidate]:
    """By the pool; of those that are nearly as large as the largest the quickest."""
    ordered = sorted(usable, key=lambda one: (-(one.pool or 0), *_by_step(one)))
    if ordered:
        near = [one for one in ordered if (one.pool or 0) * NEAR >= (ordered[0].pool or 0)]
        best = min(near, key=_by_step)
        ordered = [best, *(one for one in ordered if one is not best)]
    return ordered


def _fullest(case: Case, one: Candidate) -> Key:
    """Little room: the most requests at work, which in a pipeline are never more than keep its stages busy."""
    mine = (one.pool or 0) // case.request
    return (-mine * one.sizes.dp * min(1.0, mine / one.sizes.pp), *_by_step(one))


def _roomy(case: Case, one: Candidate) -> bool:
    return one.pool is None or one.pool // case.request >= ROOM * one.sizes.pp


def _by_step(one: Candidate) -> Key:
    """One request's speed: the cost of a step. Where the weights' part of it is unknown: TP that stays off the links
    between processors, then few stages, then little traffic."""
    if one.step_s is not None:
        return (one.step_s, one.sizes.ranks, one.sizes.pp)
    return (
        any(load.link == "socket" and load.operations > 1 for load in one.traffic.loads),
        one.sizes.pp,
        one.traffic.seconds,
    )


def _crossing(case: Case, one: Candidate) -> int:
    """0 where every TP group has NVLink throughout (or is one GPU), else the class of its slowest link."""
    groups = [one.order[at : at + one.sizes.tp] for at in range(0, len(one.order), one.sizes.tp)]
    return max((LINK_CLASSES.index(case.wiring.slowest(group) or "nvlink") for group in groups), default=0)


def _exchange(case: Case, one: Candidate) -> int:
    """With experts, DP ranks talk in every layer: then the slowest link of all of them counts."""
    if one.sizes.dp == 1 or not case.widths.experts:
        return 0
    return LINK_CLASSES.index(case.wiring.slowest(one.order) or "nvlink")


def _replicas_first(case: Case) -> Callable[[Candidate], Key]:
    """Many requests: TP only over NVLink, many replicas, no idle GPU, few stages, little traffic."""
    return lambda one: (
        max(_crossing(case, one), _exchange(case, one)),
        -one.sizes.dp,
        -one.sizes.ranks,
        one.sizes.pp,
        one.traffic.seconds,
    )


def _slower(one: Candidate, best: Candidate) -> str:
    if one.step_s is not None and best.step_s and one.step_s <= best.step_s * NEAR and one.pool is not None:
        return f"latency: about as quick, and its pool is {one.resident(1):,} tokens instead of {best.resident(1):,}"
    if one.step_s is not None and best.step_s:
        return f"latency: {one.step_s / best.step_s:.2f} times the cost of a step ({one.traffic})"
    if one.sizes.pp != best.sizes.pp:
        return f"latency: {one.sizes.pp} stages one after the other instead of {best.sizes.pp}"
    return f"latency: sends {one.traffic}, the chosen one {best.traffic}"


def _smaller(one: Candidate, best: Candidate) -> str:
    if one.pool is None or best.pool is None or one.pool == best.pool:
        return _slower(one, best)
    if one.pool > best.pool and one.step_s and best.step_s:
        return f"context: {one.pool / best.pool - 1:.1%} more pool for {one.step_s / best.step_s:.2f} times the step"
    return f"context: a pool of {one.pool:,} tokens instead of {best.pool:,}"


def _fewer(case: Case) -> Reason:
    def reason(one: Candidate, best: Candidate) -> str:
        mine, its = one.resident(case.request), best.resident(case.request)
        if mine > its or (mine == its and one.sizes.pp > best.sizes.pp):
            return f"throughput: {mine} requests of {case.request:,} tokens do not keep {one.sizes.pp} stages busy"
        if mine < its:
            return f"throughput: keeps {mine} requests of {case.request:,} tokens instead of {its}"
        return _slower(one, best)

    return reason


def _throughput_reason(case: Case) -> Reason:
    def reason(one: Candidate, best: Candidate) -> str:
        if not _roomy(case, one) and _roomy(case, best):
            need = ROOM * one.sizes.pp
            return f"throughput: an instance keeps {(one.pool or 0) // case.request} requests, fewer than {need}"
        return _rule(case, one, best)

    return reason


def _target_reason(case: Case, target: Target, met: bool) -> Reason:
    def reason(one: Candidate, best: Candidate) -> str:
        mine = one.resident(case.request)
        if one.pool is not None and (mine < target.concurrent or not met):
            return f"target: keeps {mine} of {target.concurrent} requests of {case.request:,} tokens"
        return _slower(one, best) if target.tpot_p99_ms else _rule(case, one, best)

    return reason


def _rule(case: Case, one: Candidate, best: Candidate) -> str:
    mine, its = max(_crossing(case, one), _exchange(case, one)), max(_crossing(case, best), _exchange(case, best))
    if mine != its:
        what = "a TP group" if _crossing(case, one) == mine else "its DP ranks"
        return f"throughput: {what} would talk over {LINK_CLASSES[mine]} links"
    if one.sizes.dp != best.sizes.dp:
        return f"throughput: {one.sizes.dp} replica{'s' * (one.sizes.dp > 1)} instead of {best.sizes.dp}"
    if one.sizes.ranks < best.sizes.ranks:
        return f"throughput: uses {one.sizes.ranks} GPUs instead of {best.sizes.ranks}"
    if one.sizes.pp != best.sizes.pp:
        return f"throughput: {one.sizes.pp} stages where TP needs {best.sizes.pp}"
    return f"throughput: sends {one.traffic}, the chosen one {best.traffic}"
