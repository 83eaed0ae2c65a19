"""What a machine still needs is decided from what it is: one that conforms needs nothing, another name is as good."""

import hashlib
import re
from typing import Any

import pytest

from fleet.declaration import NodeDeclaration
from fleet.nodes.archive import archives_in
from fleet.nodes.bare import SUPPORTED, Entry, MachineFacts
from fleet.nodes.bootstrap import LIMITS, SYSCTL, decide, pin_text, wanted_files
from fleet.nodes.driver import CDI_UNIT, NEEDRESTART, UNATTENDED
from fleet.nodes.host import AptSource, HostDeclaration
from fleet.nodes.step import Bootstrap

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
        "podman": "5.4.2",
        "sysctl": {"vm.max_map_count": "1048576"},
        "users": {"vllm": "vllm"},
        "architecture": "amd64",
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
    assert install.packages == ("rsync", "curl", "podman", "nvidia-container-toolkit=1.17.*", "chrony")
    assert kinds.index("user") < kinds.index("folder")


@pytest.mark.parametrize("clock", ["systemd-timesyncd", "ntpsec", "openntpd", "chronyd"])
def test_a_clock_under_another_name_is_as_good(clock: str) -> None:
    assert needs(conforming(units={clock: "active"})) == Bootstrap(node="n1")
    assert "Keep the clock" in names(needs(conforming(units={clock: "inactive"})))


def test_a_clock_that_is_declared_as_none_is_not_looked_at() -> None:
    declared = HostDeclaration.model_validate(DECLARED.model_dump() | {"clock": "none"})
    assert needs(conforming(declared, units={}), declared) == Bootstrap(node="n1")


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


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (Entry("755", "vllm:vllm", "directory by link", None), None),
        (Entry("755", "root:root", "directory by link", None), "found a folder by link of root:root"),
        (Entry("644", "root:root", "regular file", "0" * 64), "found a regular file of root:root"),
        (Entry("777", "root:root", "symbolic link", None), "want a folder at /srv/m, owned by vllm"),
    ],
)
def test_what_stands_in_a_folders_place_is_refused_and_a_link_to_a_folder_is_as_good(
    there: Entry, told: str | None
) -> None:
    facts = conforming()
    found = needs(facts.model_copy(update={"entries": facts.entries | {"/srv/m": there}}))
    assert not found.steps
    assert [told in str(refusal) for refusal in found.refused] == ([] if told is None else [True])


@pytest.mark.parametrize("kind", ["directory", "symbolic link", "directory by link", "fifo"])
def test_what_stands_in_a_files_place_is_refused_before_anything_changes(kind: str) -> None:
    facts = conforming()
    found = needs(facts.model_copy(update={"entries": facts.entries | {LIMITS: Entry("755", "root:root", kind, None)}}))
    assert [str(refusal) for refusal in found.refused] == [
        f"want a file at {LIMITS}, found a {kind}; move it out of the way; a bootstrap replaces files only"
    ]


def test_a_pinned_package_is_installed_in_its_version_or_not_at_all() -> None:
    found = needs(conforming(programs=frozenset({"podman", "nvidia-smi", "rsync", "curl"})))
    assert [step.packages for step in found.steps if step.kind == "install"] == [("nvidia-container-toolkit=1.17.*",)]


def test_a_package_in_another_version_than_its_pin_is_told_and_left_alone() -> None:
    """Whatever it is, a container runtime is nothing to change under an engine by the way."""
    other = needs(conforming(packages={"nvidia-container-toolkit": "1.99.0-1"}))
    assert not other.steps and not other.refused
    (note,) = other.notes
    assert note.startswith("nvidia-container-toolkit 1.99.0-1 is installed, 1.17.* is pinned; apt-get install")
    assert needs(conforming(packages={"nvidia-container-toolkit": "1.17.8-1"})) == Bootstrap(node="n1")


def test_an_archive_may_give_others_besides_its_pinned_packages() -> None:
    """apt knows no `Package: *` with a version: it warned, and went on as if nothing stood there."""
    both = APT.model_copy(update={"pin": {"*": "*", **APT.pin}})
    assert pin_text(both) == "Package: nvidia-container-toolkit\nPin: version 1.17.*\nPin-Priority: 1001\n"
    with pytest.raises(ValueError, match="found a version for all"):
        AptSource.model_validate(APT.model_dump() | {"pin": {"*": "1.17.*"}})


