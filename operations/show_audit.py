"""What an operator reads of an audit: one row a service, then each drift with its difference."""

from rich.console import Console
from rich.markup import escape

from fleet.audit import Audit
from fleet.drift import Case, Drift
from operations.show import print_table, told_once

STYLE = {"clean": "green", "drift": "bold red", "unknown": "yellow"}
DIFF_STYLE = {"+": "green", "-": "red", "@": "cyan"}
LINES = 40
"""Of a difference; the JSON and the HTML report have all."""


def print_audit(out: Console, found: Audit, checks: int) -> None:
    """The table, what was found, and a last line that says it all."""
    print_table(out, "Audit", ("node", "service", "unit", "release", "layout", "state"), _rows(found))
    for drift in told_once(sorted(found.drifts, key=lambda drift: drift.kind), "check"):  # drift, then unknown
        _print_drift(out, drift)
    _print_figures(out, found)
    gates = len({verdict.gate for verdict in found.verdicts})
    out.print(f"\n{_summary(found)}; {checks} checks and {gates} gates, nothing was changed", soft_wrap=True)


def _rows(found: Audit) -> list[tuple[str, ...]]:
    rows = []
    for name in found.nodes:
        cases = [case for case in found.cases if case.plan.node.name == name]
        rows += [_row(found, name, case) for case in cases] or [(name, "-", "-", "-", "-", _state(found, name))]
    return rows


def _row(found: Audit, node: str, case: Case) -> tuple[str, ...]:
    lies, service = case.installed, case.plan.service.name
    unit = f"{lies.unit.active} ({lies.unit.sub})" if lies and lies.unit else "no unit"
    return (node, service, unit, (lies.current if lies else None) or "-", str(case.plan.layout), _state(found, node))


def _state(found: Audit, node: str) -> str:
    drifts, state = found.of(node), found.state(node)
    names = ", ".join(dict.fromkeys(drift.check for drift in drifts))
    return f"{state}: {names}" if names else state


def _print_drift(out: Console, drift: Drift) -> None:
    style = STYLE[drift.kind]
    out.print(f"[{style}]{drift.kind:>7}[/]  {escape(str(drift))}", soft_wrap=True)
    for line in drift.diff[:LINES]:
        head = DIFF_STYLE.get(line[:1], "dim")
        out.print(f"           [{head}]{escape(line)}[/]", soft_wrap=True)
    if len(drift.diff) > LINES:
        out.print(f"           ... {len(drift.diff) - LINES} more lines", style="dim")


def _print_figures(out: Console, found: Audit) -> None:
    """Predicted beside logged: what is near enough in a line a service, and each prediction that is off."""
    for place, figures in found.figures.items():
        near = "; ".join(str(figure) for figure in figures if not figure.far)
        if near:
            out.print(f" memory  {escape(place)}: {near}", soft_wrap=True, highlight=False)
    for finding in found.findings:
        out.print(f"[yellow]finding[/]  {escape(finding)}", soft_wrap=True, highlight=False)


def _summary(found: Audit) -> str:
    drifts = sum(drift.kind == "drift" for drift in found.drifts)
    unknown = len(found.drifts) - drifts
    nodes = f"{len(found.nodes)} node{'s' if len(found.nodes) != 1 else ''}"
    if not found.drifts:
        return f"[green]No drift[/] on {nodes}"
    told = [f"[bold red]{drifts} drift[/]"] if drifts else []
    told += [f"[yellow]{unknown} could not be told[/]"] if unknown else []
    return f"{', '.join(told)} on {nodes}"
