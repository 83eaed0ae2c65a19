"""How fast both arms were, level by level."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleet.proof.ab.line import Arm, Line, details_of, percent_more
from fleet.proof.ranks import rank_sum


def levels(arm: Arm) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for level in (details_of(arm, "speed") or {}).get("levels") or []:
        if isinstance(level, dict):
            rate, width = level.get("rate"), level.get("concurrency")
            found[f"{rate:g} requests/s" if isinstance(rate, int | float) else f"{width} at once"] = level
    return found


def loss(
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
    change = percent_more(before, now)
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
