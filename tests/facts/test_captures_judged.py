"""Every recorded output of a real machine, through parsers and gates: the broken ones are named by the right gate."""

import re
from typing import Any

import pytest

from facts.parse.frames import Section
from facts.parse.gpus import FIELDS, parse_gpus
from facts.parse.kernel import parse_kernel
from facts.parse.nvlinks import parse_nvlinks
from facts.parse.p2p import parse_p2p
from facts.parse.probe import read_numa, read_topology
from fleet.declaration import NodeDeclaration
from fleet.gate import FleetView
from fleet.nodes.machine import Limit
from fleet.nodes.node import NodeFacts
from fleet.nodes.nvidia import Nvidia
from tests.facts.captures import CAPTURES, index, require_captures, topology_text
from tests.fleet.builders import ask, deep, facts, fails, fleet_with, gpus, machine, node, passes, topology

EXTRA = CAPTURES / "extra"
TOPOLOGIES = index()
USED = {
    *("x01", "x02", "x03", "x03b", "x04", "x05", "x06", "x07", "x08", "x09", "x10", "x11", "x12", "x13", "x14", "x15"),
    *("x16", "x17", "x19", "x20", "x22"),
}


def extra(name: str) -> str:
    """One recorded output, by the first word of its name."""
    require_captures()
    (path,) = EXTRA.glob(f"{name}_*")
    return path.read_text()


def test_no_recorded_output_is_left_aside() -> None:
    require_captures()
    assert {path.name.split("_")[0] for path in EXTRA.iterdir()} == USED
    assert {path.stem for path in (CAPTURES / "topo").glob("*.txt")} == {row["id"] for row in TOPOLOGIES}


# --- topologies: what is declared as it is passes, what is declared otherwise or was cut off does not


