"""What nvidia-smi's CSV tells of GPUs that are well, ill, lost, or not there at all."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.gpus import FIELDS, parse_gpus
from fleet.nodes.nvidia import Gpu, Nvidia
from tests.facts.captures import CAPTURES, require_captures

WELL = (
    "{0}, NVIDIA A100-SXM4-80GB, 00000000:0{0}:00.0, 81920, 4, 580.95.05, Disabled, 8.0, 31, 0, No, No, [N/A],"
    " Disabled, Enabled, P0, 400.00, 400.00, 4, 4, 16, 16, 0x0000000000000001, [N/A], [N/A], None"
)
TOLD = dict(zip(FIELDS[9:], WELL.split(", ")[9:], strict=True))
LOST = "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error"


def rows(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def well(index: int, **other: str) -> str:
    """A row of a GPU that is well, with some fields replaced (dots of a field's name written as underscores)."""
    cells = dict(zip(FIELDS, WELL.format(index).split(", "), strict=True))
    cells |= {next(field for field in FIELDS if field.replace(".", "_") == name): text for name, text in other.items()}
    return ", ".join(cells.values())


def test_gpus_that_are_well_have_no_problem_and_no_error() -> None:
    nvidia = parse_gpus(rows(well(0), well(1)))
    assert nvidia.error is None and nvidia.driver == "580.95.05"
    assert nvidia.gpus[1] == Gpu(
        index=1,
        name="NVIDIA A100-SXM4-80GB",
        bus_id="00000000:01:00.0",
        memory_mib=81920,
        memory_used_mib=4,
        mig="Disabled",
        compute_cap="8.0",
        told=TOLD,
    )


def test_a_serial_number_is_never_asked_for() -> None:
    assert not any("serial" in field for field in FIELDS)


@pytest.mark.parametrize(
    ("field", "text", "problem"),
    [
        ("memory_used", "[Unknown Error]", "[Unknown Error]"),
        ("temperature_gpu", "[GPU requires reset]", "[GPU requires reset]"),
        ("temperature_gpu", "ERR!", "ERR!"),
        ("memory_total", "80 GiB", "memory.total: 80 GiB"),
        ("pci_bus_id", "somewhere", "pci.bus_id: somewhere"),
        ("ecc_errors_uncorrected_volatile_total", "3", "ecc.errors.uncorrected.volatile.total: 3"),
        ("remapped_rows_failure", "Yes", "remapped_rows.failure: Yes"),
    ],
)
def test_an_error_in_place_of_a_value_is_the_gpus_problem(field: str, text: str, problem: str) -> None:
    assert parse_gpus(rows(well(0, **{field: text}))).gpus[0].problem == problem


def test_a_field_that_a_gpu_does_not_have_is_no_problem() -> None:
    gpu = parse_gpus(rows(well(0, memory_total="[N/A]", memory_used="[N/A]", mig_mode_current="[N/A]"))).gpus[0]
    assert gpu.problem is None
    assert (gpu.memory_mib, gpu.memory_used_mib, gpu.mig) == (None, None, "N/A")


def test_a_lost_gpu_keeps_its_place_its_bus_and_the_message() -> None:
    broken = ", ".join(["[Unknown Error]"] * len(FIELDS))
    nvidia = parse_gpus(rows(well(0), LOST, broken, well(2)), code=15)
    assert [gpu.index for gpu in nvidia.gpus] == [0, 1, 2]
    assert nvidia.gpus[1] == Gpu(index=1, bus_id="0000:01:00.0", problem=LOST)
    assert nvidia.error == f"{LOST}\nnvidia-smi ended with exit code 15"


def test_a_lost_gpu_without_a_row_is_listed_where_the_message_names_its_index() -> None:
    message = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error"
    nvidia = parse_gpus(rows(message, well(0)), code=15)
    assert nvidia.gpus[1] == Gpu(index=1, bus_id="0000:34:00.0", problem=message)


def test_a_broken_row_whose_place_is_in_doubt_is_told_in_the_error_only() -> None:
    broken = ", ".join(["[Unknown Error]"] * len(FIELDS))
    nvidia = parse_gpus(rows(well(1), broken))
    assert [gpu.index for gpu in nvidia.gpus] == [1]
    assert "a GPU row without an index" in (nvidia.error or "")


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("", 0, "printed nothing"),
        ("", None, "did not end"),
        ("No devices were found\n", 6, "No devices were found"),
        (rows(well(0), "Thu Aug 27 18:05:38 2026"), 0, "Thu Aug 27 18:05:38 2026"),
        (rows(well(0), well(0)), 0, "not unique"),
        (rows(well(0), well(1, driver_version="570.1")), 0, "different driver versions"),
        (rows(well(0)), 9, "exit code 9"),
        (rows(well(0).rpartition(",")[0]), 0, "NVIDIA A100"),
    ],
)
def test_whatever_is_no_plain_answer_is_an_error(text: str, code: int | None, told: str) -> None:
    assert told in (parse_gpus(text, code).error or "")


