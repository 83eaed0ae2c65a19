"""The verdict between two configurations: every figure of both arms, its difference, its significance, a decision."""

from collections.abc import Iterator

from pydantic import Field

from fleet.frozen import Frozen
from fleet.proof.ab import answers, memory
from fleet.proof.ab.line import Arm, Line, as_number, percent_more
from fleet.proof.ab.speed import levels, loss


class Bounds(Frozen):
    """What the owner asks of the other arm, beside the control. Percent. None: it is shown and decides nothing."""

    pool_gain: float | None = None
    """The KV pool in tokens at least so much larger; negative: at most so much smaller."""
    tpot_loss: float | None = Field(default=10.0, ge=0)
    """P99 of the time per token at most so much longer, at every level."""
    ttft_loss: float | None = Field(default=None, ge=0)
    throughput_loss: float | None = Field(default=None, ge=0)


class Verdict(Frozen):
    """All figures, and whether to adopt the other arm."""

    lines: tuple[Line, ...]
    findings: tuple[str, ...] = ()
    """Predictions of either arm that were off. They decide nothing: the ledger was wrong, not the arm."""

    @property
    def adopt(self) -> bool:
        """Does every line that has a limit hold, and is there one?"""
        decided = [line.holds for line in self.lines if line.holds is not None]
        return bool(decided) and all(decided)

    @property
    def decision(self) -> str:
        """`adopt`, or `go back` and why."""
        broken = [line.name for line in self.lines if line.holds is False]
        return "adopt" if self.adopt else f"go back: {', '.join(broken) or 'nothing was decided'}"


def verdict(control: Arm, arm: Arm, bounds: Bounds) -> Verdict:
    """Compare two rows of verify.py. What is missing where a limit asks for it does not hold."""
    lines = [
        _pool(control, arm, bounds),
        memory.context(control, arm),
        *memory.memory(control, arm),
        *memory.calibration(control, arm),
        *answers.statuses(control, arm),
        answers.degeneration(control, arm),
        *answers.lengths(control, arm),
        *answers.shares(control, arm),
        *_speed(control, arm, bounds),
    ]
    return Verdict(lines=tuple(lines), findings=tuple(memory.findings(control, arm)))


def _pool(control: Arm, arm: Arm, bounds: Bounds) -> Line:
    before, now = (as_number((each.get("measured") or {}).get("kv_cache_size_tokens")) for each in (control, arm))
    limit = "-" if bounds.pool_gain is None else f"at least {bounds.pool_gain:+g} %"
    if before is None or now is None:
        told = ["unknown" if value is None else f"{value:,.0f}" for value in (before, now)]
        holds = None if bounds.pool_gain is None else False
        return Line(name="KV pool (tokens)", control=told[0], arm=told[1], limit=limit, holds=holds)
    change = percent_more(before, now)
    return Line(
        name="KV pool (tokens)",
        control=f"{before:,.0f}",
        arm=f"{now:,.0f}",
        difference=f"{change:+.1f} %",
        limit=limit,
        holds=None if bounds.pool_gain is None else change >= bounds.pool_gain,
    )


def _speed(control: Arm, arm: Arm, bounds: Bounds) -> Iterator[Line]:
    before, now = (levels(each) for each in (control, arm))
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name), now.get(name)
        for figure, limit in (("ttft_s", bounds.ttft_loss), ("tpot_s", bounds.tpot_loss)):
            for point in ("p50", "p99"):
                pair = [as_number(((each or {}).get(figure) or {}).get(point)) for each in (old, new)]
                bound = limit if point == "p99" else None
                title = f"{figure[:4].upper()} {point.upper()} at {name} (ms)"
                samples = [(each or {}).get("samples", {}).get(figure) for each in (old, new)]
                yield loss(title, pair, bound, samples, 1000)
        pair = [as_number((each or {}).get("output_tokens_per_s")) for each in (old, new)]
        samples = [(each or {}).get("samples", {}).get("e2e_s") for each in (old, new)]  # answers of one length
        yield loss(f"tokens/s at {name}", pair, bounds.throughput_loss, samples, 1, more=True)
    if not before and not now and any(each is not None for each in (bounds.ttft_loss, bounds.throughput_loss)):
        yield Line(name="speed", control="unknown", arm="unknown", limit="measured", holds=False)
