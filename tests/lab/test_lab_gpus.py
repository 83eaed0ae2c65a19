"""What nvidia-smi says on a lab host, with and without faults."""

from collections.abc import Iterator

import pytest

from lab import gpus, host
from lab.lab import Lab

pytestmark = pytest.mark.lab

QUERY = "nvidia-smi --query-gpu={} --format=csv,noheader,nounits"
DISTRESS = (
    "Unable to determine the device handle for GPU 0000:4E:00.0: GPU is lost.  Reboot the system to recover this GPU"
)


@pytest.fixture(autouse=True)
def healthy(lab: Lab) -> Iterator[None]:
    """No faults before and after each test."""
    yield
    for found in lab.nodes:
        lab.set(found.name, clear=True)


def run(lab: Lab, name: str, command: str) -> tuple[int, str]:
    told = lab.ssh(name, command)
    return told.returncode, told.stdout


@pytest.mark.parametrize("name, count, memory", [("a1", 8, "81920"), ("h1", 8, "81559"), ("l1", 4, "46068")])
def test_any_recorded_columns_can_be_asked_for(lab: Lab, name: str, count: int, memory: str) -> None:
    code, text = run(lab, name, QUERY.format("index,memory.total,gpu_name,pcie.link.width.current"))
    rows = [line.split(", ") for line in text.splitlines()]
    assert code == 0
    assert [row[0] for row in rows] == [str(index) for index in range(count)]
    assert {(row[1], row[3]) for row in rows} == {(memory, "16")}
    assert {row[2] for row in rows} == {gpus.declared(lab.node(name).kind)["gpus"]["model"]}


def test_units_and_header_are_those_of_the_real_tool(lab: Lab) -> None:
    _, text = run(lab, "h1", "nvidia-smi --query-gpu=index,memory.total,power.limit --format=csv -i 3")
    assert text.splitlines() == ["index, memory.total [MiB], power.limit [W]", "3, 81559 MiB, 700.00 W"]


def test_what_was_not_recorded_is_an_error_that_names_it(lab: Lab) -> None:
    told = lab.ssh("a1", "nvidia-smi dmon -c 1")
    assert (told.returncode, told.stdout) == (2, "")
    assert "nothing recorded for: nvidia-smi dmon -c 1" in told.stderr
    code, text = run(lab, "a1", QUERY.format("index,wings"))
    assert (code, text.strip()) == (2, 'Field "wings" is not a valid field to query.')


def test_every_gpu_is_listed_in_every_form(lab: Lab) -> None:
    uuids = run(lab, "l1", QUERY.format("uuid"))[1].split()
    assert len(set(uuids)) == 4
    listed = run(lab, "l1", "nvidia-smi -L")[1]
    table = run(lab, "l1", "nvidia-smi")[1]
    links = run(lab, "l1", "nvidia-smi nvlink -s")[1]
    assert all(f"(UUID: {uuid})" in listed and f"(UUID: {uuid})" in links for uuid in uuids)
    assert table.count("NVIDIA L40S") == 4
    assert {len(line) for line in table.splitlines()[1:] if line} == {91}


def test_a_lost_gpu_is_told_as_the_tool_tells_it(lab: Lab) -> None:
    lab.set("a1", faults=["gpu-lost:3"])
    code, text = run(lab, "a1", QUERY.format("index,memory.total"))
    assert code == 15
    assert text.splitlines()[2:6] == ["2, 81920", DISTRESS, "[GPU is lost], [GPU is lost]", "4, 81920"]
    for command in ("nvidia-smi", "nvidia-smi -L", "nvidia-smi topo -m", "nvidia-smi nvlink -s"):
        assert run(lab, "a1", command) == (15, f"{DISTRESS}\n")


def test_a_driver_that_does_not_match_fails_every_command(lab: Lab) -> None:
    lab.set("h1", faults=["driver-mismatch"])
    for command in ("nvidia-smi", "nvidia-smi -L", "nvidia-smi topo -m", QUERY.format("index")):
        code, text = run(lab, "h1", command)
        assert code == 18
        assert text.splitlines() == [
            "Failed to initialize NVML: Driver/library version mismatch",
            "NVML library version: 580.95",
        ]


def test_without_a_driver_the_tool_says_so(lab: Lab) -> None:
    lab.set("l1", faults=["driver-gone"])
    code, text = run(lab, "l1", "nvidia-smi")
    assert code == 9
    assert text.startswith("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")


