"""Are CPUs and memory of the node where the ranks expect them?"""

from collections.abc import Iterable

from fleet.gate import gate
from fleet.gates.container import GIB
from fleet.known import Undecidable, facts_of, layout_of, machine_of, told, topology_of
from fleet.plan import NodeView, Plan
from fleet.verdict import Finding


def cpus_in(text: str) -> frozenset[int]:
    """The CPUs of a list such as `0-31,64-95`, as it was checked when it was read."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _text(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    return ", ".join(map(str, ordered[:8])) + (f" and {len(ordered) - 8} more" if len(ordered) > 8 else "")


@gate(
    "cpu-affinity",
    reads="nvidia-smi topo -m, /sys/devices/system/cpu/online",
    remedy="see nvidia-smi topo -m and the CPUs of {node} (a cut or glued column, or CPUs that went offline)",
    needs_facts=True,
)
def cpu_affinity(view: NodeView) -> list[Finding]:
    """The CPUs that nvidia-smi names next to a GPU are CPUs of the node."""
    facts = facts_of(view)
    if view.node.gpus.count == 0:
        return []
    topology = topology_of(view, "the CPUs next to each GPU")
    online = cpus_in(told(facts.cpus_online, "the node's CPUs"))
    findings = []
    for gpu, text in enumerate(topology.cpu_affinity):
        beyond = cpus_in(text) - online if text is not None else frozenset()
        if beyond:
            got = f"CPU {_text(beyond)} in {text}"
            findings.append(Finding(want=f"CPUs {facts.cpus_online} next to GPU {gpu}", got=got))
    return findings


@gate(
    "numa-nodes",
    reads="nvidia-smi topo -m, /sys/devices/system/node",
    remedy="see the NUMA settings of {node}'s firmware; set numa_bind: false until they are right",
    needs_facts=True,
)
def numa_nodes(view: NodeView) -> list[Finding]:
    """Each GPU's NUMA node is one of the kernel's, and has CPUs."""
    facts = facts_of(view)
    if view.node.gpus.count == 0:
        return []
    topology = topology_of(view, "the NUMA node of each GPU")
    if facts.numa_error is not None:
        raise Undecidable("the kernel's NUMA nodes", facts.numa_error)
    with_cpus = {node.id for node in facts.numa if node.cpus}
    return [
        Finding(want=f"NUMA node {_text(with_cpus)} for GPU {gpu}", got=f"{node}, which has no CPUs here")
        for gpu, node in enumerate(topology.numa)
        if node is not None and node not in with_cpus
    ]


OTHER_PROCESSES = 2
"""API server and engine core, beside one worker a rank (vLLM, CPU resources of GPU deployments)."""


@gate(
    "cpuset",
    reads="/proc/1/status, /sys/devices/system/cpu/online",
    remedy="give the units of {node} more CPUs (CPUAffinity=, AllowedCPUs=, isolcpus)",
    needs_facts=True,
)
def cpuset(plan: Plan) -> Finding | None:
    """Where not all CPUs may be used, there is one for each rank and two more: each of them is always busy."""
    allowed = told(machine_of(plan).cpus_allowed, "the CPUs that units may use")
    usable, online = len(cpus_in(allowed)), len(cpus_in(told(facts_of(plan).cpus_online, "the node's CPUs")))
    need = layout_of(plan).ranks + OTHER_PROCESSES
    if usable >= min(online, need):
        return None
    return Finding(want=f"{need} CPUs for {layout_of(plan).ranks} ranks", got=f"{usable} of {online} ({allowed})")


@gate(
    "governor",
    reads="/sys/devices/system/cpu/cpufreq",
    severity="warn",
    remedy="set it on {node}: cpupower frequency-set -g performance",
    needs_facts=True,
)
def governor(view: NodeView) -> Finding | None:
    """The CPUs run at full clock (governor performance), or their clock is not scaled by the kernel at all."""
    other = {name: count for name, count in machine_of(view).governors.items() if name != "performance"}
    if not other:
        return None
    got = ", ".join(f"{name} on {count} CPUs" for name, count in sorted(other.items()))
    return Finding(want="governor performance", got=got, warning=True)


RESERVED_SHARE = 0.1


@gate(
    "hugepages",
    reads="/proc/meminfo",
    severity="warn",
    remedy="set vm.nr_hugepages of {node} to what somebody uses",
    needs_facts=True,
)
def hugepages(view: NodeView) -> Finding | None:
    """No more than a tenth of the memory is reserved as huge pages that nobody uses: an engine cannot have it."""
    machine, memory = machine_of(view), told(facts_of(view).memory_bytes, "the node's memory")
    told(machine.memory_available, "the node's free memory")  # of the same file: huge pages not in it are not there
    idle = (machine.huge_pages_free or 0) * (machine.huge_page_bytes or 0)
    if idle <= memory * RESERVED_SHARE:
        return None
    return Finding(want="memory for engines", got=f"{idle / GIB:.0f} GiB in free huge pages", warning=True)


OFFLOAD_FLAGS = {"--cpu-offload-gb": "a rank", "--swap-space": "a rank", "--kv-offloading-size": "in all"}
"""Flags by which the engine takes memory of the host, in GiB, and of whom."""
LEAST_RANK_GIB = 1


@gate(
    "host-memory",
    reads="/proc/meminfo, flags of the service",
    severity="fail or warn",
    remedy="free memory on {node}, or lower what {service} offloads",
    needs_facts=True,
)
def host_memory(plan: Plan) -> Finding | None:
    """What the engine is told to keep in the host's memory is free there. Less than 1 GiB more a rank: a warning."""
    free = told(machine_of(plan).memory_available, "the node's free memory")
    own = plan.installed.unit if plan.installed else None
    if own is not None and own.active == "active":
        return None  # what runs now gives back its own
    ranks = layout_of(plan).ranks
    offload = sum(_gib(plan, flag) * (ranks if per == "a rank" else 1) for flag, per in OFFLOAD_FLAGS.items())
    need = offload + LEAST_RANK_GIB * ranks
    if free >= need * GIB:
        return None
    want = f"{need:g} GiB free for {ranks} ranks" + (f" and {offload:g} GiB that they offload" if offload else "")
    return Finding(want=want, got=f"{free / GIB:.1f} GiB", warning=free >= offload * GIB)


def _gib(plan: Plan, flag: str) -> float:
    value = plan.service.flags.get(flag, 0)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Undecidable(f"{flag} in GiB", repr(value))
    try:
        return float(value)
    except ValueError:
        raise Undecidable(f"{flag} in GiB", str(value)) from None
