"""Names, addresses and recordings: what needs no root."""

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.topology import parse_topology
from lab import gpus, naming

names = st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True)


def test_nodes_take_turns_and_count_their_addresses_from_11() -> None:
    nodes = naming.plan_nodes(5, naming.choose_subnet("demo", []))
    assert [(node.name, node.address, node.kind) for node in nodes] == [
        ("a1", "10.231.0.11", "a100"),
        ("h1", "10.231.0.12", "h100"),
        ("l1", "10.231.0.13", "l40s"),
        ("a2", "10.231.0.14", "a100"),
        ("h2", "10.231.0.15", "h100"),
    ]


@given(names, st.integers(1, 99))
def test_a_larger_lab_begins_with_the_nodes_of_the_smaller(name: str, count: int) -> None:
    subnet = naming.choose_subnet(name, [])
    larger = naming.plan_nodes(count + 1, subnet)
    assert larger[:-1] == naming.plan_nodes(count, subnet)
    assert len({node.name for node in larger} | {node.address for node in larger}) == 2 * (count + 1)
    assert all(IPv4Address(node.address) in subnet for node in larger)


@given(names, names)
def test_interface_names_fit_the_kernel_and_do_not_meet(one: str, other: str) -> None:
    assert len(naming.bridge_name(one)) <= 15
    assert len(naming.port_name(one, "a100")) <= 15
    if one != other:
        assert naming.bridge_name(one) != naming.bridge_name(other)
        assert naming.port_name(one, "a1") != naming.port_name(other, "a1")


@given(names)
def test_only_demo_has_the_first_network(name: str) -> None:
    assert (naming.choose_subnet(name, []) == naming.SUBNETS[0]) == (name == naming.DEFAULT_LAB)


def test_a_network_that_another_lab_has_is_not_taken_twice() -> None:
    first = naming.choose_subnet("test", [])
    second = naming.choose_subnet("test", [first])
    assert second != first
    with pytest.raises(ValueError, match=r"no network of 10\.231.0\.0/16 is free"):
        naming.choose_subnet("test", naming.SUBNETS)
    with pytest.raises(ValueError, match="lab demo: no network"):
        naming.choose_subnet("demo", [naming.SUBNETS[0]])


@pytest.mark.parametrize("kind", gpus.recordings())
def test_a_recording_shows_what_its_owner_declares(kind: str) -> None:
    declared = gpus.declared(kind)
    topology = parse_topology((gpus.RECORDINGS / kind / "topo.txt").read_text())
    assert [list(island) for island in topology.islands] == declared["nvlink_islands"]
    assert list(topology.numa) == declared["numa"]
    title, *rows = (gpus.RECORDINGS / kind / "gpus.csv").read_text().splitlines()
    columns = title.split(", ")
    cells = [dict(zip(columns, row.split(", "), strict=True)) for row in rows]
    assert len(cells) == declared["gpus"]["count"] == len(topology.numa)
    assert {cell["name"] for cell in cells} == {declared["gpus"]["model"]}
    assert {cell["memory.total [MiB]"] for cell in cells} == {f"{declared['gpus']['memory_mib']} MiB"}
