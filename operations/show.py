"""What an operator reads: gate table, changes with their differences, the result."""

import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fleet.frozen import Frozen
from fleet.releases.difference import MEANING, Change
from fleet.verdict import Verdict

if TYPE_CHECKING:
    from operations.run import Result

PASSED_WIDTH = 120
"""Characters of a line with the names of gates that passed, at most."""
STYLE = {"pass": "green", "warn": "yellow", "fail": "bold red", "waived": "magenta"}


def console(machine: bool = False) -> Console:
    """Where people read. With machine output on stdout, people read stderr."""
    stream = sys.stderr if machine else sys.stdout
    # A pipe or a log has no width: long cells must not be folded into it.
    return Console(file=stream, highlight=False, width=None if stream.isatty() else 240)


@contextmanager
def unread() -> Iterator[None]:
    """Where nobody reads any more (`| head`, a closed terminal), what is done in here is left, and the run goes on."""
    with suppress(OSError, SystemExit):  # the latter is what rich makes of a pipe that ended
        yield


def _first(names: Sequence[str]) -> str:
    """The first six, and how many more there are."""
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _names(verdicts: Iterable[Verdict]) -> str:
    return _first(sorted({f"{v.node}/{v.service}" if v.service else v.node for v in verdicts}))


Verdicts = dict[str, list[Verdict]]


def _by_gate(verdicts: Iterable[Verdict]) -> dict[str, Verdicts]:
    """Gate -> status -> verdicts, in the order of the catalogue."""
    rows: dict[str, Verdicts] = defaultdict(lambda: defaultdict(list))
    for verdict in verdicts:
        rows[verdict.gate][verdict.status].append(verdict)
    return rows


def gate_table(rows: dict[str, Verdicts]) -> Table:
    """One row a gate: how often it passed, and where it did not."""
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


def _print_passed(out: Console, gates: Sequence[str]) -> None:
    """The gates that passed wherever they were asked, by name; a row each would hide the others."""
    width = min(out.width, PASSED_WIDTH)
    names = textwrap.fill(", ".join(gates), width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    out.print(f"[green]passed everywhere[/]: {len(gates)} gates\n{names}", soft_wrap=True)


def _told(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """What did not pass, the worst first, and causes before what could not be decided for want of a fact."""
    worst_first = {"fail": 0, "waived": 1, "warn": 2}
    told = (verdict for verdict in verdicts if verdict.status != "pass")
    return told_once(sorted(told, key=lambda v: (worst_first[v.status], v.unknown)), "gate")


Told = TypeVar("Told", bound=Frozen)


def told_once(found: Iterable[Told], name: str) -> list[Told]:
    """Those that say the same of one place as one, with `FIRST and N more` in the field `name`.

    One lacking fact makes many gates fail with the same words (no layout: 22), and as many lines hide their cause.
    """
    alike: dict[Told, list[str]] = defaultdict(list)
    for one in found:
        alike[one.model_copy(update={name: ""})].append(getattr(one, name))
    return [
        one.model_copy(update={name: names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"})
        for one, names in alike.items()
    ]


def print_gates(out: Console, verdicts: Sequence[Verdict], not_asked: Sequence[str] = ()) -> None:
    """A row each gate that did not pass everywhere, the names of those that did, then what was wanted, found and helps.

    `not_asked`: gates that need a deeper look than this run takes; they are named, since nothing is known of them.
    """
    rows = _by_gate(verdicts)
    everywhere = [gate for gate, by_status in rows.items() if set(by_status) == {"pass"}]
    if len(everywhere) < len(rows):
        out.print(gate_table({gate: by_status for gate, by_status in rows.items() if gate not in everywhere}))
    _print_passed(out, everywhere)
    for verdict in _told(verdicts):
        out.print(f"[{STYLE[verdict.status]}]{verdict.status:>6}[/]  {escape(str(verdict))}", soft_wrap=True)
    counts = {status: sum(v.status == status for v in verdicts) for status in STYLE}
    out.print(", ".join(f"{number} {status}" for status, number in counts.items() if number) or "no gates")
    if not_asked:
        out.print(f"not asked: {', '.join(not_asked)} (pyinfra inventory.py gates.py asks them)", soft_wrap=True)


def print_changes(out: Console, changes: Sequence[Change], diff: bool) -> None:
    """The plan in words for every service that is not as declared, and the file differences where asked."""
    moving = [change for change in changes if change.kind != "none"]
    out.print(f"\n[bold]Plan[/]: {len(moving)} to change, {len(changes) - len(moving)} as declared")
    for change in moving:
        out.print(f"  [bold]{escape(change.node)}/{escape(change.service)}[/]: {change.kind} ({MEANING[change.kind]})")
        for word in change.words:
            out.print(f"      {escape(word)}")
        if diff:
            for word in change.capacity:
                out.print(f"      predicted {escape(word)}", soft_wrap=True)
            for file in change.files:
                _print_diff(out, file.lines())


def print_support(out: Console, outdated: Mapping[str, Sequence[str]]) -> None:
    """Node -> files of this project's own, no service's, that this run brings up to date there."""
    nodes: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for node, paths in sorted(outdated.items()):
        nodes[tuple(paths)].append(node)
    for paths, names in nodes.items():
        out.print(f"  {_first(names)}: own files brought up to date: {', '.join(paths)}", markup=False, soft_wrap=True)


def _print_diff(out: Console, lines: list[str]) -> None:
    if out.is_terminal:
        from rich.syntax import Syntax  # it brings Pygments, which a run without a difference does not need

        out.print(Syntax("\n".join(lines), "diff", background_color="default"))
        return
    out.file.write("".join(f"{line}\n" for line in lines))  # as it is: never folded, and 0.1 ms a line less


PROOF_WIDTH = 24
"""Characters that the last column gets at least, however narrow the terminal is."""

Row = Sequence[str | Text]


def print_table(out: Console, title: str, names: Sequence[str], rows: Iterable[Row]) -> None:
    """Rows under a title. Where the terminal is too narrow, the last column folds; nothing is ever left out.

    A terminal that is narrower still folds the lines itself.
    """
    rows = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max(cell_len(name), *(row[at].cell_len for row in rows), 0) for at, name in enumerate(names)]
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name, width in zip(names[:-1], widths[:-1], strict=True):
        table.add_column(name, min_width=width, no_wrap=True)
    table.add_column(names[-1], overflow="fold")
    for row in rows:
        table.add_row(*row)
    terminal, needed = out.width, sum(widths[:-1]) + 2 * (len(names) - 1) + min(widths[-1], PROOF_WIDTH)
    out.width = max(terminal, needed)
    out.print(table)
    out.width = terminal


def print_outcome(out: Console, rows: "Iterable[Result]", title: str) -> None:
    """What became of every service. A terminal cuts a proof, a log has it whole, as a reason why there is none."""
    names = ("node", "service", "layout", "partition", "release", "endpoint", "status", "proof")
    cut = out.is_terminal
    cells = [
        (
            *(getattr(row, name) for name in names[:-2]),
            Text(row.status, style="green" if row.good else "bold red"),
            Text(row.proof, no_wrap=cut and row.good, overflow="ellipsis" if cut and row.good else "fold"),
        )
        for row in rows
    ]
    print_table(out, title, names, cells)
