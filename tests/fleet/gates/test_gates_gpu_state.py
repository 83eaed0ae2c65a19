"""No engine is started on a GPU that is not in order, not whole, or not free."""

import pytest

from fleet.nodes.node import NodeFacts
from fleet.nodes.nvidia import GpuProcess, Nvidia
from tests.fleet.builders import facts, fails, fleet_with, gpus, passes, warns

GATES = ("row-remap", "gpu-recovery", "mig", "persistence", "power-limit", "clocks", "pcie-link")


def telling(index: int = 2, **changes: object) -> NodeFacts:
    """a1 where one GPU tells other things; dots of a field's name written as underscores."""
    rows = list(gpus())
    fields = {name.replace(".", "_"): name for name in rows[0].told}
    told = {fields[name]: text for name, text in changes.items() if name in fields}
    own = {name: value for name, value in changes.items() if name not in fields}
    rows[index] = rows[index].model_copy(update={"told": rows[index].told | told, **own})
    return facts(nvidia=Nvidia(gpus=tuple(rows), driver="580.95.05"))


@pytest.mark.parametrize("gate", GATES)
def test_gpus_that_are_in_order_pass(gate: str) -> None:
    passes(gate, fleet_with())


@pytest.mark.parametrize(
    ("gate", "field"),
    [
        ("row-remap", "remapped_rows.pending"),
        ("gpu-recovery", "gpu_recovery_action"),
        ("mig", "mig.mode.pending"),
        ("persistence", "persistence_mode"),
        ("power-limit", "enforced.power.limit"),
        ("clocks", "clocks_event_reasons.active"),
        ("pcie-link", "pcie.link.width.current"),
    ],
)
def test_a_field_that_is_not_told_or_that_the_driver_does_not_know_is_no_pass(gate: str, field: str) -> None:
    told = {name: text for name, text in gpus()[0].told.items() if name != field}
    silent = tuple(gpu.model_copy(update={"told": told}) for gpu in gpus())
    fails(gate, fleet_with(told=facts(nvidia=Nvidia(gpus=silent))), field, "found nothing")
    old = Nvidia(gpus=silent, driver="590.1", missing_fields=(field,))
    fails(gate, fleet_with(told=facts(nvidia=old)), "a driver (590.1) that has no such field")


@pytest.mark.parametrize("gate", GATES)
def test_what_a_kind_of_gpu_does_not_have_is_not_asked_of_it(gate: str) -> None:
    passes(gate, fleet_with(told=facts(nvidia=Nvidia(gpus=gpus(told=dict.fromkeys(gpus()[0].told, "[N/A]"))))))


def test_a_lost_gpu_is_left_to_the_gate_that_says_so() -> None:
    lost = telling(problem="GPU is lost", told={})
    for gate in GATES:
        passes(gate, fleet_with(told=lost))
    fails("gpu-healthy", fleet_with(told=lost), "GPU is lost")


def test_a_row_that_waits_to_be_remapped_blocks() -> None:
    fails("row-remap", fleet_with(told=telling(remapped_rows_pending="Yes")), "remapped_rows.pending", "Yes on GPU 2")
    fails("row-remap", fleet_with(told=telling(retired_pages_pending="Yes")), "retired_pages.pending")
    fails("row-remap", fleet_with(told=telling(remapped_rows_pending="perhaps")), "found perhaps on GPU 2")


def test_what_the_driver_asks_for_is_done_first() -> None:
    fails("gpu-recovery", fleet_with(told=telling(gpu_recovery_action="Reset")), "Reset on GPU 2")
    known = {name: text for name, text in gpus()[0].told.items() if name != "gpu_recovery_action"}
    rows = tuple(gpu.model_copy(update={"told": known}) for gpu in gpus())
    old = Nvidia(gpus=rows, driver="550.54.15", missing_fields=("gpu_recovery_action",))
    passes("gpu-recovery", fleet_with(told=facts(nvidia=old)))


