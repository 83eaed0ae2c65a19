"""What the machine tells of itself, of its CDI specifications and of peer access; and texts that nobody understands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.cdi import parse_cdi
from facts.parse.frames import Section
from facts.parse.p2p import parse_p2p
from facts.parse.probe import read_mounts
from facts.parse.system import parse_system
from fleet.nodes.machine import CdiSpec, IommuGroup, Limit, Machine, Updates
from tests.facts.captures import CAPTURES, require_captures

LIMITS = """limit Max open files            1024                 524288               files
limit Max locked memory         8388608              unlimited            bytes
"""
WHOLE = f"""nr_open 1073741816
{LIMITS}capabilities 000001ffffffffff
cpus_allowed 0-31,64-95
memory MemAvailable: 1031257000 kB
memory HugePages_Total: 16
memory HugePages_Free: 8
memory Hugepagesize: 2048 kB
governor powersave 96
governor performance 32
clock systemd-timesyncd
resolves yes
reboot required
reboot linux-image-6.8.0-60-generic
modules /lib/modules/6.8.0-55-generic
modules /lib/modules/6.8.0-60-generic
modules running
updates timer apt-daily-upgrade.timer
updates apt APT::Periodic::Unattended-Upgrade "1";
updates spare "nvidia-";
selinux enforce 1
selinux devices 1 1
device nvidia0
device nvidiactl
char 0
char 255
module nvidia 570.86.15
module nvidia_peermem
nvswitch 0000:07:00.0
fabricmanager 812
iommu 0000:07:00.0 17 DMA-FQ
"""


def printed(text: str, code: int | None = 0) -> Section:
    return Section(text=text, code=code)


def test_a_machine_tells_everything() -> None:
    assert parse_system(printed(WHOLE)) == Machine(
        nr_open=1073741816,
        open_files=Limit(soft=1024, hard=524288),
        locked_memory=Limit(soft=8388608, hard=None),
        capabilities=0x1FFFFFFFFFF,
        cpus_allowed="0-31,64-95",
        governors={"powersave": 96, "performance": 32},
        memory_available=1031257000 * 1024,
        huge_pages=16,
        huge_pages_free=8,
        huge_page_bytes=2 * 2**20,
        clocks=("systemd-timesyncd",),
        resolves_itself=True,
        reboot_required=True,
        reboot_packages=("linux-image-6.8.0-60-generic",),
        module_folders=("6.8.0-55-generic", "6.8.0-60-generic"),
        running_modules=True,
        updates=Updates(timers=("apt-daily-upgrade.timer",), upgrades=True, spares_driver=True),
        selinux_enforced=True,
        selinux_devices=True,
        devices=("nvidia0", "nvidiactl"),
        char_links=("0", "255"),
        module_version="570.86.15",
        peermem=True,
        nvswitches=1,
        fabric_manager=True,
        iommu=(IommuGroup(bus="0000:07:00.0", group="17", type="DMA-FQ"),),
    )


@pytest.mark.parametrize(
    "line",
    [
        "wings many",
        "nr_open much",
        "limit Max open files none none",
        "capabilities zz",
        "cpus_allowed 3-1",
        "memory MemAvailable: lots",
        "governor perf",
        "resolves perhaps",
        "selinux enforce maybe",
        "updates apt APT::Periodic::Unattended-Upgrade yes;",
        "iommu somewhere",
    ],
)
def test_a_line_that_is_not_understood_is_an_error_with_its_text(line: str) -> None:
    machine = parse_system(printed(f"{LIMITS}{line}\n"))
    assert line.split(" ", 1)[1].split()[-1] in (machine.error or ""), machine.error


@pytest.mark.parametrize(("text", "code"), [("", 0), ("resolves yes\n", 0), (WHOLE, 1), (WHOLE, None)])
def test_a_machine_that_did_not_tell_all_is_an_error(text: str, code: int | None) -> None:
    assert parse_system(printed(text, code)).error


SPEC = "spec /etc/cdi/nvidia.yaml\nname 0\nname all\nlibrary 580.95.05\nmissing /dev/nvidia7\n"


def test_a_specification_tells_its_names_its_driver_and_what_is_missing() -> None:
    told = parse_cdi(printed(SPEC))
    assert told.error is None
    assert told.specs == (
        CdiSpec(file="/etc/cdi/nvidia.yaml", names=("0", "all"), library="580.95.05", missing=("/dev/nvidia7",)),
    )
    assert parse_cdi(printed("")).specs == () and parse_cdi(printed("")).error is None


@pytest.mark.parametrize("text", ["name 0\n", "spec wings\n", f"{SPEC}name a b\n", "unreadable /etc/cdi/nvidia.yaml\n"])
def test_specifications_that_are_not_understood_are_an_error(text: str) -> None:
    assert text.splitlines()[-1] in (parse_cdi(printed(text)).error or "")


def peers(name: str) -> list[str]:
    """The matrices of one recorded file, each as one text."""
    lines = (CAPTURES / "extra" / name).read_text().splitlines()
    blocks: list[list[str]] = [[]]
    for line in lines[1:]:
        if line.split()[:1] == ["GPU0"] and "X" not in line.split():
            blocks.append([])
        blocks[-1].append(line)
    return ["\n".join(block) for block in blocks[1:]]


def test_real_matrices_of_peer_access_are_read() -> None:
    require_captures()
    (pairs,) = peers("x10_topo_p2p_rw_nvlink_pairs.txt")
    rows, error = parse_p2p(printed(pairs))
    assert error is None
    assert rows[0] == ("X", "CNS", "CNS", "OK") and rows[1] == ("CNS", "X", "OK", "CNS")
    told = [parse_p2p(printed(text)) for text in peers("x19_topo_p2p_rw_consumer.txt")]
    assert [error for _, error in told] == [None, None, None]
    assert [rows[0][1] for rows, _ in told] == ["GNS", "NS", "OK"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "wings",
        " \tGPU0\tGPU1\n GPU0\tX\tOK\n",
        " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tX\tOK\n",
        " \tGPU0\tGPU1\n GPU0\tX\tPERHAPS\n GPU1\tOK\tX\n",
        " \tGPU0\tGPU1\n GPU1\tOK\tX\n GPU0\tX\tOK\n",
        " \tGPU0\n GPU0\tX\nGPU is lost\n",
    ],
)
def test_a_matrix_that_is_not_whole_is_none(text: str) -> None:
    rows, error = parse_p2p(printed(text))
    assert rows == () and error


def test_a_matrix_with_its_legend_and_one_of_a_single_gpu_are_read() -> None:
    legend = "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n"
    assert parse_p2p(printed(f" \tGPU0\n GPU0\tX\n{legend}")) == ((("X",),), None)


def test_sources_of_mounts_are_there_absent_or_unknown() -> None:
    assert read_mounts(printed("there /a b\nabsent /c\nwings\n")) == {"/a b": True, "/c": False}


WORDS = st.sampled_from([*WHOLE.splitlines(), *SPEC.splitlines(), " GPU0\tX", "wings", ""])


@given(st.lists(WORDS | st.text(max_size=20)).map("\n".join), st.sampled_from([0, 1, None]))
def test_any_text_is_read_or_told_as_an_error(text: str, code: int | None) -> None:
    assert code == 0 or parse_system(printed(text, code)).error
    parse_cdi(printed(text, code))
    rows, error = parse_p2p(printed(text, code))
    assert (error is None) == bool(rows)
    read_mounts(printed(text, code))


def test_labels_are_read_by_their_path_and_an_odd_one_is_an_error() -> None:
    labels = "label system_u:object_r:container_file_t:s0:c1,c2 /srv/a b\nlabel ? /srv/none\nlabel /srv"
    text = f"limit Max open files 1024 524288 files\nselinux enforce 1\n{labels}"
    machine = parse_system(Section(text=text, code=0))
    assert machine.labels == {"/srv/a b": "system_u:object_r:container_file_t:s0:c1,c2", "/srv/none": "?"}
    assert "found '/srv'" in (machine.error or "")
