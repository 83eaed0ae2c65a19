"""What a decided layout holds: the ledger of each stage, the pool, how many requests stay resident."""

from fleet.frozen import Frozen
from fleet.layouts.question import MeasuredCut, Question
from fleet.layouts.search import Case
from fleet.layouts.sizes import Sizes
from fleet.ledger.memory import StageMemory
from fleet.ledger.serving import Repair
from fleet.plan import Plan, question


class Capacity(Frozen):
    """Predicted figures of one layout. Bytes are of one rank; tokens of one replica."""

    sizes: Sizes
    partition: tuple[int, ...]
    stages: tuple[StageMemory, ...]
    gpu_bytes: int
    """What the engine sees of a GPU."""
    limit_bytes: int
    """What it may use: the GPU times `gpu_memory_utilization`."""
    pool_range: tuple[int, int] | None = None
    """The pool at worst and at best, where the prediction is a range."""
    max_model_len: int
    block: int
    source: str
    """Where the figures come from."""
    logged: int | None = None
    """The pool that an engine with this layout logged, in tokens."""

    @property
    def pool(self) -> int:
        """KV tokens: the smallest of all stages, as the engine takes it; 0 where it does not fit."""
        return self.logged if self.logged is not None else max(0, min(stage.tokens for stage in self.stages))

    @property
    def binding_stage(self) -> int:
        """The stage that decides the pool."""
        tokens = [stage.tokens for stage in self.stages]
        return tokens.index(min(tokens))

    def resident(self, tokens: int) -> int:
        """Requests of so many tokens that stay resident over all replicas, rounded down. Each takes whole blocks."""
        return self.pool // (-(-tokens // self.block) * self.block) * self.sizes.dp

    @property
    def context(self) -> int:
        """The longest request: what the engine is told, or what the pool holds where that is less."""
        return min(self.max_model_len, self.pool)


def repair_of(plan: Plan) -> Repair:
    """Which orphaned layers compute: all where the image does it, the first where we do it, by pattern or patch."""
    if plan.service.boundary_repaired:
        return "all"
    return "none" if plan.boundary is None or not hasattr(plan.boundary, "kind") else "first"


def question_about(plan: Plan) -> Question | None:
    """The question of a plan as it was decided, repairs included; None where the model is unknown."""
    asked = question(plan.node, plan.service, plan.facts, plan.architecture, plan.evidence)
    if asked is None:
        return None
    done = repair_of(plan)
    if done == "none":  # then a cut that could be repaired is counted as it would be
        return asked
    return asked.model_copy(update={"serving": asked.serving.model_copy(update={"repair": done})})


def capacity_of(plan: Plan, measured: MeasuredCut | None = None) -> Capacity | str:
    """What the plan's layout holds, or why that is not known. `measured`: what an engine logged on another cut."""
    layout, asked = plan.layout, question_about(plan)
    if asked is not None and measured is not None:
        asked = asked.model_copy(update={"measured": measured})
    if layout is None:
        return plan.layout_error or "no layout"
    if asked is None:
        return plan.architecture_error or "the model is unknown"
    partition = layout.partition if layout.pp > 1 and layout.partition else (asked.case.model.layers,)
    return capacity(asked, Sizes(tp=layout.tp, pp=layout.pp, dp=layout.dp), partition)


def wrong_cut(case: Case, sizes: Sizes, partition: tuple[int, ...]) -> str | None:
    """Why this is no partition of the model into these stages."""
    text = ",".join(map(str, partition))
    if len(partition) != sizes.pp:
        return f"want {sizes.pp} parts for PP {sizes.pp}, found {len(partition)} ({text})"
    if min(partition) < 1:
        return f"want layers on every stage, found {text}"
    layers = case.model.layers
    return None if sum(partition) == layers else f"want {layers} layers in all, found {sum(partition)} ({text})"


def capacity(asked: Question, sizes: Sizes, partition: tuple[int, ...]) -> Capacity | str:
    """What these sizes with this cut hold, or why that is not known."""
    memory = asked.memory()
    wrong = wrong_cut(asked.case, sizes, partition)
    if wrong or isinstance(memory, str):
        return wrong or str(memory)
    refused = memory.refusal(sizes)
    if refused:
        return refused
    return Capacity(
        sizes=sizes,
        partition=partition,
        stages=memory.stages(sizes, partition),
        gpu_bytes=memory.gpu,
        limit_bytes=memory.budget,
        pool_range=memory.range(sizes, partition),
        max_model_len=asked.serving.max_model_len,
        block=memory.block(sizes),
        source=memory.source(sizes),
    )
