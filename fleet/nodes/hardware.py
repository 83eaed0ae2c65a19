"""What a node's own answer says of its hardware, in the words of a declaration."""

from typing import Any

from fleet.declaration import NodeDeclaration
from fleet.nodes.node import NodeFacts


class HardwareError(ValueError):
    """The node did not tell its hardware: what was wanted and what was found."""


def hardware(facts: NodeFacts) -> dict[str, Any]:
    """`gpus`, `nvlink_islands` and `numa` as NODE.yaml has them. Raises HardwareError: nothing is guessed."""
    nvidia, topology = facts.nvidia, facts.topology
    broken = [f"GPU {gpu.index}: {gpu.problem}" for gpu in nvidia.gpus if gpu.problem]
    if nvidia.error or broken:
        raise HardwareError(f"want every GPU told by nvidia-smi, found {nvidia.error or '; '.join(broken)}")
    kinds = {(gpu.name, gpu.memory_mib) for gpu in nvidia.gpus}
    if len(kinds) != 1 or None in next(iter(kinds)):
        found = ", ".join(sorted(f"{name} with {size} MiB" for name, size in kinds)) or "no GPU"
        raise HardwareError(f"want GPUs of one model, found {found}")
    if topology is None:
        raise HardwareError(f"want the topology, found {facts.topology_error or 'none'}")
    (name, size) = next(iter(kinds))
    numa = list(topology.numa)
    return {
        "gpus": {"count": len(nvidia.gpus), "model": name, "memory_mib": size},
        "nvlink_islands": [list(island) for island in topology.islands],
        "numa": numa if any(one is not None for one in numa) else [],
    }


def changed(declared: NodeDeclaration, found: dict[str, Any]) -> dict[str, Any]:
    """The fields of `found` that are declared otherwise."""
    now = {
        "gpus": declared.gpus.model_dump(),
        "nvlink_islands": [list(island) for island in declared.nvlink_islands],
        "numa": list(declared.numa),
    }
    return {field: value for field, value in found.items() if now[field] != value}
