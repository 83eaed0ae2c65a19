"""`nvidia-smi topo -m` (and what AMD and Ascend print in its place) -> Topology, or TopologyError.

A wrong topology cuts a model across the wrong GPUs, so a text is understood whole or refused: rows or cells that
are missing, cells that disagree, labels nobody knows, complaints between the rows. What touches only NICs is
forgiven (glued or overwritten cells, rows left out), and a NUMA node that is not certain is None.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from facts.parse import affinity
from facts.parse.refusal import TopologyError, quoted, sounds_like_trouble
from facts.parse.rocm import is_rocm, parse_rocm
from fleet.nodes.topology import DIRECT_LINK, SELF, Topology

__all__ = ["TopologyError", "parse_topology"]

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\[[0-9;]*m")
"""Escape sequences; colours also where a copy has lost the escape character."""
_DEVICE = r"(?:GPU|NPU)"
_NAME = rf"{_DEVICE}[0-9]+"
_ROW = re.compile(rf"\s*{_DEVICE}([0-9]{{1,4}})(?=\s|$)")
_NIC_ROW = re.compile(r"\s*(?:NIC\d+|mlx\w+)\s")
_CELL = re.compile(r"[ \t]*(?:(NV[1-9][0-9]?+)(?![\d,-])|(X|SYS|NODE|PHB|PXB|PIX|PSB|SOC|HCCS_SW|HCCS|SIO)(?![a-z_]))")
"""One cell, perhaps glued to the next. Digits glued to NV# have no sure end, so that is no cell."""
_OVERWRITTEN = re.compile(r"[ \t]*[A-Z]{1,4}(?=\d+[-,]\d)")
"""The remains of a cell that a CPU list was printed over, such as PH0-115."""
_GLUED_NAMES = re.compile(rf"(?<=\d)(?={_DEVICE}\d|NIC\d|mlx\d)")
_COLUMNS = {
    affinity.CPU: re.compile(r"CPU\s+Affinity"),
    affinity.NUMA: re.compile(r"NUMA\s+Affinity"),
    affinity.GPU_NUMA: re.compile(r"GPU\s+NUMA\s+ID"),
}
_COMMAND = re.compile(r"[$#%>]\s*(?:\S*/)?nvidia-smi\s+topo\s+(?:-m|--matrix)\s*")
"""A shell's prompt with the command, at the end of a line. What stands before it is no answer of the tool."""
_PATHS_ONLY = re.compile(r"\btopo\s+(?:-mp|--matrix_pci)\b")
_MOST_NVLINKS = 18
"""No GPU has more NVLinks than this (NVLink 4 and 5: Hopper, Blackwell)."""


class _Header(NamedTuple):
    gpus: int
    devices: int
    columns: tuple[str, ...]


class _Row(NamedTuple):
    gpu: int
    where: str
    """Line number and text, for messages."""
    cells: tuple[str, ...]
    overwritten: bool
    rest: str
    gap: int
    """Characters from the start of the last cell to what follows the cells."""
    last: bool
    """No newline follows: what stands at its end may be cut."""


def parse_topology(text: str) -> Topology:
    """The topology that this text tells, whole and certain; TopologyError with the reason otherwise."""
    lines = [line.rstrip("\r") for line in _ANSI.sub("", text.removeprefix("\ufeff")).split("\n")]
    _refuse_complaints(lines)
    if is_rocm(lines):
        return parse_rocm(lines, cut=bool(lines[-1].strip()))
    headers = [header for line in lines if (header := _header(line))]
    rows = [row for at, line in enumerate(lines) if (row := _row(at, line, last=at == len(lines) - 1))]
    if not headers and not rows:
        said = quoted(text) if text.strip() else "nothing"
        raise TopologyError(f"want the matrix of `nvidia-smi topo -m`, found {said}")
    if len(headers) > 1:
        raise TopologyError(f"want one matrix, found {len(headers)} headers")
    header = headers[0] if headers else _deduced_header(rows, sum(bool(_NIC_ROW.match(line)) for line in lines))
    links = _links(header, rows)
    _refuse_paths_only(lines, links)
    places = [affinity.parse_affinity(row.rest, header.columns, row.gap, row.last) for row in rows]
    return Topology(
        gpus=header.gpus,
        links=links,
        numa=affinity.effective_numa(places),
        cpu_affinity=tuple(place.cpus for place in places),
    )


def _refuse_complaints(lines: Sequence[str]) -> None:
    """Refuse a text with a complaint of the tool in it: the rows may be those of the other GPUs only."""
    for number, line in enumerate(lines, 1):
        if _PATHS_ONLY.search(line):
            raise TopologyError(f"line {number}: `topo -mp` shows PCIe paths only and never NVLink; want `topo -m`")
        asked = _COMMAND.search(line)
        if sounds_like_trouble(line) and not (asked and asked.end() == len(line)):
            raise TopologyError(f"line {number}: the tool complains: {quoted(line)}")


def _refuse_paths_only(lines: Sequence[str], links: Sequence[Sequence[str]]) -> None:
    """`topo -mp` without its command line shows itself by a legend without NV#."""
    legend = {line.partition("=")[0].strip() for line in lines if "=" in line}
    if "PIX" in legend and "NV#" not in legend and not any(DIRECT_LINK.fullmatch(c) for row in links for c in row):
        raise TopologyError("the legend has no NV#: PCIe paths only (`topo -mp`), or cut off; want `topo -m`")


