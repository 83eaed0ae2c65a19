"""`nvidia-smi topo -p2p r`: between which GPUs the driver allows access to one another's memory."""

import re

from facts.parse.frames import Section
from facts.parse.refusal import quoted

_STATUS = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
"""OK; chipset, GPU or topology not supported; not supported; disabled by a registry key; unknown."""
_ROW = re.compile(r"\s*GPU([0-9]{1,4})\s+(\S.*)")
_LEGEND = re.compile(r"\s*(Legend:|(X|[A-Z]{1,3})\s+=\s.*)\s*")


def parse_p2p(section: Section) -> tuple[tuple[tuple[str, ...], ...], str | None]:
    """The square of statuses, `X` on its diagonal, and the reason (then without rows) where it is not understood."""
    if section.failure:
        return (), f"nvidia-smi topo -p2p r: {section.failure}"
    rows: list[tuple[str, ...]] = []
    for line in section.text.splitlines():
        match = _ROW.fullmatch(line)
        cells = tuple(match[2].split()) if match else ()
        if not line.strip() or _LEGEND.fullmatch(line) or (cells and all(re.fullmatch(r"GPU\d+", c) for c in cells)):
            continue
        if re.fullmatch(r"\s*GPU0\s*", line) and not rows:
            continue  # the header of a single GPU
        if match is None or int(match[1]) != len(rows):
            return (), f"nvidia-smi topo -p2p r: want one row a GPU, in order, found {quoted(line)}"
        rows.append(cells)
    for i, row in enumerate(rows):
        if len(row) != len(rows) or row[i] != "X" or any(c not in _STATUS for j, c in enumerate(row) if j != i):
            return (), f"nvidia-smi topo -p2p r: want {len(rows)} known statuses, found {quoted(' '.join(row))}"
    if not rows:
        said = quoted(section.text) if section.text.strip() else "nothing"
        return (), f"nvidia-smi topo -p2p r: want a matrix, found {said}"
    return tuple(rows), None
