"""Real outputs of real machines, against the values that index.tsv tells for them."""

import re

import pytest

from facts.parse.topology import TopologyError, parse_topology
from tests.facts.captures import index, require_captures, topology_text

CASES = index()
REFUSED = [row["id"] for row in CASES if row["nvlink_islands"].startswith(("refuse", "16 in header", "8 in header"))]
PATHS_ONLY = [row["id"] for row in CASES if "-mp" in row["nvlink_islands"]]
WHOLE = [row for row in CASES if row["id"] not in REFUSED + PATHS_ONLY]


def test_the_recordings_are_there() -> None:
    require_captures()
    assert len(WHOLE) > 50 and len(REFUSED) >= 3 and PATHS_ONLY


@pytest.mark.parametrize("row", WHOLE, ids=lambda row: row["id"])
def test_a_whole_output_gives_the_known_islands_components_and_numa_nodes(row: dict[str, str]) -> None:
    topology = parse_topology(topology_text(row["id"]))
    islands = tuple(
        tuple(int(gpu) for gpu in group.split(",")) for group in re.findall(r"\{([\d,]+)\}", row["nvlink_islands"])
    )
    assert topology.gpus == int(row["n_gpus"])
    assert topology.islands == islands
    assert len(topology.components) == int(row["nvlink_components"])
    assert topology.numa == expected_numa(row["numa_effective_per_gpu"], topology.gpus)


def expected_numa(cell: str, gpus: int) -> tuple[int | None, ...]:
    """`0|0|1|1` as numbers; UNKNOWN as None for each GPU."""
    return (None,) * gpus if cell.startswith("UNKNOWN") else tuple(int(node) for node in cell.split("|"))


@pytest.mark.parametrize("name", REFUSED)
def test_an_output_that_was_cut_off_is_refused(name: str) -> None:
    with pytest.raises(TopologyError, match="want one row for each of"):
        parse_topology(topology_text(name))


@pytest.mark.parametrize("name", PATHS_ONLY)
def test_pcie_paths_only_are_refused_because_they_never_show_nvlink(name: str) -> None:
    with pytest.raises(TopologyError, match="never NVLink"):
        parse_topology(topology_text(name))


@pytest.mark.parametrize("row", WHOLE, ids=lambda row: row["id"])
def test_a_real_output_cut_anywhere_is_refused_or_tells_the_same_links(row: dict[str, str]) -> None:
    text = topology_text(row["id"])
    whole = parse_topology(text)
    for end in range(0, len(text), 3):
        try:
            cut = parse_topology(text[:end])
        except TopologyError:
            continue
        assert cut.links == whole.links, text[:end]
        for told, truth in zip(cut.numa, whole.numa, strict=True):
            assert told in (None, truth), text[:end]
