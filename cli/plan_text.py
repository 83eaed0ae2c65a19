"""An explanation for people: bars of memory, figures, and what else there was."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.asking import Asked
from fleet.layouts.capacity import Capacity
from fleet.layouts.explain import Explanation
from fleet.layouts.ranking import Rejected, telling
from fleet.ledger.memory import StageMemory

GIB = 2**30
BAR = 40
"""Characters for the memory of one GPU."""
OTHERS = 8
"""Layouts that are told by default."""
FILL = {"weights": ("█", "blue"), "engine": ("▓", "magenta"), "KV": ("▒", "green"), "left to others": ("·", "dim")}


def show(out: Console, asked: Asked, found: Explanation, everything: bool, by_name: bool = False) -> None:
    """The whole explanation of one service on one node. `by_name`: the layout was named on the command line."""
    chosen = found.candidate
    how = "as asked" if by_name else "as declared" if found.declared else f"chosen for {found.objective}"
    out.print(f"[bold]{escape(asked.service)} on {escape(asked.node)}[/]: [bold]{chosen}[/], {how}")
    if chosen.problem:
        out.print(f"  [bold red]refused[/]: {escape(chosen.problem)}")
    if chosen.doubt:
        out.print(f"  [yellow]doubtful[/]: {escape(chosen.doubt)}")
    for line in asked.gates:
        out.print(f"  [bold red]gate[/] {escape(line)}", soft_wrap=True)
    for note in found.notes:
        out.print(f"  note: {escape(note)}", soft_wrap=True)
    _stages(out, found)
    _figures(out, found)
    if asked.running:
        out.print(f"  runs now: {asked.running}")
    for one in asked.figures:
        out.print(f"    [yellow]finding[/] {one.finding}" if one.far else f"    {one}", soft_wrap=True)
    _rejected(out, found.rejected if everything else telling(found.rejected, OTHERS, each=2))
    out.print("\nNot used:")
    for one in found.unused:
        out.print(f"  {one.dimension}: {escape(one.why)}", soft_wrap=True)
    out.print()


def where(found: Explanation, stage: int) -> str:
    """`GPU 0,1,2,3, NUMA 0`; of replicas the first."""
    sizes, order = found.candidate.sizes, found.candidate.order
    ranks = range(stage * sizes.tp, min((stage + 1) * sizes.tp, len(order)))
    numa = sorted({"unknown" if found.numa[rank] is None else str(found.numa[rank]) for rank in ranks})
    return f"GPU {','.join(str(order[rank]) for rank in ranks)}, NUMA {','.join(numa)}"


def _stages(out: Console, found: Explanation) -> None:
    held = found.capacity
    if held is None:
        out.print(f"  memory: unknown: {escape(found.unknown or '')}", soft_wrap=True)
        for stage in range(found.candidate.sizes.pp):
            out.print(f"  stage {stage}: {where(found, stage)}")
        return
    for stage in held.stages:
        binds = " [bold]binds[/]" if len(held.stages) > 1 and stage.stage == held.binding_stage else ""
        last = stage.first + stage.layers - 1
        out.print(f"  stage {stage.stage}, layers {stage.first}-{last}, {where(found, stage.stage)}:{binds}")
        out.print(f"    {bar(stage, held)}", soft_wrap=True)
    legend = ", ".join(f"[{style}]{letter}[/] {name}" for name, (letter, style) in FILL.items())
    out.print(f"    {legend} of {held.gpu_bytes / GIB:.1f} GiB; {escape(held.source)}")


def parts(stage: StageMemory, held: Capacity) -> dict[str, int]:
    """Bytes of one rank by what they are for; the KV room is none where it does not fit."""
    kv = max(stage.available, 0)
    return {
        "weights": stage.weights,
        "engine": max(held.limit_bytes - stage.weights - stage.available, 0),
        "KV": kv,
        "left to others": held.gpu_bytes - held.limit_bytes,
    }


def bar(stage: StageMemory, held: Capacity) -> str:
    """Forty characters of memory, and the figures."""
    sizes = parts(stage, held)
    text, drawn, sofar = "", 0, 0
    for name, size in sizes.items():
        sofar += size
        upto = min(round(BAR * sofar / held.gpu_bytes), BAR) if name != "left to others" else BAR
        letter, style = FILL[name]
        text += f"[{style}]{letter * max(upto - drawn, 0)}[/]"
        drawn = max(upto, drawn)
    figures = (
        f"weights {stage.weights / GIB:.1f}, engine {sizes['engine'] / GIB:.1f}, KV {stage.available / GIB:.1f} GiB"
    )
    extra = f", {stage.indexers} indexers" if stage.indexers else ""
    extra += ", draft layer" if stage.drafts else ""
    return f"{text} {figures}: {stage.tokens:,} tokens of {stage.bytes_per_token:,.0f} bytes{extra}"


def _figures(out: Console, found: Explanation) -> None:
    held, request = found.capacity, found.request
    if held is not None:
        spread = ""
        if held.pool_range:
            spread = f" (between {held.pool_range[0]:,} and {held.pool_range[1]:,})"
        out.print(f"  pool {held.pool:,} tokens{spread}, longest request {held.context:,}")
        resident = f"{request.prompt:,} + {request.answer:,} tokens: {request.resident} stay resident"
        out.print(f"  requests of {resident}; {escape(request.note)}", soft_wrap=True)
    if found.candidate.sizes.pp > 1:
        out.print(f"  balance: the busiest stage computes {found.balance:.2f} times the mean")
    for line in found.repaired:
        out.print(f"  boundary: {escape(line)}")
    out.print(f"  a step sends {found.candidate.traffic}")


def _rejected(out: Console, rejected: tuple[Rejected, ...]) -> None:
    if not rejected:
        return
    out.print("\nOthers:")
    table = Table(show_header=False, box=None, padding=(0, 2))
    for one in rejected:
        pool = one.candidate.pool
        held = "-" if pool is None or pool < 0 else f"{pool:,} tokens"
        table.add_row(one.name, held, escape(one.reason.partition("; ")[0]))
    out.print(table)
