"""In which order nodes take their turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.batches import batch_sizes, batches

NOTHING: dict[str, frozenset[str]] = {}


@pytest.mark.parametrize(
    ("policy", "nodes", "sizes"),
    [
        (("1", "25%"), 3, [1, 1, 1]),
        (("1", "25%"), 20, [1, 5, 5, 5, 4]),
        (("1", "25%"), 60, [1, 15, 15, 15, 14]),
        (("100%",), 60, [60]),
        (("2",), 5, [2, 2, 1]),
        (("1", "10", "50%"), 4, [1, 3]),
        (("1%",), 3, [1, 1, 1]),
        (("1",), 0, []),
    ],
)
def test_the_last_entry_of_the_policy_repeats(policy: tuple[str, ...], nodes: int, sizes: list[int]) -> None:
    assert batch_sizes(policy, nodes) == sizes


def test_nodes_take_their_turn_in_name_order() -> None:
    assert batches(["l1", "a1", "h1"], ("1", "100%"), NOTHING, frozenset()) == [["a1"], ["h1", "l1"]]


def test_the_last_serving_node_of_a_service_waits_for_a_later_batch() -> None:
    serving = {"glm": frozenset({"a1", "a2"})}
    assert batches(["a1", "a2", "b1"], ("100%",), serving, frozenset({"glm"})) == [["a1", "b1"], ["a2"]]
    assert batches(["a1", "a2", "b1"], ("100%",), serving, frozenset()) == [["a1", "a2", "b1"]]


def test_a_service_on_one_node_is_left_to_the_gate() -> None:
    assert batches(["a1", "b1"], ("100%",), {"glm": frozenset({"a1"})}, frozenset({"glm"})) == [["a1", "b1"]]


policies = st.lists(st.sampled_from(["1", "2", "5", "10%", "25%", "100%"]), min_size=1, max_size=3).map(tuple)
names = st.lists(st.sampled_from([f"n{i}" for i in range(12)]), unique=True)
where = st.dictionaries(st.sampled_from("xyz"), st.sets(st.sampled_from([f"n{i}" for i in range(12)])).map(frozenset))


@given(names, policies, where, st.sets(st.sampled_from("xyz")).map(frozenset))
def test_every_node_has_one_turn_and_no_batch_takes_all_of_a_kept_service(
    nodes: list[str], policy: tuple[str, ...], serving: dict[str, frozenset[str]], keep: frozenset[str]
) -> None:
    found = batches(nodes, policy, serving, keep)
    assert sorted(node for batch in found for node in batch) == sorted(nodes)
    assert all(found)
    for service in keep & serving.keys():
        if len(serving[service]) > 1:
            assert not any(serving[service] <= set(batch) for batch in found)
