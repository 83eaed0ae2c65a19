"""Which GPU is which rank, on declared nodes, on every recorded topology, and however the GPUs are numbered."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.topology import TopologyError, parse_topology
from fleet.layouts.device_order import device_order
from fleet.layouts.wiring import LINK_CLASSES, Wiring, link_class, wiring_of, wiring_of_topology
from tests.facts.captures import index, require_captures, topology_text
from tests.fleet.builders import node, topology

ALL = tuple(range(8))
Groups = list[tuple[int, ...]]


def groups_of(order: tuple[int, ...], tp: int) -> Groups:
    return [order[at : at + tp] for at in range(0, len(order), tp)]


def wiring_like(labels: list[list[str]], numa: tuple[int | None, ...]) -> Wiring:
    return Wiring(links=tuple(map(tuple, labels)), numa=numa)


def test_a_tp_group_sits_inside_an_island_although_its_gpus_are_not_neighbours() -> None:
    crossed = wiring_of(node(nvlink_islands=((0, 3), (1, 2)), numa=(None,) * 8))
    assert device_order(crossed, (0, 1, 2, 3), 2, 2, 1) == (0, 3, 1, 2)


def test_islands_of_one_numa_node_follow_each_other() -> None:
    mixed = wiring_of(node(nvlink_islands=((0, 4), (1, 5), (2, 6), (3, 7)), numa=(0, 1, 0, 1, 0, 1, 0, 1)))
    assert device_order(mixed, ALL, 2, 4, 1) == (0, 4, 2, 6, 1, 5, 3, 7)
    assert device_order(mixed, ALL, 4, 2, 1) == (0, 2, 4, 6, 1, 3, 5, 7)


def test_without_nvlink_a_tp_group_stays_on_one_numa_node() -> None:
    cards = wiring_of(node(nvlink_islands=(), numa=(0, 1, 0, 1, 0, 1, 0, 1)))
    assert device_order(cards, ALL, 4, 1, 2) == (0, 2, 4, 6, 1, 3, 5, 7)


def test_the_numa_node_decides_where_every_link_has_the_same_label() -> None:
    told = topology((), (0, 1, 0, 1, 0, 1, 0, 1))
    assert groups_of(device_order(wiring_of_topology(told), ALL, 4, 2, 1), 4) == [(0, 2, 4, 6), (1, 3, 5, 7)]


def test_nvlink_counts_before_the_numa_node() -> None:
    bridged = wiring_of(node(nvlink_islands=((0, 4), (1, 5), (2, 6), (3, 7))))
    assert groups_of(device_order(bridged, ALL, 2, 1, 4), 2) == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_a_switch_is_nearer_than_the_processor() -> None:
    labels = [["X", "NODE", "PIX", "SYS"], ["NODE", "X", "SYS", "PIX"], ["PIX", "SYS", "X", "NODE"],
              ["SYS", "PIX", "NODE", "X"]]  # fmt: skip
    assert device_order(wiring_like(labels, (None,) * 4), (0, 1, 2, 3), 2, 2, 1) == (0, 2, 1, 3)


def test_a_bond_of_more_links_is_nearer() -> None:
    labels = [["X", "NV1", "NV2", "NV1"], ["NV1", "X", "NV1", "NV2"], ["NV2", "NV1", "X", "NV1"],
              ["NV1", "NV2", "NV1", "X"]]  # fmt: skip
    assert device_order(wiring_like(labels, (None,) * 4), (0, 1, 2, 3), 2, 1, 2) == (0, 2, 1, 3)


def test_replicas_sit_on_numa_nodes_of_their_own() -> None:
    mixed = wiring_of(node(nvlink_islands=((0, 1), (2, 3), (4, 5), (6, 7)), numa=(0, 0, 1, 1, 0, 0, 1, 1)))
    order = device_order(mixed, ALL, 2, 2, 2)
    assert [sorted(order[:4]), sorted(order[4:])] == [[0, 1, 4, 5], [2, 3, 6, 7]]


def test_a_pipeline_crosses_the_sockets_once() -> None:
    mixed = wiring_of(node(nvlink_islands=(), numa=(0, 1, 0, 1, 0, 1, 0, 1)))
    order = device_order(mixed, ALL, 1, 8, 1)
    crossings = sum(mixed.between((a,), (b,)) == "socket" for a, b in pairwise(order))
    assert (order[0], crossings) == (0, 1)


def test_spare_gpus_are_the_ones_that_are_far_away() -> None:
    lone = wiring_like([["X" if i == j else "SYS" if 0 in (i, j) else "NODE" for j in range(5)] for i in range(5)],
                       (1, 0, 0, 0, 0))  # fmt: skip
    assert device_order(lone, (0, 1, 2, 3, 4), 4, 1, 1) == (1, 2, 3, 4)
    assert device_order(lone, (0, 1, 2, 3, 4), 1, 2, 2) == (1, 2, 3, 4)
    assert device_order(lone, (0, 1, 2, 3, 4), 2, 1, 2) == (1, 2, 3, 4)


def test_only_the_gpus_of_the_service_are_used() -> None:
    assert device_order(wiring_of(node()), (7, 6, 5, 4), 2, 1, 1) == (4, 5)


def test_more_ranks_than_gpus_are_left_for_the_gates() -> None:
    assert device_order(wiring_of(node()), (0, 1), 4, 1, 1) == (0, 1)
    assert device_order(wiring_of(node()), (0, 9), 2, 1, 1) == (0, 9)


def test_the_topology_that_the_node_tells_counts_where_it_is_of_the_declared_gpus() -> None:
    declared = node(nvlink_islands=())
    assert wiring_of(declared, topology()).slowest((0, 1)) == "nvlink"
    assert wiring_of(declared, topology((), (0, 0))).slowest((0, 1)) == "host"
    assert wiring_of(node(numa=()), topology()).numa == (0, 0, 0, 0, 1, 1, 1, 1)
    assert wiring_of(node(numa=(), nvlink_islands=())).numa == (None,) * 8


def test_a_gpu_whose_numa_node_is_unknown_is_nobodys_neighbour() -> None:
    assert wiring_of(node(nvlink_islands=(), numa=(None,) * 8)).slowest((0, 1)) == "socket"


def test_sixteen_gpus_are_divided_into_their_islands() -> None:
    islands = tuple((pair, pair + 8) for pair in range(8))
    big = node(nvlink_islands=islands, gpus={"count": 16, "model": "X", "memory_mib": 1}, numa=(None,) * 16)
    found = groups_of(device_order(wiring_of(big), tuple(range(16)), 2, 8, 1), 2)
    assert sorted(found) == [*islands]
    fours = tuple((start, start + 4, start + 8, start + 12) for start in range(4))
    big = node(nvlink_islands=fours, gpus={"count": 16, "model": "X", "memory_mib": 1}, numa=(None,) * 16)
    assert sorted(groups_of(device_order(wiring_of(big), tuple(range(16)), 4, 4, 1), 4)) == [*fours]


def relabelled(wiring: Wiring, names: tuple[int, ...]) -> Wiring:
    """The same machine, where GPU i is called names[i]."""
    at = {name: gpu for gpu, name in enumerate(names)}
    gpus = range(wiring.gpus)
    return Wiring(
        links=tuple(tuple(wiring.links[at[i]][at[j]] for j in gpus) for i in gpus),
        numa=tuple(wiring.numa[at[i]] for i in gpus),
    )


def look(wiring: Wiring, order: tuple[int, ...], tp: int, pp: int) -> list[object]:
    """An order as it is seen on the machine, whatever its GPUs are called: links and NUMA nodes, replica by replica."""

    def stage(gpus: tuple[int, ...]) -> tuple[object, ...]:
        links = sorted(wiring.links[a][b] for i, a in enumerate(gpus) for b in gpus[i + 1 :])
        return tuple(links), tuple(sorted(str(wiring.numa[gpu]) for gpu in gpus))

    replicas = groups_of(order, tp * pp)
    return sorted(sorted(map(stage, groups_of(replica, tp))) for replica in replicas)


def steps(wiring: Wiring, order: tuple[int, ...], tp: int, pp: int) -> list[int]:
    """How often pipelines cross each class of links."""
    crossed = [
        wiring.between(one, other)
        for replica in groups_of(order, tp * pp)
        for one, other in pairwise(groups_of(replica, tp))
    ]
    return [crossed.count(kind) for kind in LINK_CLASSES]


PAIRS_CROSSED = wiring_of(node(nvlink_islands=((0, 5), (1, 4), (2, 7), (3, 6)), numa=(0, 1, 0, 1, 1, 0, 1, 0)))
MACHINES = [
    wiring_of(node()),
    wiring_of(node(nvlink_islands=((0, 1, 2, 3), (4, 5, 6, 7)))),
    wiring_of(node(nvlink_islands=())),
    PAIRS_CROSSED,
]


@given(st.sampled_from(MACHINES), st.permutations(ALL), st.sampled_from([(2, 4, 1), (4, 2, 1), (4, 1, 2), (2, 2, 2)]))
def test_permuting_gpu_numbers_permutes_the_order(
    machine: Wiring, names: list[int], sizes: tuple[int, int, int]
) -> None:
    tp, pp, _ = sizes
    renamed = relabelled(machine, tuple(names))
    before, after = device_order(machine, ALL, *sizes), device_order(renamed, ALL, *sizes)
    assert look(renamed, after, tp, pp) == look(machine, before, tp, pp)
    assert steps(renamed, after, tp, pp) == steps(machine, before, tp, pp)


def whole_captures() -> list[dict[str, str]]:
    """Recorded topologies that can be trusted."""

    def trusted(row: dict[str, str]) -> bool:
        try:
            parse_topology(topology_text(row["id"]))
        except TopologyError:
            return False
        return True

    return [row for row in index() if trusted(row)]


def test_the_recorded_topologies_are_there() -> None:
    require_captures()
    assert len(whole_captures()) > 50


@pytest.mark.parametrize("row", whole_captures(), ids=lambda row: row["id"])
def test_every_recorded_topology_gets_a_sensible_device_order(row: dict[str, str]) -> None:
    told = parse_topology(topology_text(row["id"]))
    wiring, gpus = wiring_of_topology(told), tuple(range(told.gpus))
    islands = [set(map(int, group.split(","))) for group in re.findall(r"\{([\d,]+)\}", row["nvlink_islands"])]
    for tp in (width for width in (1, 2, 4, 8) if width <= told.gpus):
        count = told.gpus // tp
        for pp in (stages for stages in range(1, count + 1) if count % stages == 0):
            order = device_order(wiring, gpus, tp, pp, count // pp)
            groups = groups_of(order, tp)
            assert len(set(order)) == len(order) == tp * count
            room = sum(len(island) // tp for island in islands)
            joined = sum(wiring.slowest(group) == "nvlink" for group in groups)
            if tp > 1:
                assert joined >= min(room, count), f"TP {tp}: {groups} with islands {islands}"
            if islands and tp == max(map(len, islands)):
                assert all(island in [set(group) for group in groups] for island in islands if len(island) == tp)


def test_the_cube_mesh_pairs_its_double_links() -> None:
    require_captures()
    wiring = wiring_of_topology(parse_topology(topology_text("010")))
    groups = groups_of(device_order(wiring, ALL, 2, 1, 4), 2)
    assert {wiring.links[a][b] for a, b in groups} == {"NV2"}


@pytest.mark.parametrize(
    ("label", "kind"),
    [("NV12", "nvlink"), ("XGMI", "nvlink"), ("HCCS", "nvlink"), ("PIX", "switch"), ("PXB", "switch"),
     ("PHB", "host"), ("NODE", "host"), ("PCIE", "host"), ("SYS", "socket"), ("SOC", "socket")],
)  # fmt: skip
def test_every_label_has_its_class(label: str, kind: str) -> None:
    assert link_class(label) == kind