@pytest.mark.parametrize(
    ("file", "text", "taken"),
    [
        ("own.list", "deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] https://apt.example/deb ./\n", True),
        ("own.list", "# a comment\ndeb https://apt.example/deb/ ./ # another\n", True),
        ("own.list", "deb-src https://apt.example/deb ./\n# deb https://apt.example/deb ./\n", False),
        ("own.list", "deb https://apt.example/deb /\n", False),
        ("own.sources", "Types: deb deb-src\nURIs: https://a.example\n https://apt.example/deb\nSuites: ./ x\n", True),
        ("own.sources", "# ours\nEnabled: no\nTypes: deb\nURIs: https://apt.example/deb\nSuites: ./\n", False),
        ("own.sources", "Types: deb\nURIs: https://b.example\nSuites: ./\n\nTypes: deb\nURIs: https://apt.example/deb\n"
         "Suites: ./\nSigned-By:\n -----BEGIN PGP\n .\n abc\n", True),
    ],
)  # fmt: skip
def test_an_archive_that_the_machine_has_under_another_name_is_recognised(file: str, text: str, taken: bool) -> None:
    """With a second file that names another key apt reads no archive at all (`Conflicting values set`)."""
    bare = conforming()
    entries = {path: there for path, there in bare.entries.items() if not path.startswith("/etc/apt/")}
    archives = tuple(archives_in(f"/etc/apt/sources.list.d/{file}", text))
    found = needs(bare.model_copy(update={"entries": entries, "archives": archives}))
    written = [step.path for step in found.steps if step.kind == "file"]
    pins = "/etc/apt/preferences.d/vllm-fleet-nvidia"
    ours = ["/etc/apt/keyrings/vllm-fleet-nvidia.asc", "/etc/apt/sources.list.d/vllm-fleet-nvidia.sources", pins]
    assert written == ([pins] if taken else ours)


def test_an_archive_is_the_same_whether_apt_or_the_owner_puts_the_architecture_in_its_place() -> None:
    (one,) = archives_in("/x.list", "deb https://nvidia.example/stable/deb/$(ARCH) /\n")
    assert one.same("https://nvidia.example/stable/deb/amd64", "/", "amd64")
    assert not one.same("https://nvidia.example/stable/deb/amd64", "/", "arm64")


def test_an_archive_that_is_named_twice_is_left_to_its_owner_and_one_without_a_component_is_refused() -> None:
    facts = conforming(archives=tuple(archives_in("/etc/apt/own.list", "deb https://apt.example/deb ./\n")))
    ours = "/etc/apt/sources.list.d/vllm-fleet-nvidia.sources"
    removed, update = needs(facts).steps
    assert (removed.command, update.kind) == (("rm", "-f", ours), "update")
    two = APT.model_copy(update={"suite": "noble", "components": ("main", "extra")})
    declared = DECLARED.model_copy(update={"apt": {"nvidia": two}})
    other = archives_in("/etc/apt/own.list", "deb https://apt.example/deb noble main\n")
    (refusal,) = needs(conforming(declared, archives=tuple(other)), declared).refused
    assert "found it without extra in /etc/apt/own.list" in str(refusal)


def test_a_folder_goes_to_the_user_and_its_own_group_and_keeps_its_mode() -> None:
    facts = conforming(users={"vllm": "mlops"})
    none = facts.model_copy(update={"entries": {path: e for path, e in facts.entries.items() if path != "/srv/m"}})
    (made,) = needs(none).steps
    assert (made.owner, made.group, made.mode) == ("vllm", "mlops", "755")
    there = Entry("2770", "nobody:nogroup", "directory", None)
    (given,) = needs(facts.model_copy(update={"entries": facts.entries | {"/srv/m": there}})).steps
    assert given.name == "Give /srv/m to vllm, which belongs to nobody:nogroup"
    assert (given.owner, given.group, given.mode) == ("vllm", "mlops", "2770")


def test_what_cannot_be_written_is_refused_before_anything_changes() -> None:
    facts = conforming(stuck={LIMITS: "/etc, which cannot be written"})
    assert needs(facts) == Bootstrap(node="n1")
    (refusal,) = needs(facts.model_copy(update={"entries": facts.entries | {LIMITS: entry("other")}})).refused
    assert str(refusal).startswith(f"want a file at {LIMITS}, found /etc, which cannot be written")


