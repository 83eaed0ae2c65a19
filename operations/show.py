"""What an operator reads: gate table, changes with their differences, the result."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from fleet.difference import MEANING, Change
from fleet.verdict import Verdict

STYLE = {"pass": "green", "warn": "yellow", "fail": "bold red", "waived": "magenta"}


def console(machine: bool = False) -> Console:
    """Where people read. With machine output on stdout, people read stderr."""
    stream = sys.stderr if machine else sys.stdout
    # A pipe or a log has no width: long cells must not be folded into it.
    return Console(file=stream, highlight=False, width=None if stream.isatty() else 240)


def _names(verdicts: Iterable[Verdict]) -> str:
    names = sorted({f"{v.node}/{v.service}" if v.service else v.node for v in verdicts})
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def gate_table(verdicts: Sequence[Verdict]) -> Table:
    """One row a gate: how often it passed, and where it did not."""
    rows: dict[str, dict[str, list[Verdict]]] = defaultdict(lambda: defaultdict(list))
    for verdict in verdicts:
        rows[verdict.gate][verdict.status].append(verdict)
    table = Table("gate", "pass", "not passed", title="Gates", title_justify="left", box=None, pad_edge=False)
    for gate, by_status in rows.items():
        others = [
            f"[{STYLE[status]}]{status}[/] {escape(_names(by_status[status]))}"
            for status in ("fail", "waived", "warn")
            if by_status[status]
        ]
        passed = len(by_status["pass"])
        table.add_row(gate, f"[green]{passed}[/]" if passed else "-", "; ".join(others) or "")
    return table


def print_gates(out: Console, verdicts: Sequence[Verdict]) -> None:
    """The whole table, then each verdict that is not a pass with what was wanted, found, and the remedy."""
    out.print(gate_table(verdicts))
    worst_first = {"fail": 0, "waived": 1, "warn": 2}
    for verdict in sorted((v for v in verdicts if v.status != "pass"), key=lambda v: worst_first[v.status]):
        out.print(f"[{STYLE[verdict.status]}]{verdict.status:>6}[/]  {escape(str(verdict))}", soft_wrap=True)
    counts = {status: sum(v.status == status for v in verdicts) for status in STYLE}
    out.print(", ".join(f"{number} {status}" for status, number in counts.items() if number) or "no gates")


def print_changes(out: Console, changes: Sequence[Change], diff: bool) -> None:
    """The plan in words for every service that is not as declared, and the file differences where asked."""
    moving = [change for change in changes if change.kind != "none"]
    out.print(f"\n[bold]Plan[/]: {len(moving)} to change, {len(changes) - len(moving)} as declared")
    for change in moving:
        out.print(f"  [bold]{escape(change.node)}/{escape(change.service)}[/]: {change.kind} ({MEANING[change.kind]})")
        for word in change.words:
            out.print(f"      {escape(word)}")
        if diff:
            for file in change.files:
                _print_diff(out, file.lines())


def _print_diff(out: Console, lines: list[str]) -> None:
    if out.is_terminal:
        out.print(Syntax("\n".join(lines), "diff", background_color="default"))
        return
    for line in lines:
        out.print(line, markup=False)


def result_table(rows: Sequence[dict[str, str]], title: str) -> Table:
    """Rows with the same keys, in the order of the first. Where the terminal is too narrow, the last column folds."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    names = list(rows[0]) if rows else []
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name != names[-1])
    for row in rows:
        table.add_row(*(escape(value) for value in row.values()))
    return table
