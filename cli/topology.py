"""`fleet topology FILE`: what a saved `nvidia-smi topo -m` says, or why it cannot be trusted."""

import json
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.machine import fail, json_option
from facts.parse.topology import TopologyError, parse_topology
from fleet.nodes.topology import SELF, Topology

MOST_BYTES = 4 * 2**20
"""A thousand GPUs and NICs are a tenth of it. A device may have no end."""


def topology(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Output of `nvidia-smi topo -m`; - reads standard input.")
    ],
    as_json: Annotated[bool, json_option("Print one JSON object instead of a table.")] = False,
) -> None:
    """Show NVLink islands and NUMA nodes of a saved topology; exit 1 where the text cannot be trusted."""
    try:
        found = parse_topology(_read(file))
    except (TopologyError, OSError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        fail(f"{file}: {reason}")
    if as_json:
        typer.echo(json.dumps(found.summary()))
    else:
        _show(found, Console())


def _read(file: str) -> str:
    """Its text; a file that PowerShell wrote is UTF-16 and begins with the mark that says so."""
    if file == "-" and sys.stdin is None:
        raise TopologyError("want a topology on standard input, found it closed")
    with nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb") as opened:
        raw = opened.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise TopologyError(f"want at most {MOST_BYTES // 2**20} MiB, found more: that is no topology")
    return raw.decode("utf-16" if raw[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8", errors="replace")


def _show(found: Topology, console: Console) -> None:
    matrix = Table("", *(f"GPU{i}" for i in range(found.gpus)), "NUMA", "CPUs", box=None)
    for i, row in enumerate(found.links):
        cells = [Text(cell, style=_style(found, i, j)) for j, cell in enumerate(row)]
        node = found.numa[i]
        matrix.add_row(f"GPU{i}", *cells, "?" if node is None else str(node), found.cpu_affinity[i] or "?")
    console.print(matrix)
    islands = ", ".join("{" + ", ".join(map(str, island)) + "}" for island in found.islands)
    console.print(f"NVLink islands: {islands or 'none'}", highlight=False)
    console.print(f"NVLink components: {len(found.components)}", highlight=False)


def _style(found: Topology, i: int, j: int) -> str:
    """Green inside an island, yellow for NVLink that leaves one, dim for the diagonal."""
    if found.links[i][j] == SELF:
        return "dim"
    if not found.nvlinked(i, j):
        return ""
    return "green" if j in (found.island_of(i) or ()) else "yellow"
