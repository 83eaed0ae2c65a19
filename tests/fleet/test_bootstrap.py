"""What a machine still needs is decided from what it is: one that conforms needs nothing, another name is as good."""

import hashlib
from typing import Any

import pytest

from fleet.declaration import NodeDeclaration
from fleet.nodes.bare import SUPPORTED, Entry, MachineFacts
from fleet.nodes.bootstrap import CDI_UNIT, LIMITS, SYSCTL, UNATTENDED, Bootstrap, decide, pin_text, wanted_files
from fleet.nodes.host import AptSource, HostDeclaration

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"
SUPPORT = {"/usr/local/lib/vllm-fleet/node": ("755", "#!/bin/bash\n")}
UNITS = {CDI_UNIT: "[Unit]\n"}
APT = AptSource(url="https://apt.example/deb", suite="./", key="/k.asc", pin={"nvidia-container-toolkit": "1.17.*"})
DECLARED = HostDeclaration(apt={"nvidia": APT}, sysctl={"vm.max_map_count": 1048576}, user="vllm", folders=("/srv/m",))


def node(gpus: int = 8, runtime: str = "podman") -> NodeDeclaration:
    return NodeDeclaration.model_validate(
        {
            "name": "n1",
            "address": "192.0.2.1",
            "gpus": {"count": gpus, "model": "A100", "memory_mib": 81920},
            "runtime": runtime,
        }
    )


def entry(text: str, mode: str = "644") -> Entry:
    return Entry(mode, "root:root", "regular file", hashlib.sha256(text.encode()).hexdigest())


def conforming(host: HostDeclaration = DECLARED, **other: Any) -> MachineFacts:
    """A machine that lacks nothing."""
    files = wanted_files(host, {name: KEY for name in host.apt}, SUPPORT)
    entries = {path: entry(text, "755" if path in SUPPORT else "644") for path, text in files.items()}
    entries |= {CDI_UNIT: entry(UNITS[CDI_UNIT]), "/srv/m": Entry("755", "vllm:vllm", "directory", None)}
    facts: dict[str, Any] = {
        "os_id": "debian",
        "os_version": "13",
        "systemd": True,
        "programs": frozenset({"podman", "nvidia-smi", "nvidia-ctk", "rsync", "curl"}),
        "units": {"chrony": "active"},
        "enabled": {"vllm-fleet-boot": "enabled", "vllm-fleet-cdi": "enabled"},
        "driver": "570.124.06",
        "persistence": True,
        "cdi": "/etc/cdi/nvidia.yaml",
        "cdi_driver": "570.124.06",
        "sysctl": {"vm.max_map_count": "1048576"},
        "users": frozenset({"vllm"}),
        "entries": entries,
    }
    return MachineFacts.model_validate(facts | other)


def needs(facts: MachineFacts, host: HostDeclaration = DECLARED, one: NodeDeclaration | None = None) -> Bootstrap:
    return decide(one or node(), host, facts, {name: KEY for name in host.apt}, SUPPORT, UNITS)


def names(found: Bootstrap) -> list[str]:
    return [step.name for step in found.steps]


def test_a_machine_that_conforms_needs_nothing() -> None:
    assert needs(conforming()) == Bootstrap(node="n1")


@pytest.mark.parametrize("system", sorted(SUPPORTED))
def test_four_systems_are_supported(system: tuple[str, str]) -> None:
    assert needs(conforming(os_id=system[0], os_version=system[1])) == Bootstrap(node="n1")


@pytest.mark.parametrize(
    "other",
    [
        {"os_id": "fedora", "os_version": "41"},
        {"os_version": "11"},
        {"os_id": "ubuntu", "os_version": "23.10"},
        {"os_id": None, "os_version": None},
        {"systemd": False},
    ],
)
def test_another_system_is_refused_with_what_is_supported(other: dict[str, Any]) -> None:
    found = needs(conforming(**other))
    assert found.steps == ()
    (refusal,) = found.refused
    assert "debian 12, debian 13, ubuntu 22.04, ubuntu 24.04" in refusal.want


def test_a_bare_machine_gets_everything_in_an_order_that_works() -> None:
    bare = MachineFacts(
        os_id="ubuntu", os_version="24.04", systemd=True, programs=frozenset({"nvidia-smi"}), driver="570.1"
    )
    kinds = [step.kind for step in needs(bare).steps]
    assert kinds.index("update") < kinds.index("install") < kinds.index("command")
    (install,) = (step for step in needs(bare).steps if step.kind == "install")
    assert install.packages == ("rsync", "curl", "podman", "nvidia-container-toolkit", "chrony")
    assert kinds.index("user") < kinds.index("folder")


