"""The verdict between two configurations: every figure of both arms, its difference, its significance, a decision."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from fleet.frozen import Frozen
from fleet.proof.lengths import CHANCE, MATERIAL, lengths_of, shift
from fleet.proof.proportion import SIGNIFICANCE, Sample, degraded, differs
from fleet.proof.ranks import rank_sum

LENGTH = "answer length (tokens, P50)"
Arm = Mapping[str, Any]
"""One row of what verify.py found: release, evidence, measured."""


class Bounds(Frozen):
    """What the owner asks of the other arm, beside the control. Percent. None: it is shown and decides nothing."""

    pool_gain: float | None = None
    """The KV pool in tokens at least so much larger; negative: at most so much smaller."""
    tpot_loss: float | None = Field(default=10.0, ge=0)
    """P99 of the time per token at most so much longer, at every level."""
    ttft_loss: float | None = Field(default=None, ge=0)
    throughput_loss: float | None = Field(default=None, ge=0)


class Line(Frozen):
    """One figure of both arms. `holds` None: it decides nothing."""

    name: str
    control: str
    arm: str
    difference: str = "-"
    significance: str = "-"
    limit: str = "-"
    holds: bool | None = None


class Verdict(Frozen):
    """All figures, and whether to adopt the other arm."""

    lines: tuple[Line, ...]

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
        *_memory(control, arm),
        *_statuses(control, arm),
        _degeneration(control, arm),
        *_lengths(control, arm),
        *_shares(control, arm),
        *_speed(control, arm, bounds),
    ]
    return Verdict(lines=tuple(lines))


def _details(arm: Arm, probe: str) -> Mapping[str, Any] | None:
    for item in arm.get("evidence") or []:
        if isinstance(item, dict) and item.get("probe") == probe and isinstance(item.get("details"), dict):
            details: Mapping[str, Any] = item["details"]
            return details
    return None


def _percent(before: float, now: float) -> float:
    return (now / before - 1) * 100 if before else math.inf


def _pool(control: Arm, arm: Arm, bounds: Bounds) -> Line:
    before, now = (_number((each.get("measured") or {}).get("kv_cache_size_tokens")) for each in (control, arm))
    limit = "-" if bounds.pool_gain is None else f"at least {bounds.pool_gain:+g} %"
    if before is None or now is None:
        told = ["unknown" if value is None else f"{value:,.0f}" for value in (before, now)]
        holds = None if bounds.pool_gain is None else False
        return Line(name="KV pool (tokens)", control=told[0], arm=told[1], limit=limit, holds=holds)
    change = _percent(before, now)
    return Line(
        name="KV pool (tokens)",
        control=f"{before:,.0f}",
        arm=f"{now:,.0f}",
        difference=f"{change:+.1f} %",
        limit=limit,
        holds=None if bounds.pool_gain is None else change >= bounds.pool_gain,
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _memory(control: Arm, arm: Arm) -> Iterator[Line]:
    """Memory used on each GPU, and the tightest: the mean of eight hides one that is full."""
    before, now = (_gpus(each) for each in (control, arm))
    for index in sorted(before.keys() | now.keys()):
        told = [f"{free[index]:,.0f}" if index in free else "unknown" for free in (before, now)]
        yield Line(name=f"GPU {index} free (MiB)", control=told[0], arm=told[1], difference=_minus(before, now, index))
    if before and now:
        least = min(before.values()), min(now.values())
        yield Line(
            name="tightest GPU free (MiB)",
            control=f"{least[0]:,.0f}",
            arm=f"{least[1]:,.0f}",
            difference=f"{least[1] - least[0]:+,.0f}",
        )


def _gpus(arm: Arm) -> dict[int, float]:
    found = {}
    for gpu in arm.get("gpus") or []:
        free = _number(gpu.get("free_mib")) if isinstance(gpu, dict) else None
        if free is not None and isinstance(gpu.get("index"), int):
            found[gpu["index"]] = free
    return found


def _minus(before: dict[int, float], now: dict[int, float], index: int) -> str:
    return f"{now[index] - before[index]:+,.0f}" if index in before and index in now else "-"


def _statuses(control: Arm, arm: Arm) -> Iterator[Line]:
    """A probe that the other arm fails decides, whatever the control did."""
    told = [
        {str(item.get("probe")): str(_status(item)) for item in each.get("evidence") or [] if isinstance(item, dict)}
        for each in (control, arm)
    ]
    for probe in dict.fromkeys((*told[0], *told[1])):
        before, now = (each.get(probe, "not asked") for each in told)
        yield Line(name=f"probe {probe}", control=before, arm=now, limit="passed", holds=now == "passed")


def _status(item: Mapping[str, Any]) -> str:
    return "passed" if item.get("passed") else "degraded" if item.get("degraded") else "failed"


def _degeneration(control: Arm, arm: Arm) -> Line:
    before, now = (_sample(each) for each in (control, arm))
    name, limit = "degenerate answers", "not significantly worse, and not two bad ones beside a good control"
    if before is None or now is None:
        told = ["unknown" if each is None else str(each) for each in (before, now)]
        return Line(name=name, control=told[0], arm=told[1], limit=limit, holds=False)
    return Line(
        name=name,
        control=str(before),
        arm=str(now),
        difference=f"{(now.rate - before.rate) * 100:+.1f} points",
        significance=f"p = {differs(now.bad, now.trials, before.bad, before.trials):.3f}",
        limit=limit,
        holds=not degraded(now, before),
    )


def _lengths(control: Arm, arm: Arm) -> Iterator[Line]:
    """Answers that end later than the control's: what decays in a way that no detector knows still goes on longer."""
    before, now = (lengths_of(_details(each, "degeneration")) for each in (control, arm))
    if before is None and now is None:
        return
    limit = f"not longer by {MATERIAL - 1:.0%} or more with p < {CHANCE:g}"
    if before is None or now is None:
        told = ["unknown" if each is None else f"{each.median}" for each in (before, now)]
        yield Line(name=LENGTH, control=told[0], arm=told[1], limit=limit, holds=False)
        return
    moved = shift(now, before)
    yield Line(
        name=LENGTH,
        control=f"{moved.before}",
        arm=f"{moved.now}",
        difference=f"{_percent(moved.before, moved.now):+.1f} %",
        significance=f"p = {moved.chance:.3f}",
        limit=limit,
        holds=not moved.longer,
    )


