"""A line of the verdict: one figure of both arms, and what it was made from."""

import math
from collections.abc import Mapping
from typing import Any

from fleet.frozen import Frozen

Arm = Mapping[str, Any]
"""One row of what verify.py found: release, evidence, measured."""


class Line(Frozen):
    """One figure of both arms. `holds` None: it decides nothing."""

    name: str
    control: str
    arm: str
    difference: str = "-"
    significance: str = "-"
    limit: str = "-"
    holds: bool | None = None


def details_of(arm: Arm, probe: str) -> Mapping[str, Any] | None:
    """The details of a probe's evidence; None where it was not asked."""
    for item in arm.get("evidence") or []:
        if isinstance(item, dict) and item.get("probe") == probe and isinstance(item.get("details"), dict):
            found: Mapping[str, Any] = item["details"]
            return found
    return None


def percent_more(before: float, now: float) -> float:
    """How much more it is now, in percent."""
    return (now / before - 1) * 100 if before else math.inf


def as_number(value: object) -> float | None:
    """A finite number, also where it was written as text; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
