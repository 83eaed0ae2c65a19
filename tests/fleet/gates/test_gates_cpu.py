"""CPUs and memory are where the ranks expect them."""

import pytest

from fleet.nodes.node import NodeFacts, NumaNode, Unit
from tests.fleet.builders import NUMA, facts, fails, fleet_with, installed, machine, node, passes, topology, warns


def with_affinity(text: str | None) -> NodeFacts:
    return facts(topology=topology().model_copy(update={"cpu_affinity": (text,) * 8}))


def test_cpus_next_to_a_gpu_are_cpus_of_the_node() -> None:
    passes("cpu-affinity", fleet_with())
    passes("cpu-affinity", fleet_with(told=with_affinity("0-31,64-95")))
    fails(
        "cpu-affinity",
        fleet_with(told=with_affinity("0-63,128-1910")),
        "next to GPU 0, found CPU 128, 129",
        "1775 more",
    )
    fails("cpu-affinity", fleet_with(told=with_affinity("128")), "want CPUs 0-127 next to GPU 7, found CPU 128 in 128")


def test_cpus_that_were_not_told_are_not_guessed() -> None:
    passes("cpu-affinity", fleet_with(told=with_affinity(None)))  # numa says whether that matters
    fails("cpu-affinity", fleet_with(told=facts(cpus_online=None)), "the node's CPUs, found nothing")
    fails("cpu-affinity", fleet_with(told=facts(topology=None, topology_error="cut off")), "cut off")


def test_the_numa_node_of_a_gpu_is_one_of_the_kernel() -> None:
    passes("numa-nodes", fleet_with())
    flat = facts(numa=(NumaNode(id=0, cpus="0-127"),))
    fails("numa-nodes", fleet_with(told=flat), "want NUMA node 0 for GPU 4, found 1, which has no CPUs here")
    empty = facts(numa=(NumaNode(id=0, cpus="0-127"), NumaNode(id=1, cpus="")))
    fails("numa-nodes", fleet_with(told=empty), "found 1")
    fails("numa-nodes", fleet_with(told=facts(numa=(), numa_error="CPU 3 is in 0 and 1")), "CPU 3 is in 0 and 1")
    passes("numa-nodes", fleet_with(told=facts(topology=topology(numa=(None,) * len(NUMA)))))


def test_a_cpuset_leaves_a_cpu_for_each_rank_and_two_more() -> None:
    passes("cpuset", fleet_with())
    passes("cpuset", fleet_with(told=facts(machine=machine(cpus_allowed="0-9"))))
    fails(
        "cpuset", fleet_with(told=facts(machine=machine(cpus_allowed="0-7,64"))), "want 10 CPUs for 8 ranks, found 9 of"
    )
    small = facts(cpus_online="0-1", machine=machine(cpus_allowed="0-1"))
    passes("cpuset", fleet_with(told=small))
    fails("cpuset", fleet_with(told=facts(machine=machine(cpus_allowed=None))), "found nothing")


def test_a_governor_that_saves_power_is_a_warning() -> None:
    passes("governor", fleet_with())
    passes("governor", fleet_with(told=facts(machine=machine(governors={}))))
    slow = facts(machine=machine(governors={"powersave": 96, "performance": 32}))
    warns("governor", fleet_with(told=slow), "powersave on 96 CPUs", "cpupower")
    warns("governor", fleet_with(told=facts(machine=machine(governors={"unreadable": 2}))), "unreadable on 2 CPUs")


def test_huge_pages_that_nobody_uses_are_a_warning() -> None:
    passes("hugepages", fleet_with())
    idle = facts(machine=machine(huge_pages=65536, huge_pages_free=65536))
    warns("hugepages", fleet_with(told=idle), "128 GiB in free huge pages")
    passes("hugepages", fleet_with(told=facts(machine=machine(huge_pages=65536, huge_pages_free=0))))
    fails("hugepages", fleet_with(told=facts(machine=machine(memory_available=None))), "found nothing")


def free(gib: float) -> NodeFacts:
    return facts(machine=machine(memory_available=int(gib * 2**30)))


def test_memory_that_the_engine_offloads_to_is_free() -> None:
    passes("host-memory", fleet_with())
    flags = {"--cpu-offload-gb": 16}
    fails("host-memory", fleet_with(told=free(100), flags=flags), "8 ranks and 128 GiB that they offload", "100.0 GiB")
    passes("host-memory", fleet_with(told=free(140), flags=flags))
    fails("host-memory", fleet_with(flags={"--swap-space": "much"}), "--swap-space in GiB, found much")
    fails("host-memory", fleet_with(told=facts(machine=machine(memory_available=None))), "found nothing")


def test_little_memory_for_the_ranks_themselves_is_a_warning_but_not_beside_the_engine_that_holds_it() -> None:
    warns("host-memory", fleet_with(told=free(7)), "want 8 GiB free for 8 ranks, found 7.0 GiB")
    unit = Unit(name="vllm-glm.service", load="loaded", active="active", sub="running", enabled="enabled")
    passes("host-memory", fleet_with(told=free(7).model_copy(update={"services": (installed(unit=unit),)})))


@pytest.mark.parametrize("gate", ["cpu-affinity", "numa-nodes"])
def test_a_node_without_gpus_has_nothing_next_to_them(gate: str) -> None:
    bare = node(gpus={"count": 0, "model": "-", "memory_mib": 1}, nvlink_islands=(), numa=())
    passes(gate, fleet_with(bare, facts(topology=None)))
