"""Are the GPUs joined as they should be: every NVLink up, the fabric ready?"""

from fleet.gate import gate
from fleet.known import Undecidable, facts_of, layout_of, machine_of, told, topology_of
from fleet.nodes.node import Deep
from fleet.nodes.topology import Topology
from fleet.plan import NodeView, Plan
from fleet.verdict import Finding


def _nvlinks(label: str) -> int | None:
    return int(label[2:]) if label.startswith("NV") and label[2:].isdecimal() else None


@gate(
    "nvlink-width",
    reads="nvidia-smi topo -m, nvlinks of the inventory",
    remedy="see nvidia-smi nvlink -s on {node}, or correct nvlinks in its inventory",
    needs_facts=True,
)
def nvlink_width(view: NodeView) -> list[Finding]:
    """Within the NVLink islands every two GPUs have as many links as any others, and as `nvlinks` declares."""
    if not view.node.nvlink_islands:
        return []
    topology = topology_of(view, "NVLinks between GPUs")
    widths = {
        (i, j): width
        for island in topology.islands
        for i in island
        for j in island
        if i < j and (width := _nvlinks(topology.links[i][j])) is not None
    }
    want = view.node.nvlinks or max(widths.values(), default=0)
    narrow = {pair: width for pair, width in widths.items() if width != want}
    return [
        Finding(want=f"{want} NVLinks between GPU {i} and {j}", got=str(width))
        for (i, j), width in list(narrow.items())[:8]
    ]


def deep_of(view: NodeView | Plan) -> Deep:
    """What a deep look read. Raises Undecidable where this look was none."""
    return told(facts_of(view).deep, "a deep look at the node", "none; run pyinfra inventory.py gates.py")


@gate(
    "nvlink-up",
    reads="nvidia-smi nvlink -s",
    remedy="see the bridges or the fabric manager of {node}; where ports are meant to be unused, declare nvlinks",
    deep=True,
)
def nvlink_up(view: NodeView) -> list[Finding]:
    """Each GPU of an NVLink island has all its NVLink ports up; with `nvlinks` declared, at least as many as that."""
    deep, inside = deep_of(view), {gpu for island in view.node.nvlink_islands for gpu in island}
    if not inside:
        return []
    if deep.nvlinks_error is not None:
        raise Undecidable("the NVLink ports of each GPU", deep.nvlinks_error, "run nvidia-smi nvlink -s on {node}")
    told = {links.gpu: links for links in deep.nvlinks}
    findings = []
    for gpu in sorted(inside):
        links, want = told.get(gpu), f"all NVLink ports of GPU {gpu} up"
        if links is None:
            findings.append(Finding(want=want, got="nothing was told of it"))
        elif links.said is not None or not links.up:
            findings.append(Finding(want=want, got=links.said or "none is"))
        elif links.down and not (view.node.nvlinks and len(links.up) >= view.node.nvlinks):
            findings.append(Finding(want=want, got=f"{', '.join(map(str, links.down))} inactive"))
    return findings


def _tp_pairs(plan: Plan) -> list[tuple[int, int]]:
    """Every two GPUs of one TP group, which exchange data in each layer."""
    cut = layout_of(plan)
    order, groups = cut.device_order, range(0, cut.ranks, cut.tp)
    return [
        (order[i], order[j])
        for start in groups
        for i in range(start, start + cut.tp)
        for j in range(i + 1, start + cut.tp)
    ]


def _path(topology: Topology, i: int, j: int) -> str:
    if not (0 <= i < topology.gpus and 0 <= j < topology.gpus):
        raise Undecidable(f"the path between GPU {i} and {j}", f"a topology of {topology.gpus} GPUs")
    return topology.links[i][j]


FAR = ("SYS", "SOC")
NEAR = ("PIX", "PXB", "PHB")
"""Paths over which NCCL lets GPUs write to one another without being told to (NCCL, NCCL_P2P_LEVEL)."""


def _p2p_off(plan: Plan) -> bool:
    return plan.service.env.get("NCCL_P2P_DISABLE") == "1"


@gate(
    "p2p-far",
    reads="nvidia-smi topo -m, env of the service",
    remedy="take NCCL_P2P_LEVEL out of env of {service}, or choose a device_order that keeps TP within a socket",
    needs_facts=True,
)
def p2p_far(plan: Plan) -> list[Finding]:
    """No TP group is told to use peer access between processors (NCCL_P2P_LEVEL=SYS): it stalls or is slow."""
    if plan.service.env.get("NCCL_P2P_LEVEL", "").upper() not in ("SYS", "5") or _p2p_off(plan):
        return []
    topology = topology_of(plan, "the links between GPUs")
    far = [f"{i}-{j}" for i, j in _tp_pairs(plan) if _path(topology, i, j) in FAR]
    return [Finding(want="peer access within a processor", got=f"SYS between GPU {', '.join(far[:6])}")] if far else []


@gate(
    "iommu",
    reads="/sys/kernel/iommu_groups, nvidia-smi topo -m",
    remedy="boot {node} with iommu=pt and turn ACS off for its PCIe switches, or set NCCL_P2P_DISABLE: 1 for {service}",
    needs_facts=True,
)
def iommu(plan: Plan) -> list[Finding]:
    """Peer access over PCIe within a TP group is neither translated by an IOMMU nor sent up by ACS: it hangs or lies.

    Two GPUs behind one switch (PIX, PXB) share an IOMMU group unless ACS keeps them apart.
    """
    groups = {one.bus.lower()[-10:]: one for one in machine_of(plan).iommu}
    if not groups or _p2p_off(plan) or layout_of(plan).tp == 1:
        return []
    topology = topology_of(plan, "the links between GPUs")
    bus = {gpu.index: (gpu.bus_id or "").lower()[-10:] for gpu in facts_of(plan).nvidia.gpus}
    findings = []
    for i, j in _tp_pairs(plan):
        path, here, there = _path(topology, i, j), groups.get(bus.get(i, "")), groups.get(bus.get(j, ""))
        if path not in NEAR or here is None or there is None:
            continue
        want = f"direct peer access between GPU {i} and {j} ({path})"
        if here.type != "identity" or there.type != "identity":
            findings.append(Finding(want=want, got=f"an IOMMU that translates ({here.type})"))
        elif path in ("PIX", "PXB") and here.group != there.group:
            findings.append(Finding(want=want, got=f"ACS between them (IOMMU groups {here.group}, {there.group})"))
    return findings[:8]


@gate(
    "p2p",
    reads="nvidia-smi topo -p2p r",
    remedy="see the driver's settings of {node} (NVreg_...), virtualisation and the NVLink bridges",
    deep=True,
)
def p2p(plan: Plan) -> list[Finding]:
    """The driver allows peer access between all GPUs of a TP group that NVLink joins."""
    topology, deep = topology_of(plan, "the links between GPUs"), deep_of(plan)
    pairs = [(i, j) for i, j in _tp_pairs(plan) if _path(topology, i, j).startswith("NV")]
    if not pairs:
        return []
    if deep.p2p_error is not None:
        raise Undecidable("peer access between GPUs", deep.p2p_error, "run nvidia-smi topo -p2p r on {node}")
    if len(deep.p2p) != topology.gpus:
        raise Undecidable(f"peer access between {topology.gpus} GPUs", f"a matrix of {len(deep.p2p)}")
    bad = [(i, j, deep.p2p[i][j]) for i, j in pairs if deep.p2p[i][j] != "OK" or deep.p2p[j][i] != "OK"]
    return [Finding(want=f"peer access between GPU {i} and {j}", got=status) for i, j, status in bad[:8]]
