"""A node is what its inventory says, or nothing is started on it."""

import pytest

from fleet.nodes.node import NodeFacts
from fleet.nodes.nvidia import Gpu, Nvidia
from tests.fleet.builders import PAIRS, ask, facts, fails, fleet_with, gpus, node, passes, topology, warns

LOST_TEXT = "GPU is lost.  Reboot the system to recover this GPU"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.86"
NO_GPUS = node(gpus={"count": 0, "model": "none", "memory_mib": 1}, nvlink_islands=(), numa=())


def with_gpus(*rows: Gpu, error: str | None = None) -> NodeFacts:
    return facts(nvidia=Nvidia(gpus=rows, error=error))


def with_one(index: int = 3, **changes: object) -> NodeFacts:
    return with_gpus(*(gpu.model_copy(update=changes) if gpu.index == index else gpu for gpu in gpus()))


def test_a_lost_gpu_is_named_with_its_text_and_a_remedy() -> None:
    (verdict,) = ask("gpu-count", fleet_with(told=with_one(problem=LOST_TEXT, name=None, memory_mib=None)))
    assert str(verdict) == (
        f'gpu-count: want 8, found 7 on a1 (GPU 3 is lost: "{LOST_TEXT}"); reboot a1 or set gpus.count'
    )


def test_all_declared_gpus_answer() -> None:
    passes("gpu-count", fleet_with())
    fails("gpu-count", fleet_with(told=with_one(problem=LOST_TEXT)), "want 8, found 7")


def test_a_gpu_that_is_not_listed_is_named() -> None:
    fails("gpu-count", fleet_with(told=with_gpus(*gpus(7))), "found 7 on a1 (GPU 7 is not listed)")


def test_more_gpus_than_declared_are_not_what_was_declared() -> None:
    fails("gpu-count", fleet_with(told=with_gpus(*gpus(9))), "want 8, found 9")


def test_a_driver_that_does_not_answer_is_shown_word_for_word_on_one_line() -> None:
    broken = fleet_with(told=with_gpus(error=MISMATCH))
    for gate in ("gpu-count", "gpu-model", "gpu-memory", "gpu-healthy"):
        fails(gate, broken, "Driver/library version mismatch; NVML library version: 570.86")


def test_gpus_are_missed_one_by_one_only_where_others_are_listed() -> None:
    (verdict,) = ask("gpu-count", fleet_with(told=with_gpus(error=MISMATCH)))
    assert "not listed" not in str(verdict)
    assert "found 0 on a1" in str(verdict)


def test_another_gpu_model_is_named_with_its_gpus() -> None:
    passes("gpu-model", fleet_with())
    fails("gpu-model", fleet_with(told=with_one(name="NVIDIA A100-PCIE-40GB")), "found NVIDIA A100-PCIE-40GB on GPU 3")


def test_a_gpu_without_a_name_is_no_a100() -> None:
    fails("gpu-model", fleet_with(told=with_one(name=None)), "found no name on GPU 3")


def test_no_list_of_gpus_at_all_is_no_match() -> None:
    fails("gpu-model", fleet_with(told=with_gpus()), "want 8 GPUs, found none (an empty list)")


@pytest.mark.parametrize("mib", [81920, 81101, 82739])
def test_memory_within_one_percent_is_the_declared_memory(mib: int) -> None:
    passes("gpu-memory", fleet_with(told=with_one(memory_mib=mib)))


@pytest.mark.parametrize("mib", [40960, 81100, 82740])
def test_memory_beyond_one_percent_is_another_gpu(mib: int) -> None:
    fails("gpu-memory", fleet_with(told=with_one(memory_mib=mib)), "want 81920 MiB", f"{mib} MiB on GPU 3")


def test_memory_that_was_not_told_is_not_enough_memory() -> None:
    fails("gpu-memory", fleet_with(told=with_one(memory_mib=None)), "an unknown size on GPU 3")


def test_a_gpu_that_complains_is_not_used() -> None:
    passes("gpu-healthy", fleet_with())
    told = with_one(problem="[GPU requires reset]")
    fails("gpu-healthy", fleet_with(told=told), 'GPU 3: "[GPU requires reset]"', "reboot a1")


