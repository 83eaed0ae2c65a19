"""Where a pipeline may be cut: partitions, and the layers that a cut leaves without indices."""

from heapq import nsmallest
from itertools import accumulate, pairwise

from fleet.frozen import Frozen
from fleet.model.architecture import Architecture

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


def stages_of(partition: Partition) -> tuple[tuple[int, int], ...]:
    """First layer of every stage, and the one after its last."""
    return tuple(pairwise((0, *accumulate(partition))))


def orphans(partition: Partition, architecture: Architecture) -> tuple[Orphans, ...]:
    """Stages that start on a sharing layer. The top-k buffer belongs to one stage and is not sent to the next."""
    sharing = architecture.index_sharing
    if sharing is None:
        return ()
    found = []
    for stage, (start, end) in enumerate(stages_of(partition)[1:], start=1):
        layers = []
        for layer in range(start, end):
            if sharing.computes(layer):
                break
            layers.append(layer)
        if layers:
            source = next((i for i in range(start - 1, -1, -1) if sharing.computes(i)), 0)
            found.append(Orphans(stage=stage, layers=tuple(layers), source=source))
    return tuple(found)


def nearest_aligned(partition: Partition, architecture: Architecture, most: int = 3) -> tuple[Partition, ...]:
    """The partitions closest to this one in which every stage starts on a layer that computes its own indices.

    Distance is the sum of layers by which the boundaries move. Exact: for each computing layer that a stage may start
    on, the closest ways to get there are kept, stage by stage.
    """
    sharing = architecture.index_sharing
    if sharing is None:
        return ()
    computing = [layer for layer in range(1, architecture.layers) if sharing.computes(layer)]
    ways: list[tuple[int, Partition]] = [(0, (0,))]
    for wanted in boundaries(partition):
        ways = [
            way
            for start in computing
            for way in nsmallest(
                most, ((moved + abs(start - wanted), (*starts, start)) for moved, starts in ways if starts[-1] < start)
            )
        ]
    return tuple(
        tuple(b - a for a, b in pairwise((*starts, architecture.layers))) for _, starts in nsmallest(most, ways)
    )
