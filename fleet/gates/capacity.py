"""Does the layout do what the service's target asks for?"""

from fleet.gate import gate
from fleet.known import Undecidable, layout_of
from fleet.layouts.capacity import capacity_of
from fleet.layouts.objective import Target
from fleet.plan import Plan
from fleet.verdict import Finding

REMEDY = "choose another layout (fleet plan {service}), more GPUs, or a target that the hardware can meet"


@gate(
    "target-requests",
    remedy=REMEDY,
    reads="objective of the service, config.json, checkpoint",
    severity="fail or warn",
    needs_facts=True,
)
def target_requests(plan: Plan) -> Finding | None:
    """Where a service has a target, so many requests of that length are predicted to stay resident.

    A prediction whose lower end falls short is a warning. Without a target nothing is asked.
    """
    target = plan.service.objective
    if not isinstance(target, Target):
        return None
    layout_of(plan)
    want = f"{target.concurrent} requests of {target.context:,} tokens resident"
    held = capacity_of(plan)
    if isinstance(held, str):
        raise Undecidable(want, f"a capacity that is unknown: {held}")
    found = held.resident(target.context)
    if found < target.concurrent:
        return Finding(want=want, got=f"{found} predicted, with a pool of {held.pool:,} tokens")
    if held.pool_range is None:
        return None
    worst = held.model_copy(update={"logged": held.pool_range[0]}).resident(target.context)
    if worst >= target.concurrent:
        return None
    return Finding(want=want, got=f"{found} predicted, but {worst} where memory is at its worst", warning=True)


@gate(
    "target-first-token",
    remedy="declare prefill_tokens_per_s of {service} as measured, more replicas, or less",
    reads="objective, prefill_tokens_per_s",
)
def target_first_token(plan: Plan) -> Finding | None:
    """A limit on the time to the first token is one that the measured prefill rate keeps when all prompts come at once.

    Prompts of one replica are read one after the other, so the last of N waits for all of them.
    """
    target, rate = plan.service.objective, plan.service.prefill_tokens_per_s
    if not isinstance(target, Target) or target.ttft_p99_s is None:
        return None
    want = f"the first token of {target.concurrent} prompts of {target.context:,} tokens within {target.ttft_p99_s:g} s"
    if rate is None:
        raise Undecidable(want, "no measured prefill rate")
    waits = -(-target.concurrent // layout_of(plan).dp) * target.context / rate
    if waits <= target.ttft_p99_s:
        return None
    return Finding(want=want, got=f"{waits:,.0f} s for the last, at {rate:g} tokens/s a replica")
