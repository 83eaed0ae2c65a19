"""Islands and components of known machines."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleet.nodes.topology import Topology


def joined(gpus: int, *pairs: tuple[int, int]) -> Topology:
    """A topology where these pairs have NVLink and all others SYS."""
    links = [["X" if i == j else "SYS" for j in range(gpus)] for i in range(gpus)]
    for i, j in pairs:
        links[i][j] = links[j][i] = "NV2"
    return Topology(gpus=gpus, links=tuple(map(tuple, links)), numa=(None,) * gpus, cpu_affinity=(None,) * gpus)


def test_nvlink_pairs_are_islands_of_two() -> None:
    pairs = joined(4, (0, 3), (1, 2))
    assert pairs.islands == ((0, 3), (1, 2))
    assert pairs.island_of(2) == (1, 2)
    assert str(pairs) == "4 GPUs, NVLink islands {0,3} {1,2}, NUMA ?,?,?,?"


def test_the_hybrid_cube_mesh_is_one_component_of_two_islands() -> None:
    halves = [*combinations(range(4), 2), *combinations(range(4, 8), 2)]
    mesh = joined(8, *halves, (0, 4), (1, 5), (2, 6), (3, 7))
    assert mesh.islands == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert mesh.components == (tuple(range(8)),)


def test_a_gpu_without_nvlink_is_in_no_island() -> None:
    lone = joined(3, (0, 1))
    assert lone.islands == lone.components == ((0, 1),)
    assert lone.island_of(2) is None


def test_a_chain_is_one_component_but_only_its_pairs_are_islands() -> None:
    chain = joined(4, (0, 1), (1, 2), (2, 3))
    assert chain.islands == ((0, 1), (2, 3))
    assert chain.components == ((0, 1, 2, 3),)


@pytest.mark.parametrize(
    "links",
    [
        (("X", "NV4"), ("SYS", "X")),
        (("NV4", "X"), ("X", "NV4")),
        (("X", "FOO"), ("FOO", "X")),
        (("X",), ("X",)),
        (("X", "NV0"), ("NV0", "X")),
    ],
)
def test_a_matrix_that_is_not_whole_is_no_topology(links: tuple[tuple[str, ...], ...]) -> None:
    with pytest.raises(ValidationError):
        Topology(gpus=2, links=links, numa=(0, 0), cpu_affinity=(None, None))


@given(st.integers(1, 10), st.data())
def test_islands_are_disjoint_fully_joined_and_none_could_grow_by_a_lone_gpu(gpus: int, data: st.DataObject) -> None:
    pairs = [pair for pair in combinations(range(gpus), 2) if data.draw(st.booleans())]
    topology = joined(gpus, *pairs)
    members = [gpu for island in topology.islands for gpu in island]
    assert len(members) == len(set(members))
    for island in topology.islands:
        assert len(island) > 1
        assert all(topology.nvlinked(i, j) for i, j in combinations(island, 2))
        for lone in set(range(gpus)) - set(members):
            assert not all(topology.nvlinked(lone, member) for member in island)
