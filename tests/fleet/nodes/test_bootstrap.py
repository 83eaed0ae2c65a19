"""What a machine still needs is decided from what it is: one that conforms needs nothing, another name is as good."""

from typing import Any

import pytest

from fleet.nodes.bare import SUPPORTED, Entry, MachineFacts
from fleet.nodes.bootstrap import LIMITS, SYSCTL
from fleet.nodes.host import HostDeclaration
from fleet.nodes.step import Bootstrap
from tests.fleet.nodes.machines import DECLARED, conforming, entry, names, needs, node


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
