"""What stored degeneration runs say of a partition: which they open, which they forbid."""

from collections.abc import Iterable

from fleet.declaration import Evidence
from fleet.layouts.boundary import Partition

TRIALS = 200
"""Degeneration trials, none bad, that open more than two stages. Operators' bar for a partition."""


def runs_of(evidence: Iterable[Evidence], model: str, engine: str) -> tuple[Evidence, ...]:
    """Runs of this model (its folder, or the folder's name) on exactly this engine version."""
    names = (model, model.rstrip("/").rpartition("/")[2])
    return tuple(run for run in evidence if run.model in names and run.engine == engine)


def matching_runs(evidence: Iterable[Evidence], model: str, engine: str, partition: Partition) -> list[Evidence]:
    """Those of this partition."""
    return [run for run in runs_of(evidence, model, engine) if run.partition == partition]


def opens(run: Evidence) -> bool:
    """Is this run enough to open what is otherwise refused?"""
    return run.trials >= TRIALS and run.bad == 0
