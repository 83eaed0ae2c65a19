"""What the topology parser accepts and refuses, one small text a case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.topology import TopologyError, parse_topology
from fleet.nodes.topology import Topology
from tests.facts.render import render_topology

PAIR = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
ROW0 = "GPU0\t X \tNV4\tPIX\t0-31\t0\t\tN/A\n"
ROW1 = "GPU1\tNV4\t X \tSYS\t32-63\t1\t\tN/A\n"
LABELS = ["SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV4", "NV12", "NV18"]


def refused(text: str) -> str:
    with pytest.raises(TopologyError) as caught:
        parse_topology(text)
    return str(caught.value)


def test_two_gpus_on_two_numa_nodes() -> None:
    topology = parse_topology(PAIR + ROW0 + ROW1)
    assert topology.links == (("X", "NV4"), ("NV4", "X"))
    assert topology.numa == (0, 1)
    assert topology.cpu_affinity == ("0-31", "32-63")


ROCM = "==== Link Type between two GPUs ====\n  GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n==== End of ROCm SMI Log ====\n"


def test_one_block_of_rocm_smi_is_a_matrix() -> None:
    assert parse_topology(ROCM).islands == ((0, 1),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "found nothing", id="empty"),
        pytest.param("hello\n", "'hello'", id="prose"),
        pytest.param("No devices were found\n", "No devices were found", id="no_devices"),
        pytest.param("Failed to initialize NVML: Driver/library version mismatch\n", "version mismatch", id="nvml"),
        pytest.param(
            "Unable to determine the device handle for GPU 0000:02:00.0: Unknown Error\n" + PAIR + ROW0 + ROW1,
            "Unable to determine",
            id="a_lost_gpu_above_the_matrix_of_the_others",
        ),
        pytest.param(PAIR + ROW0, "rows of GPUs: 0", id="missing_row"),
        pytest.param(PAIR, "rows of GPUs: none", id="header_only"),
        pytest.param(PAIR + ROW0 + ROW1 + ROW1, "0, 1, 1", id="duplicate_row"),
        pytest.param(PAIR + ROW1 + ROW0, "1, 0", id="rows_out_of_order"),
        pytest.param(PAIR + ROW0 + ROW1 + PAIR + ROW0 + ROW1, "one matrix", id="two_matrices"),
        pytest.param(PAIR + ROW0 + ROW1.replace("NV4", "SYS"), "disagree", id="one_way_nvlink"),
        pytest.param(PAIR + ROW0 + ROW1.replace("NV4", "NV2"), "disagree", id="widths_differ"),
        pytest.param(PAIR + ROW0.replace("NV4", "QQQ") + ROW1, "'QQQ'", id="unknown_label"),
        pytest.param(PAIR + ROW0.replace("PIX", "???") + ROW1, "'???'", id="unknown_nic_label"),
        pytest.param(PAIR + ROW0.replace("\tPIX", "") + ROW1, "want 3 cells, found 2", id="too_few_cells"),
        pytest.param(PAIR + ROW0.replace("\tPIX", "\tPIX\tPIX") + ROW1, "found 4", id="too_many_cells"),
        pytest.param(PAIR + ROW0.replace("PIX", "NV4") + ROW1, "PCIe path to each NIC", id="nvlink_to_a_nic"),
        pytest.param(PAIR + "GPU0\tNV4\t X \tPIX\n" + ROW1, "diagonal", id="x_off_the_diagonal"),
        pytest.param(PAIR.replace("GPU1", "GPU2") + ROW0 + ROW1, "without a gap", id="gap_in_the_header"),
        pytest.param(
            PAIR.replace("GPU0\tGPU1", "GPU1\tGPU0") + ROW0 + ROW1,
            "found the header 'GPU1 GPU0",
            id="header_out_of_order",
        ),
        pytest.param(ROW0 + ROW1, "GPUs may be missing", id="no_header_and_columns_that_may_be_gpus"),
        pytest.param("$ nvidia-smi topo -mp\n" + PAIR + ROW0 + ROW1, "topo -mp", id="paths_only_by_command"),
        pytest.param(
            (PAIR + ROW0 + ROW1).replace("NV4", "PHB") + "Legend:\n\n  X    = Self\n  PIX  = One bridge\n",
            "no NV#",
            id="paths_only_by_legend",
        ),
        pytest.param(" GPU0   X       CNS\n GPU1   CNS     X\n", "may be missing", id="p2p_matrix"),
        pytest.param("\tGPU0\tGPU1\n GPU0   X       CNS\n GPU1   CNS     X\n", "'CNS'", id="p2p_matrix_with_header"),
        pytest.param(
            "==== ROCm System Management Interface ====\n==== Numa Nodes ====\n", "missing", id="rocm_numa_only"
        ),
        pytest.param(ROCM + ROCM.replace("XGMI", "PCIE"), "want one matrix, found 2", id="rocm_of_two_nodes"),
    ],
)
def test_a_text_that_cannot_be_trusted_is_refused_with_the_reason(text: str, reason: str) -> None:
    assert reason in refused(text)


@pytest.mark.parametrize("prompt", ["root@failover:/lost+found# ", "me@error1 ~ % /usr/bin/"])
def test_a_prompt_that_sounds_like_trouble_is_no_complaint_of_the_tool(prompt: str) -> None:
    assert parse_topology(f"{prompt}nvidia-smi topo -m\n" + PAIR + ROW0 + ROW1).islands == ((0, 1),)
    assert "complains" in refused("timeout: failed to run nvidia-smi topo -m\n" + PAIR + ROW0 + ROW1)


def test_rows_without_a_header_are_whole_where_every_column_has_its_row() -> None:
    nic = "NIC0\tPIX\tSYS\t X \t\t\t\t\n"
    assert parse_topology(ROW0 + ROW1 + nic).numa == (0, 1)


def test_rows_without_a_header_are_whole_behind_an_nvlink_switch() -> None:
    rows = [["NV18"] * 8 + ["PXB"] * 2 + ["0-31", "0", "", "N/A"] for _ in range(8)]
    for i, row in enumerate(rows):
        row[i] = " X "
    text = "".join("\t".join([f"GPU{i}", *row]) + "\n" for i, row in enumerate(rows))
    assert parse_topology(text).islands == (tuple(range(8)),)
    assert "found NV18" in refused("".join(text.splitlines(keepends=True)[:7]))


def test_a_set_of_numa_nodes_is_one_node_only_where_the_gpus_bring_their_own() -> None:
    grace = PAIR + ROW0.replace("\t0\t\tN/A", "\t0,3-9\t\t2") + ROW1.replace("\t1\t\tN/A", "\t1,11-17\t\t10")
    assert parse_topology(grace).numa == (0, 1)
    job = PAIR + ROW0.replace("\t0\t\t", "\t0-3\t\t") + ROW1.replace("\t1\t\t", "\t0-3\t\t")
    assert parse_topology(job).numa == (None, None)


def test_blank_affinities_are_unknown_and_never_shift_to_the_left() -> None:
    windows = PAIR + ROW0.replace("0-31\t0\t\t", "\t\t\t") + ROW1.replace("32-63\t1\t\t", "\t\t\t")
    topology = parse_topology(windows)
    assert topology.numa == (None, None) and topology.cpu_affinity == (None, None)


def test_in_a_job_without_cpu_affinity_the_numa_node_is_told_by_its_column() -> None:
    header = "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
    rows = "GPU0     X      NV18            0               N/A\nGPU1    NV18     X              1               N/A\n"
    topology = parse_topology(header + rows)
    assert topology.cpu_affinity == (None, None)
    assert topology.numa == (0, 1)
    squeezed = "GPU0 X NV18 0 N/A\nGPU1 NV18 X 1 N/A\n"
    assert parse_topology(header + squeezed).numa == (None, None)


def test_columns_set_by_hand_with_more_tabs_keep_their_values() -> None:
    text = "\t\tGPU0\tGPU1\tCPU Affinity    NUMA Affinity\nGPU0\t X \t\tNV1\t\t0-7\t\t0\nGPU1\tNV1\t \tX \t8-15\t\t1\n"
    assert parse_topology(text).numa == (0, 1)


def test_colours_are_no_part_of_the_header_even_where_a_copy_lost_their_escape_character() -> None:
    colours = PAIR.replace("GPU0", "[4mGPU0").replace("ID\n", "ID[0m\n")
    assert parse_topology(colours + ROW0 + ROW1).numa == (0, 1)


def test_a_last_value_without_a_newline_may_be_cut_and_is_unknown() -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-7\t0\nGPU1\tNV4\t X \t8-15\t1"
    assert parse_topology(text).numa == (0, None)
    assert parse_topology(text + "0\n").numa == (0, 10)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    gpus = draw(st.integers(1, 16))
    links = [["X"] * gpus for _ in range(gpus)]
    for i in range(gpus):
        for j in range(i):
            links[i][j] = links[j][i] = draw(st.sampled_from(LABELS))
    numa = st.one_of(st.none(), st.integers(0, 300))
    cpus = st.sampled_from([None, "0-31,64-95", "0,2,4,6,8,10", "7"])
    return Topology(
        gpus=gpus,
        links=tuple(map(tuple, links)),
        numa=tuple(draw(numa) for _ in range(gpus)),
        cpu_affinity=tuple(draw(cpus) for _ in range(gpus)),
    )


@given(topologies(), st.integers(0, 12))
def test_any_topology_rendered_then_parsed_is_itself(topology: Topology, nics: int) -> None:
    assert parse_topology(render_topology(topology, nics)) == topology


@given(topologies(), st.integers(0, 3), st.data())
def test_a_rendered_topology_cut_anywhere_is_refused_or_tells_the_same_links(
    topology: Topology, nics: int, data: st.DataObject
) -> None:
    text = render_topology(topology, nics)
    try:
        cut = parse_topology(text[: data.draw(st.integers(0, len(text)))])
    except TopologyError:
        return
    assert cut.links == topology.links
    assert all(told in (None, truth) for told, truth in zip(cut.numa, topology.numa, strict=True))


@given(topologies(), st.data())
def test_a_topology_without_some_of_its_lines_is_refused_or_tells_the_same_links(
    topology: Topology, data: st.DataObject
) -> None:
    lines = render_topology(topology, 2).splitlines(keepends=True)
    kept = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    try:
        parsed = parse_topology("".join(line for line, keep in zip(lines, kept, strict=True) if keep))
    except TopologyError:
        return
    assert parsed.links == topology.links


PIECES = [
    *LABELS,
    "GPU0",
    "GPU1",
    "NIC0",
    "X",
    "0",
    "0-3",
    "CPU Affinity",
    "NUMA Affinity",
    "\t",
    "\n",
    " ",
    "===",
    "N/A",
]


@given(
    st.one_of(
        st.text(), st.lists(st.sampled_from(PIECES)).map("".join), st.lists(st.sampled_from(PIECES)).map(" ".join)
    )
)
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        parse_topology(text)
    except TopologyError as error:
        assert str(error)
