"""What both arms answered: probes passed, degenerate and long answers, needles and items."""

from collections.abc import Iterator, Mapping
from typing import Any

from fleet.proof.ab.line import Arm, Line, details_of, percent_more
from fleet.proof.lengths import CHANCE, MATERIAL, lengths_of, shift
from fleet.proof.proportion import SIGNIFICANCE, Sample, degraded, differs

LENGTH = "answer length (tokens, P50)"
COMPARED = ("degeneration", "needle", "quality")
"""Probes whose results have a line of their own that says whether the other arm is worse."""


def statuses(control: Arm, arm: Arm) -> Iterator[Line]:
    """A probe that the other arm fails decides. Where both are degraded, the line that compares them does."""
    told = [
        {str(item.get("probe")): str(_status(item)) for item in each.get("evidence") or [] if isinstance(item, dict)}
        for each in (control, arm)
    ]
    for probe in dict.fromkeys((*told[0], *told[1])):
        before, now = (each.get(probe, "not asked") for each in told)
        alike = probe in COMPARED and before == now == "degraded"
        limit = "passed, or degraded as the control is" if probe in COMPARED else "passed"
        yield Line(name=f"probe {probe}", control=before, arm=now, limit=limit, holds=now == "passed" or alike)


def _status(item: Mapping[str, Any]) -> str:
    return "passed" if item.get("passed") else "degraded" if item.get("degraded") else "failed"


def degeneration(control: Arm, arm: Arm) -> Line:
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


def lengths(control: Arm, arm: Arm) -> Iterator[Line]:
    """Answers that end later than the control's: what decays in a way that no detector knows still goes on longer."""
    before, now = (lengths_of(details_of(each, "degeneration")) for each in (control, arm))
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
        difference=f"{percent_more(moved.before, moved.now):+.1f} %",
        significance=f"p = {moved.chance:.3f}",
        limit=limit,
        holds=not moved.longer,
    )


def _sample(arm: Arm) -> Sample | None:
    details = details_of(arm, "degeneration") or {}
    bad, trials = details.get("bad"), details.get("trials")
    if not isinstance(bad, int) or not isinstance(trials, int) or trials < 1 or not 0 <= bad <= trials:
        return None
    return Sample(bad=bad, trials=trials)


def shares(control: Arm, arm: Arm) -> Iterator[Line]:
    """Needles found and items right: worse only where it is significant, by Fisher's exact test."""
    for probe, good, counted in (("needle", "found", "looked"), ("quality", "right", None)):
        pairs = []
        for each in (control, arm):
            details = details_of(each, probe) or {}
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
