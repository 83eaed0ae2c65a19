"""Is the node what the inventory says it is?"""

from collections import defaultdict
from collections.abc import Iterable

from fleet.gate import gate
from fleet.known import Undecidable, facts_of, gpus_of
from fleet.nodes.nvidia import Gpu, Nvidia
from fleet.nodes.topology import Topology
from fleet.plan import NodeView
from fleet.verdict import Finding

MEMORY_TOLERANCE = 0.01
"""Share by which memory.total may differ from the declaration: drivers reserve a little more or less of it."""


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def _complaint(gpu: Gpu) -> str:
    what = " is lost" if "lost" in (gpu.problem or "").lower() else ""
    return f'GPU {gpu.index}{what}: "{_one_line(gpu.problem or "")}"'


def _complaints(nvidia: Nvidia) -> list[str]:
    """What nvidia-smi printed where a value was wanted, word for word."""
    texts = [_complaint(gpu) for gpu in nvidia.gpus if gpu.problem is not None]
    told = {_one_line(gpu.problem or "") for gpu in nvidia.gpus}
    error = _one_line(nvidia.error or "")
    return texts + ([f'nvidia-smi: "{error}"'] if error and error not in told else [])


def _grouped(values: Iterable[tuple[int, str]]) -> str:
    """`NVIDIA L40S on GPU 0, 1; nothing on GPU 2`."""
    by_value = defaultdict(list)
    for index, value in values:
        by_value[value].append(str(index))
    return "; ".join(f"{value} on GPU {', '.join(indices)}" for value, indices in by_value.items())


@gate("gpu-count", reads="nvidia-smi", remedy="reboot {node} or set gpus.count", needs_facts=True)
def gpu_count(view: NodeView) -> Finding | None:
    """As many GPUs answer, each without an error in place of a value, as the inventory declares."""
    want, nvidia = view.node.gpus.count, facts_of(view).nvidia
    answering = {gpu.index for gpu in nvidia.gpus if gpu.problem is None}
    if len(answering) == want:
        return None
    listed = {gpu.index for gpu in nvidia.gpus}
    missing = [f"GPU {index} is not listed" for index in range(want) if listed and index not in listed]
    return Finding(want=str(want), got=str(len(answering)), because="; ".join(_complaints(nvidia) + missing) or None)


@gate(
    "gpu-model",
    reads="nvidia-smi",
    remedy="correct gpus.model in the inventory of {node}, or the node is another one",
    needs_facts=True,
)
def gpu_model(view: NodeView) -> Finding | None:
    """Every GPU has the declared name, letter by letter, also one that complains."""
    want = view.node.gpus.model
    other = [(gpu.index, gpu.name or "no name") for gpu in gpus_of(view) if gpu.name != want]
    return Finding(want=f"{want} on every GPU", got=_grouped(other)) if other else None


@gate(
    "gpu-memory",
    reads="nvidia-smi",
    remedy="correct gpus.memory_mib in the inventory of {node}, or replace the GPU",
    needs_facts=True,
)
def gpu_memory(view: NodeView) -> Finding | None:
    """Every GPU has the declared memory.total in MiB, within 1 %. One that tells not even its name is for gpu-model."""
    want = view.node.gpus.memory_mib
    other = [
        (gpu.index, "an unknown size" if gpu.memory_mib is None else f"{gpu.memory_mib} MiB")
        for gpu in gpus_of(view)
        if (gpu.name is not None or gpu.problem is None)
        and (gpu.memory_mib is None or abs(gpu.memory_mib - want) > want * MEMORY_TOLERANCE)
    ]
    return Finding(want=f"{want} MiB (within 1 %) on every GPU", got=_grouped(other)) if other else None


@gate(
    "gpu-healthy",
    reads="nvidia-smi",
    remedy="reset the GPU or reboot {node}; nothing is started on a GPU that complains",
    needs_facts=True,
)
def gpu_healthy(view: NodeView) -> Finding | None:
    """No GPU, and not nvidia-smi itself, printed anything but values."""
    if view.node.gpus.count == 0 and not facts_of(view).nvidia.gpus:
        return None  # a node without GPUs need not have nvidia-smi
    complaints = _complaints(facts_of(view).nvidia)
    return Finding(want="no complaint of nvidia-smi", got="; ".join(complaints)) if complaints else None


def _topology(view: NodeView, want: str) -> Topology:
    facts = facts_of(view)
    if facts.topology is None:
        reason = facts.topology_error or "the node told none"
        raise Undecidable(
            want, f"no topology that can be trusted: {_one_line(reason)}", "run nvidia-smi topo -m on {node}"
        )
    return facts.topology


def _braces(islands: Iterable[tuple[int, ...]]) -> str:
    return " ".join("{" + ",".join(map(str, island)) + "}" for island in islands) or "none"


@gate(
    "nvlink-islands",
    reads="nvidia-smi topo -m",
    remedy="check the links (nvidia-smi nvlink -s on {node}), or correct nvlink_islands in its inventory",
    needs_facts=True,
)
def nvlink_islands(view: NodeView) -> Finding | None:
    """The groups of GPUs that are all joined by NVLink are the declared ones."""
    if view.node.gpus.count == 0:
        return None
    want = sorted(tuple(sorted(island)) for island in view.node.nvlink_islands)
    found = list(_topology(view, f"NVLink islands {_braces(want)}").islands)
    return None if found == want else Finding(want=f"NVLink islands {_braces(want)}", got=_braces(found))


@gate(
    "numa",
    reads="nvidia-smi topo -m",
    severity="fail or warn",
    remedy="correct numa in the inventory of {node}, or its firmware settings",
    needs_facts=True,
)
def numa(view: NodeView) -> list[Finding]:
    """Each GPU is on its declared NUMA node. Not declared, or told although null is declared: a warning."""
    count, want = view.node.gpus.count, view.node.numa
    if count == 0:
        return []
    if not want:
        known = facts_of(view).topology
        got = f"none; the node tells {', '.join(map(_node_name, known.numa))}" if known else "none"
        return [Finding(want="numa declared", got=got, remedy="declare numa of {node}: one entry a GPU", warning=True)]
    found = dict(enumerate(_topology(view, f"NUMA nodes {', '.join(map(_node_name, want))}").numa))
    findings = []
    for gpu, node in enumerate(want):
        told = found.get(gpu)
        if told != node:
            want_text, got = f"GPU {gpu} on NUMA node {_node_name(node)}", _node_name(told)
            findings.append(Finding(want=want_text, got=got, warning=node is None))
    return findings


def _node_name(node: int | None) -> str:
    return "unknown" if node is None else str(node)