def test_another_system_is_refused_with_what_is_missing_there() -> None:
    bare = MachineFacts(os_id="rocky", os_version="9.4", systemd=True, programs=frozenset({"curl", "podman"}))
    found = needs(bare)
    assert found.refused and not found.steps
    assert found.notes == ("missing there: rsync, nvidia-container-toolkit, chrony, the user vllm, /srv/m",)


@pytest.mark.parametrize("path", ["/", "//", "/etc", "/usr/", "/var/./", "/home"])
def test_a_folder_of_the_system_is_not_given_to_a_user(path: str) -> None:
    with pytest.raises(ValueError, match="want a folder of its own"):
        HostDeclaration(folders=(path,))


def test_an_archive_with_a_password_is_refused() -> None:
    with pytest.raises(ValueError, match="without a user or password"):
        AptSource(url="https://me:secret@apt.example/deb", suite="./", key="/k")


def test_a_user_may_have_any_plain_name_of_a_system() -> None:
    for name in ("vllm", "svc_vllm", "_vllm", "vllm-1"):
        assert HostDeclaration(user=name).user == name
    for name in ("Vllm", "1", "a b", "-a", "a" * 32):
        with pytest.raises(ValueError, match="want a user's name"):
            HostDeclaration(user=name)


def test_a_setting_that_a_later_file_takes_back_at_the_next_boot_is_told() -> None:
    later = ("/etc/sysctl.d/99-own.conf", "vm.max_map_count", "65530")
    found = needs(conforming(sysctl_later=(later, ("/etc/sysctl.d/99-own.conf", "vm.swappiness", "1"))))
    assert not found.steps
    (note,) = found.notes
    assert note.startswith("/etc/sysctl.d/99-own.conf comes later and says vm.max_map_count = 65530")
    right = ("/usr/lib/sysctl.d/zz.conf", "vm.max_map_count", "1048576")
    assert needs(conforming(sysctl_later=(right, later))) == Bootstrap(node="n1")


def test_hugepages_that_the_machine_does_not_have_are_refused_before_the_kernel_takes_all_it_can_get() -> None:
    declared = DECLARED.model_copy(update={"hugepages_2mib": 1024})
    facts = conforming(
        declared, memory_bytes=2 << 30, sysctl={"vm.max_map_count": "1048576", "vm.nr_hugepages": "1024"}
    )
    assert needs(facts, declared) == Bootstrap(node="n1")
    (refusal,) = needs(facts.model_copy(update={"memory_bytes": 1 << 30}), declared).refused
    assert "want 2.0 GiB as hugepages, found 1.0 GiB of memory" in str(refusal)


def test_the_archives_that_are_declared_must_answer_when_the_lists_are_read() -> None:
    bare = MachineFacts(os_id="debian", os_version="13", systemd=True, architecture="arm64", driver="570.1")
    other = APT.model_copy(update={"url": "https://apt.example/deb/$(ARCH)/"})
    found = needs(bare, DECLARED.model_copy(update={"apt": {"nvidia": other}}))
    assert [step.packages for step in found.steps if step.kind == "update"] == [("https://apt.example/deb/arm64",)]


def test_an_archive_that_is_declared_twice_is_refused_for_apt_would_read_none() -> None:
    """It would have two keys in two files, and apt wants one for both."""
    noble = {"url": "https://apt.example/deb", "suite": "noble", "components": ["main"], "key": "/k"}
    twice = {"a": noble, "b": noble | {"url": "https://apt.example/deb/", "components": ["extra"]}}
    with pytest.raises(ValueError, match="want each archive once, with all its components, found it as a and b"):
        HostDeclaration.model_validate({"apt": twice})
    other = twice | {"b": noble | {"suite": "jammy", "pin": {"podman": "2.*"}}}
    assert HostDeclaration.model_validate({"apt": other})
    with pytest.raises(ValueError, match=r"want one pin of podman, found 1\.\* and 2\.\*"):
        HostDeclaration.model_validate({"apt": other | {"a": noble | {"pin": {"podman": "1.*"}}}})
