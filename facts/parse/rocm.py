"""`rocm-smi --showtopo` -> Topology. Links and NUMA nodes stand in blocks of their own, each under a title."""

import re
from collections.abc import Sequence

from facts.parse.refusal import TopologyError, quoted
from fleet.nodes.topology import SELF, Topology

_TITLE = re.compile(r"\s*={3,}\s*(.*?)\s*={3,}\s*")
_LINKS = "link type between two gpus"
_NODE = re.compile(r"\s*GPU\s*\[?(\d+)\]?\s*:\s*\(Topology\)\s*Numa (?:Node|Affinity):\s*(-?\d{1,6})\s*$", re.ASCII)
_LABELS = ("XGMI", "PCIE")


def is_rocm(lines: Sequence[str]) -> bool:
    """Does this text have the titles of rocm-smi?"""
    titles = [match[1].lower() for line in lines if (match := _TITLE.fullmatch(line))]
    return any("rocm" in title or "two gpus" in title or "numa nodes" in title for title in titles)


def parse_rocm(lines: Sequence[str], cut: bool) -> Topology:
    """The topology of rocm-smi's lines, or TopologyError. `cut`: the last line has no newline."""
    matrices = sum(bool((title := _TITLE.fullmatch(line)) and title[1].lower() == _LINKS) for line in lines)
    if matrices > 1:
        raise TopologyError(f"want one matrix, found {matrices} blocks {_LINKS!r}")
    links = _link_matrix(_block(lines, _LINKS))
    return Topology(
        gpus=len(links),
        links=links,
        numa=_numa_nodes(lines[:-1] if cut else lines, len(links)),
        cpu_affinity=(None,) * len(links),
    )


def _block(lines: Sequence[str], wanted: str) -> list[str]:
    inside, found = False, []
    for line in lines:
        if match := _TITLE.fullmatch(line):
            if inside and found:
                break
            inside = match[1].lower() == wanted
        elif inside and line.strip():
            found.append(line)
        elif inside and found:
            break
    if not found:
        raise TopologyError(f"rocm-smi's block {wanted!r} is missing: ask with --showtopo")
    return found


def _link_matrix(block: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    header, *rows = (line.split() for line in block)
    names = [f"GPU{i}" for i in range(len(header))]
    if header != names:
        raise TopologyError(f"want GPU0, GPU1, ... as the header of the links, found {quoted(block[0])}")
    if [row[0] for row in rows] != names:
        raise TopologyError(f"want one row for each of {len(names)} GPUs, found {len(rows)} rows of links")
    for row in rows:
        if len(row) != len(names) + 1:
            raise TopologyError(f"want {len(names)} cells, found {len(row) - 1} in the row of {row[0]}")
    for i, row in enumerate(rows):
        for j, cell in enumerate(row[1:]):
            if (i == j and cell != "0") or (i != j and cell not in _LABELS):
                raise TopologyError(f"unknown link {cell!r} between GPU{i} and GPU{j}")
            if cell != rows[j][i + 1]:
                raise TopologyError(f"GPU{i} and GPU{j} disagree: {cell} one way, {rows[j][i + 1]} the other")
    return tuple(tuple(SELF if i == j else cell for j, cell in enumerate(row[1:])) for i, row in enumerate(rows))


def _numa_nodes(lines: Sequence[str], gpus: int) -> tuple[int | None, ...]:
    """Of each GPU; None where it is not told, negative, or where Node and Affinity disagree."""
    told: dict[int, set[int]] = {}
    for line in lines:
        if match := _NODE.match(line):
            told.setdefault(int(match[1]), set()).add(int(match[2]))
    nodes = (told.get(gpu, set()) for gpu in range(gpus))
    return tuple(next(iter(one)) if len(one) == 1 and min(one) >= 0 else None for one in nodes)