def declared(row: dict[str, str]) -> NodeDeclaration:
    """A node declared as the table says that this one is."""
    count = int(row["n_gpus"])
    islands = [[int(gpu) for gpu in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", row["nvlink_islands"])]
    told = row["numa_effective_per_gpu"]
    numa = [None] * count if told.startswith("UNKNOWN") else [int(part) for part in told.split("|")]
    return node(gpus={"count": count, "model": "X", "memory_mib": 1}, nvlink_islands=islands, numa=numa)


def printed(text: str, code: int | None = 0) -> Section:
    return Section(text=text, code=code)


def seen(name: str) -> NodeFacts:
    found, error = read_topology(printed(topology_text(name)))
    return facts(topology=found, topology_error=error, cpus_online="0-1023")


def plain(declaration: NodeDeclaration, told: NodeFacts) -> FleetView:
    return fleet_with(declaration, told, layout={"tp": 1}, speculative="none")


WHOLE = [row for row in TOPOLOGIES if row["n_gpus"].isdecimal() and "-mp" not in row["nvlink_islands"]]
REFUSED = [row["id"] for row in TOPOLOGIES if row not in WHOLE]


@pytest.mark.parametrize("row", WHOLE, ids=lambda row: row["id"])
def test_a_machine_declared_as_it_is_passes_and_as_another_fails(row: dict[str, str]) -> None:
    told, right = seen(row["id"]), declared(row)
    for gate in ("nvlink-islands", "numa", "cpu-affinity"):
        passes(gate, plain(right, told))
    if right.gpus.count > 1:
        whole = tuple(range(right.gpus.count))
        wrong = right.model_copy(update={"nvlink_islands": () if right.nvlink_islands else (whole,)})
        fails("nvlink-islands", plain(wrong, told), "want NVLink islands")
    if None not in right.numa:
        far = right.model_copy(update={"numa": tuple(int(one or 0) + 1 for one in right.numa)})
        fails("numa", plain(far, told), f"want GPU 0 on NUMA node {far.numa[0]}, found {right.numa[0]}")
    if told.topology is not None and any(told.topology.cpu_affinity):
        fewer = told.model_copy(update={"cpus_online": "1024"})
        fails("cpu-affinity", plain(right, fewer), "want CPUs 1024 next to GPU")


@pytest.mark.parametrize("name", REFUSED)
def test_a_machine_whose_output_was_cut_or_shows_no_nvlink_never_passes(name: str) -> None:
    count = 16 if name == "901" else 8
    one = node(gpus={"count": count, "model": "X", "memory_mib": 1}, nvlink_islands=[], numa=[0] * count)
    for gate in ("nvlink-islands", "numa"):
        fails(gate, plain(one, seen(name)), "no topology that can be trusted")
    fails("cpu-affinity", plain(one, seen(name)), "want the CPUs next to each GPU")


def test_a_topology_that_nvidia_smi_refuses_to_print_is_no_topology() -> None:
    text = extra("x05").partition("topo -m\n")[2].partition("\n# (exit")[0]
    found, error = read_topology(printed(text, 255))
    told = facts(topology=found, topology_error=error)
    for gate in ("nvlink-islands", "nvlink-width", "cpu-affinity"):
        fails(gate, fleet_with(told=told), "Option -m is missing its value")


# --- NUMA: the kernel's nodes of machines whose topology was recorded too


def kernels_numa(text: str) -> str:
    """`numactl -H` or `lscpu` as the lines of the probe: a node and its CPUs as the kernel writes them."""
    lines = []
    for match in re.finditer(r"^node (\d+) cpus: ([\d ]+)$", text, re.MULTILINE):
        cpus = [int(cpu) for cpu in match[2].split()]
        starts = [at for at, cpu in enumerate(cpus) if at == 0 or cpus[at - 1] != cpu - 1]
        runs = [cpus[start:end] for start, end in zip(starts, [*starts[1:], len(cpus)], strict=True)]
        parts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
        lines.append(f"{match[1]} {','.join(parts)}")
    lines += [f"{match[1]} {match[2]}" for match in re.finditer(r"NUMA node(\d+) CPU\(s\): *([\d,-]*)", text)]
    return "\n".join(dict.fromkeys(line.strip() for line in lines))


@pytest.mark.parametrize(("name", "topology_of"), [("x08", "006"), ("x09", "016"), ("x11", "046")])
def test_gpus_of_a_real_machine_are_on_nodes_that_its_kernel_has(name: str, topology_of: str) -> None:
    numa, error = read_numa(printed(kernels_numa(extra(name))))
    row = next(row for row in TOPOLOGIES if row["id"] == topology_of)
    assert error is None and len(numa) == 2
    told = seen(topology_of).model_copy(update={"numa": numa})
    passes("numa-nodes", plain(declared(row), told))
    lost = told.model_copy(update={"numa": numa[:1]})
    fails("numa-nodes", plain(declared(row), lost), "want NUMA node 0 for GPU", "found 1, which has no CPUs here")


def test_nodes_that_are_memory_alone_hold_no_gpu() -> None:
    numa, error = read_numa(printed(kernels_numa(extra("x12"))))
    assert error is None and [one.id for one in numa] == list(range(9)) and [one.id for one in numa if one.cpus] == [0]
    passes("numa-nodes", fleet_with(told=facts(numa=numa, topology=topology(numa=(0,) * 8))))
    told = facts(numa=numa, topology=topology(numa=(0, 0, 0, 0, 4, 4, 4, 4)))
    fails("numa-nodes", fleet_with(told=told), "want NUMA node 0 for GPU 4, found 4, which has no CPUs here")


def test_two_sockets_that_a_virtual_machine_shows_as_one_are_not_as_declared() -> None:
    numa, error = read_numa(printed(kernels_numa(extra("x13"))))
    assert error is None and [one.cpus for one in numa] == ["0-191"]
    told = facts(numa=numa, topology=topology(numa=(0,) * 8))
    fails("numa", fleet_with(told=told), "want GPU 4 on NUMA node 1, found 0")


# --- GPUs


def csv_rows() -> list[Nvidia]:
    """The recorded `--query-gpu` outputs, cut down to the fields that the probe asks for."""
    found = []
    for block in extra("x04").split("$ nvidia-smi --query-gpu=")[1:]:
        asked, _, rest = block.partition(" --format")[0].partition("\n")
        names = asked.split(",")
        row = next(line for line in (rest or block).splitlines() if re.match(r"\d{4}/\d\d/", line))
        cells = dict(zip(names, (cell.strip() for cell in row.split(",")), strict=True))
        here = [field for field in FIELDS if field in cells]
        plain_cells = [re.sub(r" (MiB|W|%|MHz)$", "", cells[field]) for field in here]
        found.append(parse_gpus(f"fields {','.join(here)}\n{', '.join(plain_cells)}\n"))
    return found


def test_gpus_of_three_drivers_are_read_and_the_one_cut_into_parts_is_refused() -> None:
    cut, whole, desktop = csv_rows()
    assert [one.driver for one in (cut, whole, desktop)] == ["590.48.01", "595.80", "610.62"]
    assert [one.error for one in (cut, whole, desktop)] == [None] * 3
    assert [one.gpus[0].compute_cap for one in (cut, whole, desktop)] == ["9.0", "8.9", "7.5"]
    one = node(gpus={"count": 1, "model": "NVIDIA L40S", "memory_mib": 46068}, nvlink_islands=[], numa=[0])
    fails("mig", plain(one, facts(nvidia=cut)), "Enabled on GPU 0")
    for gate in ("mig", "driver", "gpu-model", "gpu-healthy", "row-remap"):
        passes(gate, plain(one, facts(nvidia=whole)))
    fails("gpu-model", plain(one, facts(nvidia=desktop)), "found NVIDIA GeForce RTX 2080 SUPER on GPU 0")


@pytest.mark.parametrize("name", ["x01", "x02", "x03", "x03b", "x06"])
def test_what_is_no_row_of_a_gpu_is_neither_a_gpu_nor_passed(name: str) -> None:
    text = extra(name)
    nvidia = parse_gpus(text)
    assert nvidia.gpus == () and nvidia.driver is None
    said = next(line.strip() for line in text.splitlines() if line.strip())
    for gate in ("gpu-count", "gpu-healthy", "driver", "gpu-model"):
        fails(gate, fleet_with(told=facts(nvidia=nvidia)), said[:60] if gate != "gpu-count" else "want 8, found 0")


def test_a_table_with_errors_in_it_is_no_answer_and_the_gpu_that_is_lost_is_named() -> None:
    nvidia = parse_gpus(extra("x16"), 1)
    assert [gpu.index for gpu in nvidia.gpus] == [1] and nvidia.driver is None
    told = facts(nvidia=nvidia)
    fails("gpu-healthy", fleet_with(told=told), "Unable to determine the device handle for GPU1: 0000:34:00.0")
    fails("gpu-healthy", fleet_with(told=told), "ERR!")
    fails("driver", fleet_with(told=told), "exit code 1")


def messages() -> dict[str, str]:
    return dict(line.split("\t")[:2] for line in extra("x14").splitlines()[1:])


@pytest.mark.parametrize(
    ("start", "gate", "text"),
    [
        ("Failed to initialize NVML: Driver/library", "driver", "the module that is loaded and the library differ"),
        ("Failed to initialize NVML: Unknown Error", "driver", "Failed to initialize NVML: Unknown Error"),
        ("Failed to initialize NVML: Insufficient", "driver", "no permission for /dev/nvidia*"),
        ("NVIDIA-SMI has failed", "driver", "no driver is loaded"),
        ("No devices were found", "driver", "the driver sees no GPU"),
        ("Unable to determine the device handle", "gpu-count", "want 8, found "),
        ("Unable to determine the device handle", "gpu-healthy", "Unable to determine the device handle"),
    ],
)
def test_each_message_in_place_of_an_answer_is_named_by_its_gate(start: str, gate: str, text: str) -> None:
    found = [message.replace("\\n", "\n") for message in messages() if message.startswith(start)]
    assert found
    for message in found:
        told = facts(nvidia=parse_gpus(message, 9))
        fails(gate, fleet_with(told=told), text)


def test_a_message_that_is_of_another_tool_is_no_gpu_either() -> None:
    for message in messages():
        told = facts(nvidia=parse_gpus(message, 2))
        fails("gpu-healthy", fleet_with(told=told), message[:40].split("\\n")[0])


def states() -> list[str]:
    """The recorded rows of GPUs in trouble, block by block."""
    return [part.partition("\n")[2].strip() for part in extra("x15").split("### ")[1:]]


def test_a_state_in_place_of_a_value_is_never_a_value() -> None:
    for block in states():
        nvidia = parse_gpus(block, 0)
        assert nvidia.error, block
        assert ask("gpu-healthy", fleet_with(told=facts(nvidia=nvidia)))[0].status == "fail", block


def test_a_gpu_that_shares_the_memory_of_its_host_tells_no_figure_and_is_not_passed() -> None:
    sound = gpus(1)[0].model_copy(update={"name": "NVIDIA GB10", "memory_mib": None, "memory_used_mib": None})
    one = node(gpus={"count": 1, "model": "NVIDIA GB10", "memory_mib": 122880}, nvlink_islands=[], numa=[0])
    told = facts(nvidia=Nvidia(gpus=(sound,), driver="580.142"))
    fails("gpu-memory", plain(one, told), "an unknown size on GPU 0")


@pytest.mark.parametrize("code", [2, 3, 4, 6, 8, 9, 10, 12, 13, 14])
def test_each_exit_code_of_nvidia_smi_is_told_with_its_meaning(code: int) -> None:
    assert f"Return code {code} - " in extra("x20")
    told = facts(nvidia=parse_gpus("", code))
    fails("driver", fleet_with(told=told), f"nvidia-smi ended with exit code {code}: ")


def test_a_gpu_whose_processor_hangs_blocks() -> None:
    lines = "\n".join(line for line in extra("x17").splitlines() if "Xid (" in line)
    told = facts(kernel_log=parse_kernel(printed(lines)))
    fails("xid", fleet_with(told=told), "Xid 119 of PCI 0000:9b:00", "the GPU's system processor does not answer")


# --- links


def ports() -> dict[str, str]:
    parts = [part.partition("\n") for part in extra("x07").split("--- ")[1:]]
    return {name.strip(): rest.partition("nvlink -s\n")[2] or rest for name, _, rest in parts}


def test_ports_of_real_gpus_are_up_or_named() -> None:
    for name, text in ports().items():
        links, error = parse_nvlinks(printed(text.partition("[cut")[0]))
        one = node(gpus={"count": 2, "model": "X", "memory_mib": 1}, nvlink_islands=[[0, 1]], numa=[0, 0])
        told = plain(one, facts(deep=deep(nvlinks=links, nvlinks_error=error)))
        if re.search("h200|hbm3|a100", name):
            assert links[0].up and not links[0].down and error is None, name
        else:
            said = (line.strip() for line in text.splitlines() if "link" in line.lower())
            fails("nvlink-up", told, next(said, "nothing about the links of GPU 0"))


def test_peer_access_of_a_real_machine_is_allowed_where_nvlink_joins() -> None:
    matrix = extra("x10").partition("rw\n")[2]
    rows, error = parse_p2p(printed(matrix))
    assert error is None
    pairs = topology(((0, 3), (1, 2)), numa=(0, 0, 0, 0))
    one = node(gpus={"count": 4, "model": "X", "memory_mib": 1}, nvlink_islands=[[0, 3], [1, 2]], numa=[0] * 4)

    def on(order: list[int], told: Any = rows) -> FleetView:
        layout = {"tp": 2, "pp": 1, "device_order": order}
        return fleet_with(one, facts(topology=pairs, deep=deep(p2p=told)), layout=layout, speculative="none")

    passes("p2p", on([0, 3]))
    refused = tuple(tuple("CNS" if cell == "OK" else cell for cell in row) for row in rows)
    fails("p2p", on([1, 2], refused), "want peer access between GPU 1 and 2, found CNS")


def test_peer_access_of_consumer_gpus_is_read_in_every_form() -> None:
    text = extra("x19").partition("\n")[2]
    matrices = re.split(r"\n\s*\n", text.strip("\n"))
    found = [parse_p2p(printed(matrix)) for matrix in matrices]
    assert [(rows[0][1], error) for rows, error in found] == [("GNS", None), ("NS", None), ("OK", None)]


# --- limits


def test_limits_under_which_engines_were_seen_to_die_are_refused() -> None:
    text = extra("x22")
    few = int(re.findall(r"open files +\(-n\) (\d+)", text)[0])
    locked = int(re.findall(r"max locked memory \(kbytes, -l\) (\d+)", text)[-1]) * 1024
    tight: dict[str, Any] = {"capabilities": 0, "open_files": Limit(soft=few, hard=few)}
    fails("limits", fleet_with(told=facts(machine=machine(**tight))), "want at least 16384 open files, found 1024")
    small = machine(capabilities=0, locked_memory=Limit(soft=locked, hard=locked))
    passes("limits", fleet_with(told=facts(machine=small)))
    fails("limits", fleet_with(node(peermem=True), facts(machine=small)), "found at most 65536 bytes")
