"""Behind an NVLink switch the fabric is ready, and its manager lives and has the driver's version."""

from fleet.nodes.node import NodeFacts
from fleet.nodes.nvidia import Nvidia
from tests.fleet.builders import deep, facts, fails, fleet_with, gpus, machine, passes


def fabric(state: str, status: str) -> NodeFacts:
    told = {"fabric.state": state, "fabric.status": status}
    return facts(nvidia=Nvidia(gpus=gpus(told=told), driver="570.86.15"))


def test_a_fabric_that_is_ready_passes() -> None:
    passes("fabric", fleet_with())
    passes("fabric", fleet_with(told=fabric("Completed", "Success")))
    passes("fabric", fleet_with(told=fabric("Not Supported", "N/A")))


def test_a_fabric_that_is_not_ready_is_named() -> None:
    fails("fabric", fleet_with(told=fabric("In Progress", "N/A")), "found In Progress, N/A on GPU 0", "error 802")
    fails("fabric", fleet_with(told=fabric("Completed", "Insufficient Resources")), "Insufficient Resources")


def test_a_fabric_that_is_not_told_is_not_ready() -> None:
    told = facts(nvidia=Nvidia(gpus=gpus(told={"fabric.state": "Completed"})[:7], driver="570.86.15"))
    silent = told.nvidia.gpus[0].model_copy(update={"told": {}})
    view = facts(nvidia=Nvidia(gpus=(silent, *told.nvidia.gpus[1:]), driver="570.86.15"))
    fails("fabric", fleet_with(told=view), "want fabric.state of GPU 0, found nothing")


def switched(alive: bool = True, **told: object) -> NodeFacts:
    """a1 with six NVSwitches."""
    return facts(machine=machine(nvswitches=6, fabric_manager=alive), deep=deep(**told))


def test_a_machine_with_nvswitches_runs_a_fabric_manager() -> None:
    passes("fabric-manager", fleet_with())
    passes("fabric-manager", fleet_with(told=switched()))
    fails("fabric-manager", fleet_with(told=switched(alive=False)), "want a fabric manager for 6 NVSwitches", "none")
    odd = facts(machine=machine(nvswitches=6, fabric_manager=True, error="want what the machine is, found 'wings'"))
    fails("fabric-manager", fleet_with(told=odd), "found 'wings'")


def test_the_fabric_manager_has_the_driver_s_version_to_the_last_digit() -> None:
    said = "Fabric Manager version is : "
    passes("fabric-version", fleet_with())
    passes("fabric-version", fleet_with(told=switched(versions={"nv-fabricmanager": f"{said}570.86.15"})))
    other = switched(versions={"nv-fabricmanager": f"{said}570.86.10"})
    fails("fabric-version", fleet_with(told=other), "want version 570.86.15, as the driver, found 570.86.10")


def test_a_fabric_manager_that_does_not_tell_its_version_is_not_passed() -> None:
    fails("fabric-version", fleet_with(told=switched()), "no program nv-fabricmanager")
    fails(
        "fabric-version", fleet_with(told=switched(versions={"nv-fabricmanager": "wings"})), "found wings; driver 570"
    )
    unread = switched(versions_error="want versions, found 'nv-fabricmanager: exit 1'")
    fails("fabric-version", fleet_with(told=unread), "nv-fabricmanager: exit 1")