def _sample(arm: Arm) -> Sample | None:
    details = _details(arm, "degeneration") or {}
    bad, trials = details.get("bad"), details.get("trials")
    if not isinstance(bad, int) or not isinstance(trials, int) or trials < 1 or not 0 <= bad <= trials:
        return None
    return Sample(bad=bad, trials=trials)


def _shares(control: Arm, arm: Arm) -> Iterator[Line]:
    """Needles found and items right: worse only where it is significant, by Fisher's exact test."""
    for probe, good, counted in (("needle", "found", "looked"), ("quality", "right", None)):
        pairs = []
        for each in (control, arm):
            details = _details(each, probe) or {}
            total = details.get(counted) if counted else len(details.get("items") or {})
            count = details.get(good)
            pairs.append((count, total) if isinstance(count, int) and isinstance(total, int) and total else None)
        if pairs == [None, None]:
            continue
        told = ["unknown" if pair is None else f"{pair[0]} of {pair[1]}" for pair in pairs]
        before, now = pairs
        if before is None or now is None:
            yield Line(name=f"{probe} {good}", control=told[0], arm=told[1], limit="as good", holds=False)
            continue
        chance = differs(now[1] - now[0], now[1], before[1] - before[0], before[1])
        lost = now[0] / now[1] < before[0] / before[1]
        yield Line(
            name=f"{probe} {good}",
            control=told[0],
            arm=told[1],
            difference=f"{(now[0] / now[1] - before[0] / before[1]) * 100:+.1f} points",
            significance=f"p = {chance:.3f}",
            limit="not significantly worse",
            holds=not (lost and chance < SIGNIFICANCE),
        )


def _speed(control: Arm, arm: Arm, bounds: Bounds) -> Iterator[Line]:
    before, now = (_levels(each) for each in (control, arm))
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name), now.get(name)
        for figure, limit in (("ttft_s", bounds.ttft_loss), ("tpot_s", bounds.tpot_loss)):
            for percent in ("p50", "p99"):
                pair = [_number(((each or {}).get(figure) or {}).get(percent)) for each in (old, new)]
                bound = limit if percent == "p99" else None
                title = f"{figure[:4].upper()} {percent.upper()} at {name} (ms)"
                samples = [(each or {}).get("samples", {}).get(figure) for each in (old, new)]
                yield _loss(title, pair, bound, samples, 1000)
        pair = [_number((each or {}).get("output_tokens_per_s")) for each in (old, new)]
        yield _loss(f"tokens/s at {name}", pair, bounds.throughput_loss, [None, None], 1, more=True)
    if not before and not now and any(each is not None for each in (bounds.ttft_loss, bounds.throughput_loss)):
        yield Line(name="speed", control="unknown", arm="unknown", limit="measured", holds=False)


def _levels(arm: Arm) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for level in (_details(arm, "speed") or {}).get("levels") or []:
        if isinstance(level, dict):
            rate, width = level.get("rate"), level.get("concurrency")
            found[f"{rate:g} requests/s" if isinstance(rate, int | float) else f"{width} at once"] = level
    return found


def _loss(
    name: str,
    pair: Sequence[float | None],
    bound: float | None,
    samples: Sequence[Any],
    scale: float,
    more: bool = False,
) -> Line:
    """A line of a figure of which less is better (`more`: more is), with the loss that is allowed, in percent."""
    before, now = pair
    limit = "-" if bound is None else f"at most {bound:g} % worse"
    if before is None or now is None:
        told = ["unknown" if value is None else f"{value * scale:.1f}" for value in pair]
        return Line(name=name, control=told[0], arm=told[1], limit=limit, holds=None if bound is None else False)
    change = _percent(before, now)
    loss = -change if more else change
    chance = rank_sum(*samples) if all(isinstance(each, list) and each for each in samples) else None
    return Line(
        name=name,
        control=f"{before * scale:.1f}",
        arm=f"{now * scale:.1f}",
        difference=f"{change:+.1f} %",
        significance="-" if chance is None else f"p = {chance:.3f}",
        limit=limit,
        holds=None if bound is None else loss <= bound,
    )
