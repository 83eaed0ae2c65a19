"""Where a pipeline may be cut: partitions, and the layers that a cut leaves without indices."""

from itertools import accumulate, pairwise, product

from fleet.architecture import Architecture, IndexSharing
from fleet.frozen import Frozen

Partition = tuple[int, ...]


class Orphans(Frozen):
    """The layers at the start of one stage that reuse indices which another stage computed."""

    stage: int
    layers: tuple[int, ...]
    source: int
    """The layer, on an earlier stage, whose indices they would need."""


def even_partition(layers: int, stages: int) -> Partition:
    """The engine's own split: what does not divide goes to the middle stages first, never to the last.

    vLLM `get_pp_indices`: 78 layers give 39,39 for two stages and 19,20,20,19 for four.
    """
    counts = [layers // stages] * stages
    for i in range(2, layers % stages + 2):
        counts[-i] += 1
    return tuple(counts)


def boundaries(partition: Partition) -> tuple[int, ...]:
    """First layer of every stage but the first."""
    return tuple(accumulate(partition))[:-1]


def orphans(partition: Partition, architecture: Architecture) -> tuple[Orphans, ...]:
    """Stages that start on a sharing layer. The top-k buffer belongs to one stage and is not sent to the next."""
    sharing = architecture.index_sharing
    if sharing is None:
        return ()
    found = []
    ends = tuple(accumulate(partition))
    for stage, (start, end) in enumerate(pairwise(ends), start=1):
        layers = []
        for layer in range(start, end):
            if sharing.computes(layer):
                break
            layers.append(layer)
        if layers:
            source = next((i for i in range(start - 1, -1, -1) if sharing.computes(i)), 0)
            found.append(Orphans(stage=stage, layers=tuple(layers), source=source))
    return tuple(found)


def _nearest_starts(boundary: int, layers: int, sharing: IndexSharing) -> list[int]:
    """The computing layers around a boundary: the nearest at or below, and the nearest at or above."""
    below = next((i for i in range(min(boundary, layers - 1), 0, -1) if sharing.computes(i)), None)
    above = next((i for i in range(boundary, layers) if sharing.computes(i)), None)
    return [start for start in dict.fromkeys((below, above)) if start is not None]


def nearest_aligned(partition: Partition, architecture: Architecture, most: int = 3) -> tuple[Partition, ...]:
    """The partitions closest to this one in which every stage starts on a layer that computes its own indices."""
    sharing = architecture.index_sharing
    if sharing is None or len(partition) > 8:
        return ()
    wanted = boundaries(partition)
    choices = product(*(_nearest_starts(b, architecture.layers, sharing) for b in wanted))
    aligned: dict[Partition, int] = {}
    for starts in choices:
        edges = (0, *starts, architecture.layers)
        counts = tuple(b - a for a, b in pairwise(edges))
        if min(counts) >= 1:
            aligned[counts] = sum(abs(a - b) for a, b in zip(starts, wanted, strict=True))
    return tuple(sorted(aligned, key=lambda counts: (aligned[counts], counts))[:most])
