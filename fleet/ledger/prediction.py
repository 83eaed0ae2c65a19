"""What the ledger expects of a plan, to be shown beside what the engine reports."""

from fleet.frozen import Frozen
from fleet.layouts.sizes import Sizes
from fleet.ledger.memory import StageMemory
from fleet.plan import Plan, question


class Prediction(Frozen):
    """Memory of one rank of each stage, and the pool. Bytes and tokens. Measured: no `low` and `high`."""

    stages: tuple[StageMemory, ...]
    gpu: int
    limit: int
    """What the engine may use of `gpu`."""
    tokens: int
    low: int | None = None
    high: int | None = None
    source: str

    def __str__(self) -> str:
        between = f", {self.low:,} to {self.high:,}" if self.low is not None and self.high is not None else ""
        return f"{self.tokens:,} tokens{between} ({self.source})"


def prediction(plan: Plan) -> Prediction | None:
    """None where the ledger cannot tell: no layout, an unknown model, a kind of cache that is not modelled."""
    layout = plan.layout
    asked = question(plan.node, plan.service, plan.facts, plan.architecture, plan.evidence) if layout else None
    memory = asked.memory() if asked is not None else "unknown"
    if layout is None or plan.architecture is None or isinstance(memory, str):
        return None
    sizes, cut = Sizes(tp=layout.tp, pp=layout.pp, dp=layout.dp), layout.partition or (plan.architecture.layers,)
    if memory.refusal(sizes) is not None or len(cut) != layout.pp:
        return None
    stages = memory.stages(sizes, cut)
    low, high = memory.range(sizes, cut) or (None, None)
    return Prediction(
        stages=stages,
        gpu=memory.gpu,
        limit=memory.budget,
        tokens=min(stage.tokens for stage in stages),
        low=low,
        high=high,
        source=memory.source(sizes),
    )
