"""Are the GPUs joined as they should be: every NVLink up, the fabric ready?"""

from fleet.gate import gate
from fleet.gates.gpu_state import NOT_THERE
from fleet.known import Undecidable, facts_of
from fleet.node import Deep
from fleet.plan import NodeView
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
    topology = facts_of(view).topology
    if topology is None:
        raise Undecidable("NVLinks between GPUs", facts_of(view).topology_error or "no topology", "see {node}")
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


def deep_of(view: NodeView) -> Deep:
    """What a deep look read. Raises Undecidable where this look was none."""
    deep = facts_of(view).deep
    if deep is None:
        raise Undecidable("a deep look at {node}", "none", "run pyinfra inventory.py gates.py")
    return deep


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


@gate(
    "fabric",
    reads="nvidia-smi (fabric.state), the fabric manager's pid file",
    remedy="start nvidia-fabricmanager on {node}, in the driver's version; CUDA fails with error 802 until it is ready",
    needs_facts=True,
)
def fabric(view: NodeView) -> list[Finding]:
    """Behind an NVLink switch the fabric is ready: GPUs that tell of one say Completed, Success."""
    nvidia, findings = facts_of(view).nvidia, []
    for gpu in nvidia.gpus:
        state, status = gpu.told.get("fabric.state"), gpu.told.get("fabric.status")
        if state is None and gpu.problem is None and "fabric.state" not in nvidia.missing_fields:
            raise Undecidable(f"fabric.state of GPU {gpu.index}", "nothing")
        if state is None or state in (*NOT_THERE, "Not Supported"):
            continue
        if (state, status) != ("Completed", "Success"):
            findings.append(Finding(want="fabric Completed, Success", got=f"{state}, {status} on GPU {gpu.index}"))
    return findings