def test_a_gpu_that_complains_is_told_as_such_and_its_model_is_not_taken_for_granted() -> None:
    lost = fleet_with(told=with_one(problem=LOST_TEXT, name=None, memory_mib=None))
    fails("gpu-healthy", lost, f'GPU 3 is lost: "{LOST_TEXT}"')
    fails("gpu-model", lost, "no name on GPU 3")
    passes("gpu-memory", lost)
    other = fleet_with(told=with_one(problem="[GPU requires reset]", name="NVIDIA H100 80GB HBM3"))
    fails("gpu-model", other, "NVIDIA H100 80GB HBM3 on GPU 3")
    passes("gpu-memory", other)
    fails("gpu-memory", fleet_with(told=with_one(problem="ERR!", memory_mib=None)), "an unknown size on GPU 3")


def test_a_line_beside_the_gpu_rows_is_a_complaint_although_all_gpus_answer() -> None:
    fails("gpu-healthy", fleet_with(told=with_gpus(*gpus(), error="WARNING: infoROM is corrupted")), "infoROM")


def test_a_node_without_gpus_needs_no_nvidia_smi() -> None:
    bare = facts(nvidia=Nvidia(error="nvidia-smi: command not found"), topology=None, topology_error="not found")
    for gate in ("gpu-count", "gpu-model", "gpu-memory", "gpu-healthy", "nvlink-islands", "numa"):
        passes(gate, fleet_with(NO_GPUS, bare))


def test_gpus_on_a_node_that_declares_none_are_not_ignored() -> None:
    fails("gpu-count", fleet_with(NO_GPUS), "want 0, found 8")
    told = with_gpus(*gpus(1), error="GPU is lost")
    fails("gpu-healthy", fleet_with(NO_GPUS, told), "GPU is lost")


def test_islands_are_the_declared_ones_in_any_order_of_writing() -> None:
    passes("nvlink-islands", fleet_with(node(nvlink_islands=tuple(island[::-1] for island in PAIRS[::-1]))))


def test_a_missing_link_is_shown_beside_the_declaration() -> None:
    told = facts(topology=topology(PAIRS[1:]))
    fails("nvlink-islands", fleet_with(told=told), "want NVLink islands {0,1} {2,3}", "found {2,3} {4,5} {6,7}")


def test_islands_on_a_node_that_declares_none_are_not_ignored() -> None:
    fails("nvlink-islands", fleet_with(node(nvlink_islands=())), "want NVLink islands none", "found {0,1}")


def test_a_topology_that_cannot_be_trusted_has_no_islands() -> None:
    told = facts(topology=None, topology_error="row GPU3: want 8 cells, found 5")
    fails("nvlink-islands", fleet_with(told=told), "row GPU3: want 8 cells, found 5")
    fails("nvlink-islands", fleet_with(told=facts(topology=None)), "the node told none")


def test_gpus_are_on_their_declared_numa_nodes() -> None:
    passes("numa", fleet_with())
    told = facts(topology=topology(numa=(0, 0, 0, 1, 1, 1, 1, 1)))
    fails("numa", fleet_with(told=told), "want GPU 3 on NUMA node 0, found 1")


def test_a_declared_numa_node_that_is_not_told_is_not_confirmed() -> None:
    fails(
        "numa", fleet_with(told=facts(topology=topology(numa=(None,) * 8))), "want GPU 0 on NUMA node 0, found unknown"
    )
    fails("numa", fleet_with(told=facts(topology=None, topology_error="cut off")), "cut off")


def test_null_declared_accepts_a_platform_that_does_not_tell() -> None:
    passes("numa", fleet_with(node(numa=(None,) * 8), facts(topology=topology(numa=(None,) * 8))))


def test_null_declared_where_the_platform_tells_asks_for_the_declaration() -> None:
    warns("numa", fleet_with(node(numa=(None, *[0] * 3, *[1] * 4))), "want GPU 0 on NUMA node unknown, found 0")


def test_numa_that_is_not_declared_asks_for_the_declaration() -> None:
    warns("numa", fleet_with(node(numa=())), "the node tells 0, 0, 0, 0, 1", "declare numa of a1")
    warns("numa", fleet_with(node(numa=()), facts(topology=None)), "declare numa of a1")
