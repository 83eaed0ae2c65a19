"""The driver of a machine, what it brings along, and what it must not be changed under."""

import re

import pytest

from fleet.nodes.driver import NEEDRESTART, UNATTENDED
from fleet.nodes.host import AptSource
from fleet.nodes.step import Bootstrap
from tests.fleet.nodes.machines import DECLARED, conforming, names, needs


def test_a_new_driver_gets_a_new_cdi_specification() -> None:
    assert names(needs(conforming(cdi_driver="565.57.01"))) == [
        "Generate the CDI specification (it is for 565.57.01, the driver is 570.124.06)"
    ]


def test_without_a_driver_the_machine_is_refused_unless_a_package_is_declared() -> None:
    (refusal,) = needs(conforming(driver=None, programs=frozenset({"podman", "rsync", "curl", "nvidia-ctk"}))).refused
    assert "the NVIDIA driver, found no nvidia-smi" in str(refusal)
    declared = DECLARED.model_validate(
        DECLARED.model_dump() | {"driver": {"package": "nvidia-driver-570-server", "version": "570.*"}}
    )
    found = needs(conforming(driver="565.57.01"), declared)
    assert "Install the driver: nvidia-driver-570-server=570.*" in names(found)
    assert [step.kind for step in found.steps][-1] == "reboot" or "Reboot for the driver" in names(found)


def test_a_driver_is_never_changed_under_a_running_engine() -> None:
    declared = DECLARED.model_validate(
        DECLARED.model_dump() | {"driver": {"package": "nvidia-driver-570-server", "version": "570.*"}}
    )
    found = needs(conforming(driver="565.57.01", running=frozenset({"glm"})), declared)
    assert not any(step.kind in ("install", "reboot") for step in found.steps)
    assert "stop glm first" in str(found.refused[0])
    by_hand = needs(conforming(driver="565.57.01", gpu_processes=("4711, python3",)), declared)
    assert not any(step.kind in ("install", "reboot") for step in by_hand.steps)
    assert "stop process 4711 (python3) first" in str(by_hand.refused[0])


def test_a_driver_on_disk_that_does_not_run_yet_is_told_as_a_reboot_that_is_due() -> None:
    found = needs(conforming(module="570.124.06", module_on_disk="570.133.20"))
    assert [step.kind for step in found.steps] == ["reboot"]
    assert "570.133.20 is installed: a reboot is due" in found.notes[0]


UBUNTU = {
    "nvidia-driver-570-server-open": "570.133.20-0ubuntu0.24.04.1",
    "nvidia-utils-570-server": "570.133.20-0ubuntu0.24.04.1",
    "libnvidia-compute-570-server": "570.133.20-0ubuntu0.24.04.1",
    "linux-modules-nvidia-570-server-open-6.8.0-60-generic": "6.8.0-60.63",
}


DEBIAN = {
    "nvidia-driver": "535.247.01-1~deb12u1",
    "nvidia-kernel-open-dkms": "535.247.01-1~deb12u1",
    "libcuda1": "535.247.01-1~deb12u1",
    "firmware-nvidia-gsp": "535.247.01-1~deb12u1",
}


OTHERS = {
    "nvidia-container-toolkit": "1.17.8-1",
    "libnvidia-container1": "1.17.8-1",
    "nvidia-cuda-toolkit": "12.2",
    "libc6": "2.41",
}


@pytest.mark.parametrize("driver", [UBUNTU, DEBIAN], ids=["ubuntu", "debian"])
def test_every_package_of_an_installed_driver_is_held_and_unattended_upgrades_keep_away(driver: dict[str, str]) -> None:
    found = needs(conforming(packages=driver | OTHERS | {"unattended-upgrades": "2.9", "needrestart": "3.6"}))
    assert [step.kind for step in found.steps] == ["hold", "file", "file"]
    assert found.steps[0].packages == tuple(sorted(driver))
    assert [step.path for step in found.steps[1:]] == [UNATTENDED, NEEDRESTART]
    starts = re.findall(r'"([^"]+)"', found.steps[1].text)
    kept = [name for name in driver | OTHERS if any(re.match(start, name) for start in starts)]
    assert kept == list(driver)  # unattended-upgrades matches each as a pattern from the beginning


def test_a_driver_that_is_held_already_needs_nothing() -> None:
    assert needs(conforming(packages=UBUNTU, held=frozenset(UBUNTU))) == Bootstrap(node="n1")


def test_a_newer_driver_that_is_declared_replaces_one_that_is_held() -> None:
    declared = DECLARED.model_validate(
        DECLARED.model_dump() | {"driver": {"package": "nvidia-driver-570-server-open", "version": "570.*"}}
    )
    old = {name: version.replace("570.133.20", "565.57.01") for name, version in UBUNTU.items()}
    found = needs(conforming(packages=old, held=frozenset(old), driver="565.57.01", cdi_driver="565.57.01"), declared)
    again, unhold, install, hold, reboot = found.steps
    assert again.name == "See once more that nothing has a GPU open"
    assert unhold.command == ("apt-mark", "unhold", *sorted(old))
    assert install.packages == ("nvidia-driver-570-server-open=570.*",)
    assert hold.name == "Hold the driver" and reboot.kind == "reboot"


def test_a_driver_that_is_installed_and_does_not_run_yet_is_not_installed_again() -> None:
    declared = DECLARED.model_validate(
        DECLARED.model_dump() | {"driver": {"package": "nvidia-driver-570-server-open", "version": "570.*"}}
    )
    facts = conforming(packages=UBUNTU, held=frozenset(UBUNTU), driver="565.57.01", cdi_driver="565.57.01")
    assert [step.kind for step in needs(facts, declared).steps] == ["reboot"]


@pytest.mark.parametrize(
    ("system", "podman", "refused"),
    [
        (("debian", "12"), None, None),
        (("debian", "13"), None, None),
        (("ubuntu", "24.04"), None, None),
        (("ubuntu", "22.04"), None, "3.4.4 in the archive of ubuntu 22.04"),
        (("ubuntu", "22.04"), "3.4.4", "3.4.4"),
        (("ubuntu", "22.04"), "4.6.2", None),
        (("debian", "12"), "4.3.1", None),
        (("debian", "13"), "soon", "soon"),
    ],
)
def test_a_podman_that_cannot_give_a_container_its_gpus_is_refused(
    system: tuple[str, str], podman: str | None, refused: str | None
) -> None:
    programs = {"nvidia-smi", "nvidia-ctk", "rsync", "curl"} | ({"podman"} if podman else set())
    one = {"os_id": system[0], "os_version": system[1], "programs": frozenset(programs), "podman": podman}
    found = needs(conforming(**one))
    assert [refusal.got for refusal in found.refused] == ([refused] if refused else [])
    newer = AptSource(url="https://apt.example/podman", suite="./", key="/k.asc", pin={"podman": "5.*"})
    declared = DECLARED.model_validate(DECLARED.model_dump() | {"apt": {"podman": newer.model_dump()}})
    if podman is None:
        assert not needs(conforming(declared, **one), declared).refused


def test_a_machine_with_nvswitch_needs_its_fabric_manager() -> None:
    (refusal,) = needs(conforming(nvswitch=True)).refused
    assert "the fabric manager on a machine with NVSwitch" in refusal.want
    programs = frozenset({"podman", "nvidia-smi", "nvidia-ctk", "rsync", "curl", "nv-fabricmanager"})
    assert names(needs(conforming(nvswitch=True, programs=programs))) == ["Run the fabric manager"]
