"""A layout with nothing left open: sizes, layers of each stage, and which GPU is which rank."""

from fleet.declaration import LayoutDeclaration, NodeDeclaration, ServiceDeclaration
from fleet.frozen import Frozen
from fleet.layouts.boundary import Partition, even_partition
from fleet.layouts.device_order import device_order
from fleet.layouts.ranking import Choice
from fleet.layouts.wiring import wiring_of
from fleet.model.architecture import Architecture
from fleet.nodes.topology import Topology


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
    hosts: int = 1
    """Nodes that run it together, each with a run of whole stages."""

    @property
    def ranks(self) -> int:
        """GPUs used on one node."""
        return self.tp * self.pp * self.dp // self.hosts

    def stage_of(self, rank: int) -> int:
        """Pipeline stage of a rank: TP is the inner dimension, then PP, then DP."""
        return rank // self.tp % self.pp

    def __str__(self) -> str:
        text = f"TP{self.tp}/PP{self.pp}" + (f"/DP{self.dp}" if self.dp > 1 else "")
        return text + (f" on {self.hosts} hosts" if self.hosts > 1 else "")

    @property
    def partition_text(self) -> str:
        """`41,37`, or `-` for one stage."""
        return ",".join(map(str, self.partition)) if self.partition and self.pp > 1 else "-"


def usable_gpus(node: NodeDeclaration, service: ServiceDeclaration) -> tuple[int, ...]:
    """GPU indices of this service on this node."""
    return service.gpus if service.gpus is not None else tuple(range(node.gpus.count))


def wanted_layout(service: ServiceDeclaration, choice: Choice | None, unknown: str | None) -> LayoutDeclaration:
    """The declared layout, or for "auto" the best of all. Raises LayoutError where there is none.

    `unknown`: why nothing could be chosen, where there is no choice.
    """
    if service.layout != "auto":
        return service.layout
    if choice is None:
        raise LayoutError(f"auto: the model is unknown: {unknown}")
    best = choice.best
    if best is None:
        raise LayoutError(f"auto: no layout can be: {choice.why_none}")
    return LayoutDeclaration(
        tp=best.sizes.tp,
        pp=best.sizes.pp,
        dp=best.sizes.dp,
        partition=best.partition if best.sizes.pp > 1 else None,
        device_order=best.order,
    )


def resolve(
    node: NodeDeclaration,
    service: ServiceDeclaration,
    architecture: Architecture | None,
    topology: Topology | None = None,
    choice: Choice | None = None,
    unknown: str | None = None,
) -> Layout:
    """The full layout of a service on a node. Raises LayoutError; whether it is legal is the gates' question.

    `topology`: what the node told of its links; without it the declared islands and NUMA nodes count. `choice`: of the
    search, for "auto"; where there is none, `unknown` says why.
    """
    wanted = wanted_layout(service, choice, unknown)
    gpus = usable_gpus(node, service)
    order, hosts = wanted.device_order, len(service.nodes or (node.name,))
    if order is None:
        order = device_order(wiring_of(node, topology), gpus, wanted.tp, wanted.pp // hosts, wanted.dp)
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
        hosts=hosts,
    )