@pytest.mark.parametrize("clock", ["systemd-timesyncd", "ntpsec", "openntpd", "chronyd"])
def test_a_clock_under_another_name_is_as_good(clock: str) -> None:
    assert needs(conforming(units={clock: "active"})) == Bootstrap(node="n1")
    assert "Keep the clock" in names(needs(conforming(units={clock: "inactive"})))


def test_a_runtime_that_came_from_elsewhere_is_not_installed_again() -> None:
    docker = {
        "programs": frozenset({"docker", "nvidia-smi", "nvidia-ctk", "rsync", "curl"}),
        "packages": {"docker-ce": "28"},
    }
    units = {"chrony": "active", "docker": "active"}
    assert needs(conforming(**docker, units=units, docker_knows_nvidia=True), one=node(runtime="docker")).steps == ()


@pytest.mark.parametrize("path", [LIMITS, SYSCTL, "/etc/apt/sources.list.d/vllm-fleet-nvidia.sources"])
def test_a_file_that_someone_changed_is_put_right_alone(path: str) -> None:
    facts = conforming()
    changed = needs(facts.model_copy(update={"entries": facts.entries | {path: entry("something else")}}))
    assert [step.path for step in changed.steps if step.kind == "file"] == [path]


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
    assert "Install the driver: nvidia-driver-570-server" in names(found)
    assert [step.kind for step in found.steps][-1] == "reboot" or "Reboot for the driver" in names(found)


def test_a_driver_is_never_changed_under_a_running_engine() -> None:
    declared = DECLARED.model_validate(
        DECLARED.model_dump() | {"driver": {"package": "nvidia-driver-570-server", "version": "570.*"}}
    )
    found = needs(conforming(driver="565.57.01", running=frozenset({"glm"})), declared)
    assert not any(step.kind in ("install", "reboot") for step in found.steps)
    assert "stop glm first" in str(found.refused[0])


def test_a_driver_on_disk_that_does_not_run_yet_is_told_as_a_reboot_that_is_due() -> None:
    found = needs(conforming(module="570.124.06", module_on_disk="570.133.20"))
    assert [step.kind for step in found.steps] == ["reboot"]
    assert "570.133.20 is installed: a reboot is due" in found.notes[0]


def test_an_installed_driver_is_held_and_unattended_upgrades_keep_away() -> None:
    packages = {"nvidia-driver-570-server": "570.124.06-1", "unattended-upgrades": "2.9"}
    found = needs(conforming(packages=packages))
    assert names(found) == ["Hold nvidia-driver-570-server", "Keep unattended upgrades away from the driver"]
    assert found.steps[1].path == UNATTENDED


def test_a_machine_with_nvswitch_needs_its_fabric_manager() -> None:
    (refusal,) = needs(conforming(nvswitch=True)).refused
    assert "the fabric manager on a machine with NVSwitch" in refusal.want
    programs = frozenset({"podman", "nvidia-smi", "nvidia-ctk", "rsync", "curl", "nv-fabricmanager"})
    assert names(needs(conforming(nvswitch=True, programs=programs))) == ["Run the fabric manager"]


def test_persistence_links_and_settings_are_brought_back() -> None:
    found = needs(
        conforming(persistence=False, without_char_link=("/dev/nvidia0",), sysctl={"vm.max_map_count": "65530"})
    )
    assert names(found) == [
        "Make the links of /dev/char (/dev/nvidia0 had none)",
        "Keep the driver loaded",
        "Load the kernel's settings (vm.max_map_count: 65530 -> 1048576)",
    ]


def test_a_machine_without_gpus_needs_nothing_of_nvidia() -> None:
    programs = frozenset({"podman", "rsync", "curl"})
    assert needs(conforming(driver=None, programs=programs, cdi=None), one=node(gpus=0)) == Bootstrap(node="n1")


def test_only_pinned_packages_come_from_a_pinned_archive() -> None:
    assert pin_text(APT) == (
        'Package: *\nPin: origin "apt.example"\nPin-Priority: -1\n\n'
        "Package: nvidia-container-toolkit\nPin: version 1.17.*\nPin-Priority: 1001\n"
    )
