"""A layout with nothing left open: sizes, layers of each stage, and which GPU is which rank."""

from fleet.architecture import Architecture
from fleet.boundary import Partition, even_partition
from fleet.declaration import LayoutDeclaration, NodeDeclaration, ServiceDeclaration
from fleet.device_order import device_order
from fleet.frozen import Frozen
from fleet.topology import Topology
from fleet.wiring import wiring_of


class LayoutError(ValueError):
    """No single layout follows from what was declared; the text says which ones would do, or why none does."""


class Layout(Frozen):
    """TP x PP x DP, the layers of each stage, and the GPU of each rank (rank 0 first)."""

    tp: int
    pp: int
    dp: int
    partition: Partition | None = None
    """Layers of each stage as they will be; None where PP is 1 or the model's layers are unknown."""
    declared_partition: Partition | None = None
    device_order: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """GPUs used."""
        return self.tp * self.pp * self.dp

    def stage_of(self, rank: int) -> int:
        """Pipeline stage of a rank: TP is the inner dimension, then PP, then DP."""
        return rank // self.tp % self.pp

    def __str__(self) -> str:
        text = f"TP{self.tp}/PP{self.pp}" + (f"/DP{self.dp}" if self.dp > 1 else "")
        return text

    @property
    def partition_text(self) -> str:
        """`41,37`, or `-` for one stage."""
        return ",".join(map(str, self.partition)) if self.partition and self.pp > 1 else "-"


def usable_gpus(node: NodeDeclaration, service: ServiceDeclaration) -> tuple[int, ...]:
    """GPU indices of this service on this node."""
    return service.gpus if service.gpus is not None else tuple(range(node.gpus.count))


def _island_sizes(node: NodeDeclaration, gpus: tuple[int, ...]) -> set[int]:
    inside = [sorted(set(group) & set(gpus)) for group in node.nvlink_islands]
    grouped = [group for group in inside if len(group) > 1]
    lone = len(gpus) - sum(map(len, grouped))
    return {len(group) for group in grouped} | ({1} if lone else set())


def auto_candidates(
    node: NodeDeclaration, gpus: tuple[int, ...], architecture: Architecture | None
) -> list[LayoutDeclaration]:
    """Layouts that fill the GPUs with TP exactly as wide as the NVLink islands.

    Heads must divide by TP (skipped where the model is unknown). More than two stages on an index-sharing model are
    never chosen: an operator has seen them give wrong answers.
    """
    sizes = _island_sizes(node, gpus)
    if len(sizes) != 1:
        return []
    tp = sizes.pop()
    if architecture and architecture.attention_heads % tp:
        return []
    rest = len(gpus) // tp
    splits = [(pp, rest // pp) for pp in range(1, rest + 1) if rest % pp == 0]
    most = 2 if architecture and architecture.shares_indices else (architecture.layers if architecture else rest)
    return [LayoutDeclaration(tp=tp, pp=pp, dp=dp) for pp, dp in splits if pp <= most]


def choose(node: NodeDeclaration, service: ServiceDeclaration, architecture: Architecture | None) -> LayoutDeclaration:
    """The declared layout, or for "auto" the only candidate. Raises LayoutError where there is none or a choice."""
    if service.layout != "auto":
        return service.layout
    gpus = usable_gpus(node, service)
    candidates = auto_candidates(node, gpus, architecture)
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        heads = f", {architecture.attention_heads} attention heads" if architecture else ""
        raise LayoutError(
            f"auto: no layout divides and fits {len(gpus)} GPUs "
            f"with islands {list(map(list, node.nvlink_islands))}{heads}"
        )
    names = ", ".join(f"tp {c.tp} pp {c.pp} dp {c.dp}" for c in candidates)
    raise LayoutError(f"auto: more than one layout fits {len(gpus)} GPUs: {names}")


def resolve(
    node: NodeDeclaration,
    service: ServiceDeclaration,
    architecture: Architecture | None,
    topology: Topology | None = None,
) -> Layout:
    """The full layout of a service on a node. Raises LayoutError; whether it is legal is the gates' question.

    `topology`: what the node told of its links; without it the declared islands and NUMA nodes count.
    """
    wanted = choose(node, service, architecture)
    gpus = usable_gpus(node, service)
    order = wanted.device_order
    if order is None:
        order = device_order(wiring_of(node, topology), gpus, wanted.tp, wanted.pp, wanted.dp)
    partition = wanted.partition if wanted.pp > 1 else None
    if partition is None and wanted.pp > 1 and architecture:
        partition = even_partition(architecture.layers, wanted.pp)
    return Layout(
        tp=wanted.tp,
        pp=wanted.pp,
        dp=wanted.dp,
        partition=partition,
        declared_partition=wanted.partition,
        device_order=order,
    )
