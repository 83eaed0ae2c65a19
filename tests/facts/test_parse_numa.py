"""CPU lists and NUMA nodes as the kernel prints them, and nothing else."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.numa import CpuListError, parse_cpu_list, parse_numa
from fleet.nodes.node import NumaNode


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", ()), ("0", (0,)), ("0-3", (0, 1, 2, 3)), ("0-1,64-65", (0, 1, 64, 65)), ("0,2,4", (0, 2, 4))],
)
def test_a_cpu_list(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize(
    "text",
    ["3-1", "1-1", "0-3,2", "4,0", "0,1", "0-3 0", "0-34-7", "x", "0,", ",", "-1", "01", "0-", "0--3", "1,1", "٣"],
)
def test_a_damaged_cpu_list_is_refused(text: str) -> None:
    with pytest.raises(CpuListError, match="want"):
        parse_cpu_list(text)


def test_numa_nodes_in_order_of_their_ids_with_memory_only_nodes() -> None:
    nodes, error = parse_numa("0 0-31,64-95\n10 \n2 32-63,96-127\n")
    assert error is None
    assert nodes == (NumaNode(id=0, cpus="0-31,64-95"), NumaNode(id=2, cpus="32-63,96-127"), NumaNode(id=10, cpus=""))


@pytest.mark.parametrize(
    "text", ["", "0 unreadable\n", "0 0-3\n0 4-7\n", "0 0-3\n1 3-7\n", "node0 0-3\n", "0 0-3\n\ncat: x\n"]
)
def test_numa_nodes_that_cannot_be_trusted_give_the_reason(text: str) -> None:
    nodes, error = parse_numa(text)
    assert nodes == () and error


@given(st.sets(st.integers(0, 300)))
def test_any_set_of_cpus_printed_as_the_kernel_does_is_read_back(cpus: set[int]) -> None:
    parts, ordered = [], sorted(cpus)
    while ordered:
        last = first = ordered.pop(0)
        while ordered and ordered[0] == last + 1:
            last = ordered.pop(0)
        parts.append(str(first) if first == last else f"{first}-{last}")
    assert parse_cpu_list(",".join(parts)) == tuple(sorted(cpus))


@given(st.text(alphabet="0123456789-, \nx", max_size=30))
def test_no_text_breaks_the_parsers(text: str) -> None:
    parse_numa(text)
    with contextlib.suppress(CpuListError):
        parse_cpu_list(text)
