"""What a partition holds, for the question whether an aligned one costs too much."""

from collections.abc import Callable
from functools import cache

from fleet.layouts.boundary import Partition
from fleet.layouts.layout import Layout
from fleet.layouts.question import Question
from fleet.layouts.repair import Pool
from fleet.layouts.sizes import Sizes
from fleet.model.architecture import IndexSharing


def when_asked(make: Callable[[], Pool | None]) -> Pool:
    """The pool that `make` gives, made at the first question: few cuts are misaligned, and a ledger takes a while."""
    made = cache(make)

    def tokens(cut: Partition, sharing: IndexSharing) -> int | None:
        pool = made()
        return pool(cut, sharing) if pool else None

    return tokens


def predicted_pool(asked: Question | None, layout: Layout | None) -> Pool | None:
    """KV tokens of any partition of a layout, its misaligned stages repaired; None where the ledger cannot tell.

    From what is declared and the node's GPUs alone: a partition must not change because it ran.
    """
    if asked is None or layout is None:
        return None
    serving = asked.serving.model_copy(update={"repair": "first"})
    memory = asked.model_copy(update={"serving": serving, "measured": None}).memory()
    sizes = Sizes(tp=layout.tp, pp=layout.pp, dp=layout.dp)
    if isinstance(memory, str) or memory.refusal(sizes) is not None:
        return None

    def tokens(cut: Partition, _: IndexSharing) -> int | None:
        starts = [sum(cut[:stage]) for stage in range(len(cut))]
        if min(cut) < 1:
            return None
        return min(memory.tokens(sizes, stage, start, start + cut[stage]) for stage, start in enumerate(starts))

    return tokens