def test_a_gpu_in_parts_is_none() -> None:
    fails("mig", fleet_with(told=telling(mig="Enabled")), "want MIG off, found Enabled on GPU 2")
    fails("mig", fleet_with(told=telling(mig_mode_pending="Enabled")), "mig.mode.pending")


def test_persistence_mode_off_is_a_warning() -> None:
    warns("persistence", fleet_with(told=telling(persistence_mode="Disabled")), "Disabled on GPU 2", "nvidia-smi -pm 1")


def test_a_lowered_power_limit_is_a_warning() -> None:
    told = telling(enforced_power_limit="250.00")
    warns("power-limit", fleet_with(told=told), "want at least 400 W, found 250 W on GPU 2")
    fails("power-limit", fleet_with(told=telling(enforced_power_limit="much")), "in watts, found much")


@pytest.mark.parametrize(("bits", "text"), [("0x8", "HW slowdown"), ("0x48", "HW thermal"), ("0x80", "HW power brake")])
def test_hardware_that_protects_itself_blocks(bits: str, text: str) -> None:
    fails("clocks", fleet_with(told=telling(clocks_event_reasons_active=bits)), text, "on GPU 2")


def test_clocks_that_software_holds_down_are_a_warning_and_idle_or_power_capped_is_normal() -> None:
    warns("clocks", fleet_with(told=telling(clocks_event_reasons_active="0x2")), "application clocks set on GPU 2")
    passes("clocks", fleet_with(told=telling(clocks_event_reasons_active="0x0000000000000005")))
    fails("clocks", fleet_with(told=telling(clocks_event_reasons_active="Active")), "Active on GPU 2")


def test_a_narrow_or_slow_pcie_link_is_a_warning_but_not_of_an_idle_gpu() -> None:
    warns("pcie-link", fleet_with(told=telling(pcie_link_width_current="8")), "want lanes 16, found 8 on GPU 2")
    warns("pcie-link", fleet_with(told=telling(pcie_link_gen_current="1")), "want PCIe generation 4, found 1 on GPU 2")
    passes("pcie-link", fleet_with(told=telling(pcie_link_gen_current="1", pstate="P8")))
    fails("pcie-link", fleet_with(told=telling(pcie_link_width_current="wide")), "as a number, found wide")


HELD = {"memory_used_mib": 30000}


def holding(unit: str | None, index: int = 2, bus: str = "00000000:02:00.0") -> NodeFacts:
    held = telling(index, **HELD)
    process = GpuProcess(bus_id=bus, pid=4242, name="python3", memory_mib=29996, unit=unit)
    return held.model_copy(update={"nvidia": held.nvidia.model_copy(update={"processes": (process,)})})


def test_a_process_that_is_not_ours_is_named() -> None:
    passes("gpu-free", fleet_with())
    fails(
        "gpu-free",
        fleet_with(told=holding("session-3.scope")),
        "want GPU 2 free or held by vllm-glm.service, found 29996 MiB by python3, pid 4242, session-3.scope",
    )
    fails("gpu-free", fleet_with(told=holding(None)), "pid 4242, no unit")


def test_the_services_own_unit_may_hold_its_gpus() -> None:
    passes("gpu-free", fleet_with(told=holding("vllm-glm.service")))


def test_memory_that_nobody_admits_to_is_held_all_the_same() -> None:
    fails("gpu-free", fleet_with(told=telling(**HELD)), "30000 MiB held by nobody that nvidia-smi names")
    fails("gpu-free", fleet_with(told=telling(memory_used_mib=None)), "the memory in use of GPU 2, found nothing")


def test_only_the_gpus_of_the_service_need_be_free() -> None:
    passes("gpu-free", fleet_with(told=holding("session-3.scope"), gpus=[0, 1], layout={"tp": 2}))


def test_one_instance_has_gpus_of_one_kind() -> None:
    passes("gpus-alike", fleet_with())
    fails("gpus-alike", fleet_with(told=telling(name="NVIDIA A100-PCIE-40GB")), "A100-PCIE-40GB 81920 MiB on GPU 2")
    passes("gpus-alike", fleet_with(told=telling(name="NVIDIA L4"), gpus=[0, 1], layout={"tp": 2}))