def test_a_driver_that_no_longer_tells_its_version_says_so() -> None:
    text = "[Requested functionality has been deprecated]"
    nvidia = parse_gpus(rows(well(0, driver_version=text)))
    assert nvidia.driver is None and nvidia.error == f"driver_version: {text}" and nvidia.gpus[0].problem is None


def without(index: int, *fields: str) -> str:
    """A row of an older driver, which does not have these fields."""
    cells = dict(zip(FIELDS, WELL.format(index).split(", "), strict=True))
    return ", ".join(text for name, text in cells.items() if name not in fields)


def test_an_older_driver_is_read_by_the_fields_that_it_has() -> None:
    left = [field for field in FIELDS if field not in ("fabric.state", "gpu_recovery_action")]
    refused = 'Field "fabric.state" is not a valid field to query.'
    text = rows(refused, "", f"fields {','.join(left)}", without(0, "fabric.state", "gpu_recovery_action"))
    nvidia = parse_gpus(text)
    assert nvidia.error is None and nvidia.missing_fields == ("fabric.state", "gpu_recovery_action")
    assert nvidia.gpus[0].told["fabric.status"] == "[N/A]" and "fabric.state" not in nvidia.gpus[0].told


def test_a_driver_without_a_field_that_every_driver_has_is_not_understood() -> None:
    left = [field for field in FIELDS if field != "temperature.gpu"]
    text = rows(f"fields {','.join(left)}", without(0, "temperature.gpu"))
    assert parse_gpus(text).gpus == () and parse_gpus(text).error


def test_processes_on_the_gpus_have_their_unit() -> None:
    process = "process 00000000:00:00.0, 4242, /usr/bin/python3, with a comma, 29996"
    nvidia = parse_gpus(rows(well(0), process, "cgroup 4242 /user.slice/session-3.scope"))
    assert nvidia.error is None
    (held,) = nvidia.processes
    assert (held.pid, held.name, held.memory_mib, held.unit) == (
        4242,
        "/usr/bin/python3, with a comma",
        29996,
        "session-3.scope",
    )


@pytest.mark.parametrize("line", ["processes exit 2: nothing recorded", "process what", "process x, 1, y, 2"])
def test_processes_that_cannot_be_read_are_an_error(line: str) -> None:
    assert "--query-compute-apps" in (parse_gpus(rows(well(0), line)).error or "")


def test_every_recorded_message_of_a_broken_node_is_kept_word_for_word() -> None:
    require_captures()
    lines = (CAPTURES / "extra" / "x14_error_strings.tsv").read_text().splitlines()
    for row in csv.reader(lines[1:], delimiter="\t"):
        message = row[0].replace("\\n", "\n")
        nvidia = parse_gpus(message, 9)
        assert nvidia.error and nvidia.error.startswith(message)


CELLS = ["0", "1", "2", "[N/A]", "[Unknown Error]", "ERR!", "81920", "NVIDIA L40S", "00000000:01:00.0", "Disabled", ""]
LINES = st.one_of(
    st.lists(st.sampled_from(CELLS), min_size=len(FIELDS), max_size=len(FIELDS)).map(", ".join),
    st.sampled_from([well(0), well(1), well(2), LOST, "No devices were found"]),
    st.text(),
)


@given(st.lists(LINES), st.sampled_from([0, 9, None]))
def test_nothing_is_passed_over_in_silence(lines: list[str], code: int | None) -> None:
    nvidia = parse_gpus("\n".join(lines), code)
    assert isinstance(nvidia, Nvidia)
    if nvidia.error is None:
        told = [line for line in "\n".join(lines).splitlines() if line.strip()]
        assert len(nvidia.gpus) == len(told) > 0
        assert code == 0