def test_a_missing_nvlink_is_missing_in_the_matrix_and_in_the_links(lab: Lab) -> None:
    lab.set("a1", faults=["nvlink-missing:0-1"])
    rows = run(lab, "a1", "nvidia-smi topo -m")[1].splitlines()
    assert rows[1].split("\t")[:5] == ["GPU0", " X ", "NODE", "NODE", "NODE"]
    assert rows[2].split("\t")[:5] == ["GPU1", "NODE", " X ", "NODE", "NODE"]
    assert rows[3].split("\t")[:5] == ["GPU2", "NODE", "NODE", " X ", "NV4"]
    links = run(lab, "a1", "nvidia-smi nvlink -s")[1]
    assert links.count("all links are inActive") == 2
    assert links.count(" Link ") == 6 * 4
    lab.set("h1", faults=["nvlink-missing:0-5"])
    rows = run(lab, "h1", "nvidia-smi topo -m")[1].splitlines()
    assert (rows[1].split("\t")[6], rows[6].split("\t")[1], rows[1].split("\t")[5]) == ("SYS", "SYS", "NV18")
    assert run(lab, "h1", "nvidia-smi nvlink -s")[1].count("<inactive>") == 2


def test_a_gpu_that_needs_a_reset_has_no_live_figures(lab: Lab) -> None:
    lab.set("a1", faults=["gpu-reset:2"])
    rows = run(lab, "a1", QUERY.format("index,utilization.gpu,temperature.gpu,gpu_recovery_action"))[1].splitlines()
    assert rows[2] == "2, [GPU requires reset], [GPU requires reset], Reset"
    assert rows[3].startswith("3, 0, ")
    assert run(lab, "a1", "nvidia-smi")[1].count("ERR!") == 3


def test_ecc_errors_and_mig_mode_show(lab: Lab) -> None:
    lab.set("h1", faults=["ecc:1", "mig:0"])
    columns = "ecc.errors.uncorrected.volatile.total,remapped_rows.failure,mig.mode.current"
    rows = run(lab, "h1", QUERY.format(columns))[1].splitlines()
    assert rows[:3] == ["0, No, Enabled", "3, Yes, Disabled", "0, No, Disabled"]


def test_a_tool_that_hangs_can_be_left(lab: Lab) -> None:
    lab.set("l1", faults=["hang"])
    assert run(lab, "l1", "timeout 1 nvidia-smi")[0] == 124


def test_a_host_is_given_another_recording_while_it_runs(lab: Lab) -> None:
    boot = run(lab, "a1", "cat /proc/sys/kernel/random/boot_id")
    status = lab.set("a1", recording="l40s")
    assert status.recording == "l40s"
    assert len(run(lab, "a1", QUERY.format("index"))[1].splitlines()) == 4
    assert run(lab, "a1", "grep -c '\"name\"' /etc/cdi/nvidia.yaml")[1] == "5\n"
    assert run(lab, "a1", "cat /proc/sys/kernel/random/boot_id") == boot


def test_faults_add_up_until_they_are_cleared(lab: Lab) -> None:
    lab.set("a1", faults=["ecc:1"])
    assert lab.set("a1", faults=["mig:2"]).faults == ("ecc:1", "mig:2")
    assert lab.set("a1", clear=True).faults == ()


@pytest.mark.parametrize("fault", ["gpu-lost", "gpu-lost:x", "driver-mismatch:1", "nvlink-missing:1", "gremlin", ""])
def test_an_unknown_fault_is_refused_and_the_known_ones_are_named(lab: Lab, fault: str) -> None:
    with pytest.raises(host.LabError, match=r"want one of these, found .*\n  gpu-lost:3: that GPU fell off the bus"):
        lab.set("a1", faults=[fault])
    assert lab.status()[0].faults == ()


@pytest.mark.parametrize("fault", ["gpu-lost:8", "xid:8-119", "nvlink-missing:0-8"])
def test_a_fault_of_a_gpu_that_the_host_has_not_is_refused(lab: Lab, fault: str) -> None:
    with pytest.raises(host.LabError, match=rf"want a GPU of a100, which has 8 \(from 0\), found '{fault}'"):
        lab.set("a1", faults=[fault])
    assert lab.status()[0].faults == ()


def test_an_unknown_recording_or_host_is_refused(lab: Lab) -> None:
    with pytest.raises(host.LabError, match="wanted one of a100, a100-nvswitch, h100, l40s, found 'b200'"):
        lab.set("a1", recording="b200")
    with pytest.raises(host.LabError, match="has no node 'z9'; it has a1, h1, l1"):
        lab.set("z9", clear=True)