def _header(line: str) -> _Header | None:
    """The line that names the columns: GPU0 first, then GPUs in order, NICs, affinities; None if it is none.

    One that names GPUs in another order is refused: its rows would be taken for those of other GPUs.
    """
    names = re.split("|".join(column.pattern for column in _COLUMNS.values()), line)[0]
    devices = [name for word in names.split() for name in _GLUED_NAMES.split(word)]
    first, second = (*devices[:2], "", "")[:2]
    if not re.fullmatch(rf"{_DEVICE}0", first) and not all(re.fullmatch(_NAME, name) for name in (first, second)):
        return None
    if SELF in devices or _CELL.fullmatch(second):
        return None
    if _ROW.fullmatch(line) and not line[:1].isspace():
        return None
    gpus = [name for name in devices if re.fullmatch(_NAME, name)]
    if devices[: len(gpus)] != [f"{devices[0][:3]}{i}" for i in range(len(gpus))]:
        raise TopologyError(f"want GPU0, GPU1, ... without a gap and before the NICs, found the header {quoted(line)}")
    places = {name: match.start() for name, column in _COLUMNS.items() if (match := column.search(line))}
    return _Header(len(gpus), len(devices), tuple(sorted(places, key=places.__getitem__)))


def _row(at: int, line: str, last: bool) -> _Row | None:
    match = _ROW.match(line)
    if not match or _header(line):
        return None
    cells, begin, position = [], 0, match.end()
    while cell := _CELL.match(line, position):
        cells.append(cell[1] or cell[2])
        begin, position = cell.end() - len(cells[-1]) - (cells[-1] == SELF), cell.end()  # X stands behind a blank
    remains = _OVERWRITTEN.match(line, position)
    rest = line[remains.end() if remains else position :]
    gap = len(line) - len(rest.lstrip()) - begin
    return _Row(int(match[1]), f"line {at + 1}, {quoted(line)}", tuple(cells), bool(remains), rest, gap, last)


def _deduced_header(rows: Sequence[_Row], nic_rows: int) -> _Header:
    """The header of rows that came without one, where it is certain that no GPU is missing; else TopologyError.

    A GPU whose row is missing still has its column in the other rows. Further columns are NICs only if NIC rows
    account for them, or if the GPUs hang on an NVLink switch: more links than a GPU has ports can only be
    switched, and the switch joins all GPUs of its host.
    """
    gpus, devices = len(rows), len(rows[0].cells)
    cells = rows[0].cells[:gpus]
    ports = [int(cell[2:]) for cell in cells if cell.startswith("NV")]
    switched = len(ports) == gpus - 1 and sum(ports) > _MOST_NVLINKS
    if devices != gpus + nic_rows and not switched:
        raise TopologyError(f"no header, and {devices} columns for {gpus} GPU rows: GPUs may be missing")
    for row in rows:
        if len(row.cells) != devices or not re.match(r"\s*(\d|N/A)", row.rest):
            raise TopologyError(f"no header, and a row that is not whole: {row.where}")
    widths = {len(row.rest.split()) for row in rows}
    columns = (affinity.CPU, affinity.NUMA, affinity.GPU_NUMA)[: min(widths)] if len(widths) == 1 else ()
    return _Header(gpus, devices, columns)


def _links(header: _Header, rows: Sequence[_Row]) -> tuple[tuple[str, ...], ...]:
    """The square of GPU cells, checked cell by cell."""
    if [row.gpu for row in rows] != list(range(header.gpus)):
        found = ", ".join(str(row.gpu) for row in rows) or "none"
        raise TopologyError(f"want one row for each of {header.gpus} GPUs, in order, found rows of GPUs: {found}")
    for row in rows:
        _refuse_odd_row(header, row)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row.cells[: header.gpus]):
            if (cell == SELF) != (i == j):
                raise TopologyError(f"want X on the diagonal and nowhere else, found {cell} for GPU{j}: {row.where}")
            if cell != rows[j].cells[i]:
                raise TopologyError(f"GPU{i} and GPU{j} disagree: {cell} one way, {rows[j].cells[i]} the other")
    return tuple(row.cells[: header.gpus] for row in rows)


def _refuse_odd_row(header: _Header, row: _Row) -> None:
    """Refuse a row with cells missing, unknown or too many. One NIC cell may be overwritten by the CPU list."""
    found, forgiven = len(row.cells), int(row.overwritten and header.devices > header.gpus)
    if found + forgiven < header.devices:
        unread = row.rest.split()
        behind = f", then the unknown {quoted(unread[0], 30)}" if unread else ", then nothing: cut off?"
        raise TopologyError(f"want {header.devices} cells, found {found}{behind}: {row.where}")
    if found > header.devices:
        raise TopologyError(f"want {header.devices} cells as the header says, found {found}: {row.where}")
    for cell in row.cells[header.gpus :]:
        if cell == SELF or DIRECT_LINK.fullmatch(cell):
            raise TopologyError(f"want a PCIe path to each NIC, found {cell}: {row.where}")
