"""The kernel's NUMA nodes and CPU lists."""

import re

from fleet.nodes.node import NumaNode

_PART = re.compile(r"(0|[1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?")


class CpuListError(ValueError):
    """A text that is no CPU list as the kernel prints it."""


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """`0-31,64-95` as CPU numbers; an empty text is no CPU. Raises CpuListError.

    As strict as the kernel writes it (cpumap_print_list_to_buf): numbers rise, a range has two different ends, parts do
    not touch or overlap. Anything else was damaged on its way here.
    """
    cpus: list[int] = []
    for part in text.split(",") if text else ():
        match = _PART.fullmatch(part)
        if not match:
            raise CpuListError(f"want a CPU list such as 0-31,64-95, found {part!r} in {text[:200]!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if match[2] and first >= last:
            raise CpuListError(f"want a range that rises, found {part!r} in {text[:200]!r}")
        if cpus and first <= cpus[-1] + 1:
            raise CpuListError(f"want parts apart and in order, found {part!r} after {cpus[-1]} in {text[:200]!r}")
        cpus.extend(range(first, last + 1))
    return tuple(cpus)


def parse_numa(text: str) -> tuple[tuple[NumaNode, ...], str | None]:
    """`ID CPULIST` lines as nodes in order of id, and the reason where they cannot be trusted (then without nodes)."""
    nodes: dict[int, NumaNode] = {}
    owner: dict[int, int] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        match = re.fullmatch(r"([0-9]{1,6}) ?(.*)", line)
        if not match or int(match[1]) in nodes:
            return (), f"want one line `ID CPULIST` for each NUMA node, found {line[:200]!r}"
        node = int(match[1])
        try:
            cpus = parse_cpu_list(match[2])
        except CpuListError as error:
            return (), f"NUMA node {node}: {error}"
        taken = next((cpu for cpu in cpus if cpu in owner), None)
        if taken is not None:
            return (), f"CPU {taken} is in NUMA nodes {owner[taken]} and {node}"
        owner.update(dict.fromkeys(cpus, node))
        nodes[node] = NumaNode(id=node, cpus=match[2])
    if not nodes:
        return (), "the kernel shows no NUMA node in /sys/devices/system/node"
    return tuple(nodes[node] for node in sorted(nodes)), None
