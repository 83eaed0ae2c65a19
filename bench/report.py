"""Medians, ratios to this project, and what is to be reached; as a table for people and as JSON."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Literal, NamedTuple, get_args

from rich.table import Table

from bench.contestants import PHASES, Contestant, Phase

Figure = Literal["wall_s", "cpu_s"]


class Record(NamedTuple):
    """One measured run. Times in seconds; `busy_before`: share of the machine that was in use just before."""

    hosts: int
    contestant: str
    phase: Phase
    run: int
    wall_s: float
    cpu_s: float
    hosts_cpu_s: float
    busy_before: float


class Figures(NamedTuple):
    """Medians of one contestant in one phase."""

    wall_s: float
    cpu_s: float
    hosts_cpu_s: float
    runs: int


class Goal(NamedTuple):
    """A bound on `other / ours` (at least) or `ours / other` (at most) in some phases."""

    other: str
    figures: tuple[Figure, ...]
    phases: tuple[Phase, ...]
    bound: float
    at_least: bool


GOALS = (
    Goal("ansible", ("wall_s", "cpu_s"), ("same", "dry"), 30, at_least=True),
    Goal("mitogen", ("wall_s", "cpu_s"), ("same", "dry"), 10, at_least=True),
    Goal("floor", ("wall_s",), ("same", "dry"), 1.3, at_least=False),
    Goal("floor", ("wall_s",), ("first",), 1.5, at_least=False),
)
"""What this project is to reach at 60 hosts."""


def medians(records: Iterable[Record]) -> dict[tuple[int, str, Phase], Figures]:
    """(hosts, contestant, phase) -> medians over its runs."""
    groups: dict[tuple[int, str, Phase], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.hosts, record.contestant, record.phase].append(record)
    return {
        key: Figures(*(median(getattr(run, name) for run in runs) for name in Figures._fields[:3]), len(runs))
        for key, runs in groups.items()
    }


def ratio(figures: dict[tuple[int, str, Phase], Figures], hosts: int, other: str, phase: Phase, name: Figure) -> float:
    """The other's figure divided by ours. KeyError where one of both was not measured."""
    theirs, ours = figures[hosts, other, phase], figures[hosts, "ours", phase]
    return float(getattr(theirs, name) / getattr(ours, name))


def table(records: Sequence[Record], hosts: int, phase: Phase, rows: dict[str, Contestant]) -> Table:
    """One row a contestant: wall time, CPU of controller and hosts; the first two also as times of ours."""
    figures = medians(records)
    shown = Table(title=f"{hosts} hosts, {PHASES[phase]}", title_justify="left", box=None, pad_edge=False)
    shown.add_column("")
    for name in ("wall s", "CPU s", "x wall", "x CPU", "hosts' CPU s", "runs"):
        shown.add_column(name, justify="right")
    for name, row in rows.items():
        found = figures.get((hosts, name, phase))
        if found is None:
            continue
        ours = (hosts, "ours", phase) in figures
        times = [f"{ratio(figures, hosts, name, phase, f):.2f}" if ours else "-" for f in get_args(Figure)]
        cells = (f"{found.wall_s:.2f}", f"{found.cpu_s:.2f}", *times, f"{found.hosts_cpu_s:.2f}", str(found.runs))
        shown.add_row(row.title, *cells)
    return shown


def goals(records: Sequence[Record], hosts: int) -> list[tuple[str, bool]]:
    """Each goal that these records can tell, in words, and whether it is reached."""
    figures = medians(records)
    told = []
    for goal in GOALS:
        for phase in goal.phases:
            if any((hosts, name, phase) not in figures for name in ("ours", goal.other)):
                continue
            for figure in goal.figures:
                value = ratio(figures, hosts, goal.other, phase, figure)
                value = value if goal.at_least else 1 / value
                reached = value >= goal.bound if goal.at_least else value <= goal.bound
                what = f"{goal.other} / ours" if goal.at_least else f"ours / {goal.other}"
                wanted = f"want {'at least' if goal.at_least else 'at most'} {goal.bound:g}"
                told.append((f"{PHASES[phase]}, {figure.removesuffix('_s')}, {what}: {value:.2f} ({wanted})", reached))
    return told
