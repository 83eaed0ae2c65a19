"""The columns behind the link cells: CPU Affinity, NUMA Affinity, GPU NUMA ID."""

import re
from collections.abc import Sequence
from typing import NamedTuple

CPU, NUMA, GPU_NUMA = "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
_LIST = re.compile(r"\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*", re.ASCII)
_WIDEST_RANGE = 65536
_TAB = 8


class Affinity(NamedTuple):
    """What one row says of its GPU's place: CPU list as printed, NUMA nodes, NUMA node of the GPU's own memory."""

    cpus: str | None = None
    nodes: frozenset[int] | None = None
    gpu_node: int | None = None


def parse_affinity(rest: str, columns: Sequence[str], gap: int, cut: bool) -> Affinity:
    """The affinity columns of one row; `rest` begins behind the last link cell. What is not plain is None.

    `gap`: characters from the start of the last link cell to the first value. `cut`: the text ends here without a
    newline, so the last value may have lost digits.
    """
    cells = _tabbed(rest, columns) if "\t" in rest.strip(" ") else _aligned(rest, columns, gap)
    if cut and cells and cells[-1] != "N/A":
        cells[-1] = ""
    value = dict(zip(columns, cells, strict=False))
    cpus, gpu_node = value.get(CPU, ""), value.get(GPU_NUMA, "")
    return Affinity(
        cpus=cpus if number_list(cpus) else None,
        nodes=number_list(value.get(NUMA, "")),
        gpu_node=int(gpu_node) if re.fullmatch(r"[0-9]{1,6}", gpu_node) else None,
    )


def _tabbed(rest: str, columns: Sequence[str]) -> list[str]:
    """Cells between tabs. Some may be empty: on Windows both affinities are, in some jobs the CPUs are."""
    cells = [cell.strip() for cell in rest.lstrip(" ").removeprefix("\t").rstrip().split("\t")]
    told = [cell for cell in cells if cell]
    if len(told) == len(columns):
        return told
    if GPU_NUMA in columns and len(cells) == 4 and not cells[2]:
        del cells[2]  # nvidia-smi prints two tabs before the GPU NUMA ID
    return cells


def _aligned(rest: str, columns: Sequence[str], gap: int) -> list[str]:
    """Cells between blanks: all of them, or all but the CPUs where the tabs became 8 columns and one was skipped."""
    cells = rest.split()[: len(columns)]
    if len(cells) == len(columns):
        return cells
    if len(cells) == len(columns) - 1 and columns[0] == CPU and gap == 2 * _TAB:
        return ["", *cells]
    return []


def effective_numa(affinities: Sequence[Affinity]) -> tuple[int | None, ...]:
    """The NUMA node of each GPU's CPUs, None where it is not certain.

    One node in the column is the answer. Where GPUs bring memory nodes of their own (Grace) it is a set: the
    kernel numbers the nodes that have CPUs first, so only members below the lowest GPU NUMA ID can have CPUs, and
    where just one is left it is the answer. Without a GPU NUMA ID a set says only what the job may use.
    """
    gpu_nodes = [affinity.gpu_node for affinity in affinities if affinity.gpu_node is not None]

    def of_one(nodes: frozenset[int] | None) -> int | None:
        if nodes and len(nodes) > 1 and gpu_nodes:
            nodes = frozenset(node for node in nodes if node < min(gpu_nodes))
        return next(iter(nodes)) if nodes and len(nodes) == 1 else None

    return tuple(of_one(affinity.nodes) for affinity in affinities)


def number_list(text: str) -> frozenset[int] | None:
    """`0,3-9` as a set; None where it is anything else, or a range runs backwards."""
    if not _LIST.fullmatch(text):
        return None
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not low <= high <= low + _WIDEST_RANGE:
            return None
        numbers.update(range(low, high + 1))
    return frozenset(numbers)
