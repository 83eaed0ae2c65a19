"""The machine goes on as it is: clock, name, reboots, updates, modules."""

import pytest

from fleet.gate import FleetView
from fleet.nodes.machine import Updates
from tests.fleet.builders import facts, fails, fleet, fleet_with, machine, node, passes, warns


@pytest.mark.parametrize(("ahead", "text"), [(31.0, "31 s ahead"), (-600.0, "600 s behind")])
def test_a_clock_that_is_wrong_blocks(ahead: float, text: str) -> None:
    passes("clock", fleet_with())
    fails("clock", fleet_with(told=facts(clock_ahead_s=ahead)), text)


def test_a_clock_that_was_not_compared_is_not_right_but_a_recording_has_none() -> None:
    fails("clock", fleet_with(told=facts(clock_ahead_s=None)), "no comparison")
    passes("clock", fleet_with(node(recording="/a1.probe"), facts(clock_ahead_s=None)))


def test_a_clock_that_nobody_sets_is_a_warning_and_a_container_has_its_hosts() -> None:
    passes("clock-set", fleet_with())
    warns("clock-set", fleet_with(told=facts(machine=machine(clocks=()))), "no daemon that does")
    passes("clock-set", fleet_with(told=facts(machine=machine(clocks=(), container="systemd-nspawn"))))
    fails("clock-set", fleet_with(told=facts(machine=machine(error="wings"))), "wings")


def test_a_node_that_does_not_know_its_own_name_is_a_warning() -> None:
    passes("own-name", fleet_with())
    warns("own-name", fleet_with(told=facts(machine=machine(resolves_itself=False))), "a1 resolves to nothing")
    fails("own-name", fleet_with(told=facts(machine=machine(resolves_itself=None))), "found nothing")


def test_a_reboot_that_waits_is_a_warning() -> None:
    passes("reboot-pending", fleet_with())
    waiting = machine(reboot_required=True, reboot_packages=("linux-image-6.8.0-60", "libc6"))
    warns("reboot-pending", fleet_with(told=facts(machine=waiting)), "one for linux-image-6.8.0-60, libc6", "reboot a1")
    warns("reboot-pending", fleet_with(told=facts(machine=machine(reboot_required=True))), "does not say its name")


def test_modules_of_another_kernel_only_are_a_warning() -> None:
    passes("reboot-pending", fleet_with(told=facts(machine=machine(module_folders=("6.8",), running_modules=True))))
    gone = facts(kernel="6.8.0-55", machine=machine(module_folders=("6.8.0-60",)))
    warns("reboot-pending", fleet_with(told=gone), "want modules of kernel 6.8.0-55, found only those of 6.8.0-60")


APT = ("apt-daily-upgrade.timer",)


@pytest.mark.parametrize(
    "updates",
    [
        Updates(),
        Updates(timers=APT),
        Updates(timers=APT, upgrades=False),
        Updates(timers=APT, upgrades=True, spares_driver=True),
        Updates(upgrades=True),
    ],
)
def test_updates_that_leave_the_driver_alone_pass(updates: Updates) -> None:
    passes("driver-updates", fleet_with(told=facts(machine=machine(updates=updates))))


@pytest.mark.parametrize("updates", [Updates(timers=APT, upgrades=True), Updates(timers=("dnf-automatic.timer",))])
def test_updates_that_may_replace_the_driver_are_a_warning(updates: Updates) -> None:
    warns("driver-updates", fleet_with(told=facts(machine=machine(updates=updates))), "may replace it", "Blacklist")


def test_peer_memory_is_loaded_where_it_is_wanted() -> None:
    passes("peermem", fleet_with())
    fails("peermem", fleet_with(node(peermem=True)), "it is not loaded", "modprobe nvidia-peermem")
    passes("peermem", fleet_with(node(peermem=True), facts(machine=machine(peermem=True))))


def named(*names: str, **told: object) -> FleetView:
    """a1 where these names of other machines must resolve."""
    view = fleet_with(told=facts(**told)).views[0]
    placement = view.placement.model_copy(update={"names": names})
    return fleet(view.model_copy(update={"placement": placement}))


def test_a_node_resolves_the_machines_that_it_is_sent_to() -> None:
    passes("peer-names", fleet_with())
    passes("peer-names", named("mirror.example", "a2.example", names={"mirror.example": True, "a2.example": True}))
    gone = named("mirror.example", "a2.example", names={"mirror.example": True, "a2.example": False})
    fails("peer-names", gone, "want an address of a2.example, found it resolves to nothing on a1", "/etc/hosts")


def test_a_name_that_was_not_asked_about_is_not_resolved() -> None:
    fails("peer-names", named("mirror.example"), "want whether mirror.example resolves, found nothing")
    late = named("mirror.example", names_error="it did not end within 20 s")
    fails("peer-names", late, "found it did not end within 20 s")
