"""What a layout is chosen for: one request's speed, many requests, long context, or a target that the owner sets."""

from typing import Annotated, Literal

from pydantic import Field

from fleet.frozen import Frozen

Positive = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(strict=True, ge=1)]


class Target(Frozen):
    """What a service must be able to do. `context` and `concurrent`: so many requests of so many tokens stay resident.

    The limits are the owner's; whether they are kept is measured, not predicted. A layout is ruled out only where
    arithmetic shows that it cannot keep them.
    """

    context: PositiveCount
    """Tokens of a request, prompt and answer."""
    concurrent: PositiveCount = 1
    """Requests of that length that stay resident on the node at once."""
    ttft_p99_s: Positive | None = None
    """Time to first token, P99, seconds, when `concurrent` prompts of `context` tokens arrive at once."""
    tpot_p99_ms: Positive | None = None
    """Time per output token, P99, milliseconds."""

    def __str__(self) -> str:
        limits = [f"TTFT {self.ttft_p99_s:g} s"] if self.ttft_p99_s else []
        limits += [f"TPOT {self.tpot_p99_ms:g} ms"] if self.tpot_p99_ms else []
        return f"{self.concurrent} requests of {self.context:,} tokens" + (f", {', '.join(limits)}" if limits else "")


Goal = Literal["latency", "throughput", "context"]
Objective = Target | Goal
