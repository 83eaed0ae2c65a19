"""How the GPUs of one node are joined, and which NUMA node each one belongs to."""

import re
from collections.abc import Iterable
from typing import Self

from pydantic import model_validator

from fleet.frozen import Frozen

SELF = "X"
PCIE_PATHS = frozenset({"SYS", "NODE", "PHB", "PXB", "PIX", "PSB", "SOC", "PCIE"})
"""Labels of a path over PCIe, of nvidia-smi (SOC and PSB: old drivers), npu-smi and rocm-smi (PCIE)."""
DIRECT_LINK = re.compile(r"NV[1-9]\d?|XGMI|HCCS(_SW)?|SIO")
"""A link made for peers: NVLink (NV4 is a bond of four), and what AMD and Ascend have in its place."""


class Topology(Frozen):
    """The matrix of links between the GPUs of one node, as its vendor's tool prints it.

    `links[i][j]` is the label between GPU i and GPU j, `X` on the diagonal; the matrix is symmetric.
    `numa[i]` is the NUMA node whose CPUs are next to GPU i, None where the node did not tell one.
    `cpu_affinity[i]` is the CPU list as printed: the tool caps it, so it is a hint and never the full set.
    """

    gpus: int
    links: tuple[tuple[str, ...], ...]
    numa: tuple[int | None, ...]
    cpu_affinity: tuple[str | None, ...]

    @model_validator(mode="after")
    def _matrix_is_whole(self) -> Self:
        rows = range(self.gpus)
        if len(self.links) != self.gpus or any(len(row) != self.gpus for row in self.links):
            raise ValueError(f"links: want {self.gpus} rows of {self.gpus} cells")
        if len(self.numa) != self.gpus or len(self.cpu_affinity) != self.gpus:
            raise ValueError(f"numa and cpu_affinity: want {self.gpus} entries, one a GPU")
        for i in rows:
            for j in rows:
                cell = self.links[i][j]
                if (cell == SELF) != (i == j) or cell != self.links[j][i]:
                    raise ValueError(f"links: want a symmetric matrix with X on its diagonal, found {cell} at {i},{j}")
                if i != j and cell not in PCIE_PATHS and not DIRECT_LINK.fullmatch(cell):
                    raise ValueError(f"links: want a known label at {i},{j}, found {cell!r}")
        return self

    def nvlinked(self, i: int, j: int) -> bool:
        """Are GPU i and GPU j joined by a direct link (NVLink or the vendor's equivalent)? No for i == j."""
        return bool(DIRECT_LINK.fullmatch(self.links[i][j]))

    @property
    def islands(self) -> tuple[tuple[int, ...], ...]:
        """The groups of two or more GPUs that are all joined to each other by NVLink; no GPU is in two.

        Where more than one division is possible (the hybrid cube mesh of eight V100), the largest group goes
        first, and among equals the one with the lowest indices. Sorted by first GPU.
        """
        left = list(range(self.gpus))
        found = []
        while len(island := self._largest_clique(left)) > 1:
            found.append(island)
            left = [gpu for gpu in left if gpu not in island]
        return tuple(sorted(found))

    @property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The groups of two or more GPUs that NVLink connects, directly or over other GPUs."""
        left = set(range(self.gpus))
        found = []
        while left:
            group, border = set[int](), {min(left)}
            while border:
                group |= border
                border = {j for i in border for j in left - group if self.nvlinked(i, j)}
            left -= group
            if len(group) > 1:
                found.append(tuple(sorted(group)))
        return tuple(found)

    def island_of(self, gpu: int) -> tuple[int, ...] | None:
        """The island that GPU belongs to, or None where it has no NVLink peer of its own."""
        return next((island for island in self.islands if gpu in island), None)

    def summary(self) -> dict[str, object]:
        """The topology for machines: gpus, links, islands, number of components, and NUMA nodes (None: not told)."""
        return {
            "gpus": self.gpus,
            "links": self.links,
            "islands": self.islands,
            "components": len(self.components),
            "numa": self.numa,
        }

    def _largest_clique(self, gpus: Iterable[int]) -> tuple[int, ...]:
        """The largest group of these that are all NVLinked, the first by index among equals; exact."""
        best: tuple[int, ...] = ()

        def extend(clique: tuple[int, ...], candidates: list[int]) -> None:
            nonlocal best
            if len(clique) > len(best):
                best = clique
            for at, gpu in enumerate(candidates):
                if len(clique) + len(candidates) - at <= len(best):
                    return
                extend((*clique, gpu), [other for other in candidates[at + 1 :] if self.nvlinked(gpu, other)])

        extend((), list(gpus))
        return best

    def __str__(self) -> str:
        islands = " ".join("{" + ",".join(map(str, island)) + "}" for island in self.islands) or "none"
        numa = ",".join("?" if node is None else str(node) for node in self.numa)
        return f"{self.gpus} GPUs, NVLink islands {islands}, NUMA {numa}"
