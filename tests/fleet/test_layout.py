"""Which layout follows from the declaration, and which GPU is which rank."""

import pytest

from fleet.architecture import Architecture, read_architecture
from fleet.layout import LayoutError, auto_candidates, resolve
from tests.fleet.builders import GLM, LLAMA, node, service

SWITCH = ((0, 1, 2, 3, 4, 5, 6, 7),)
MODEL = read_architecture(GLM)
ALL = tuple(range(8))


def sizes(
    islands: tuple[tuple[int, ...], ...], gpus: tuple[int, ...] = ALL, model: Architecture | None = MODEL
) -> list[str]:
    found = auto_candidates(node(nvlink_islands=islands), gpus, model)
    return [f"{one.tp}/{one.pp}/{one.dp}" for one in found]


def test_auto_keeps_tp_as_wide_as_the_islands() -> None:
    assert sizes(SWITCH) == ["8/1/1"]
    assert sizes(((0, 1, 2, 3), (4, 5, 6, 7))) == ["4/1/2", "4/2/1"]


def test_auto_offers_more_than_two_stages_only_where_no_indices_are_shared() -> None:
    pairs = ((0, 1), (2, 3), (4, 5), (6, 7))
    assert sizes(pairs) == ["2/1/4", "2/2/2"]
    assert sizes(pairs, model=read_architecture(LLAMA)) == ["2/1/4", "2/2/2", "2/4/1"]


def test_auto_offers_nothing_where_islands_differ_or_heads_do_not_divide() -> None:
    assert sizes(((0, 1), (2, 3, 4, 5, 6, 7))) == []
    assert sizes(((0, 1), (2, 3))) == []
    assert sizes(((0, 1, 2), (3, 4, 5)), (0, 1, 2, 3, 4, 5)) == []


def test_auto_looks_only_at_the_gpus_of_the_service() -> None:
    assert sizes(SWITCH, (0, 1, 2, 3)) == ["4/1/1"]
    assert sizes(((0, 1), (2, 3), (4, 5), (6, 7)), (0, 1)) == ["2/1/1"]


def test_auto_without_a_single_answer_asks_with_the_choices() -> None:
    with pytest.raises(LayoutError, match="tp 4 pp 1 dp 2, tp 4 pp 2 dp 1"):
        resolve(node(nvlink_islands=((0, 1, 2, 3), (4, 5, 6, 7))), service(layout="auto"), MODEL)
    with pytest.raises(LayoutError, match=r"no layout divides and fits 8 GPUs .* 64 attention heads"):
        resolve(node(nvlink_islands=((0, 1),)), service(layout="auto"), MODEL)


def test_ranks_count_tp_first_then_stages_then_replicas() -> None:
    layout = resolve(node(), service(layout={"tp": 2, "pp": 2, "dp": 2}), MODEL)
    assert [layout.stage_of(rank) for rank in range(layout.ranks)] == [0, 0, 1, 1, 0, 0, 1, 1]


def test_an_undeclared_partition_is_the_engines_even_split() -> None:
    layout = resolve(node(), service(layout={"tp": 4, "pp": 2}), MODEL)
    assert (layout.partition, layout.declared_partition, layout.partition_text) == ((39, 39), None, "39,39")
    assert resolve(node(), service(layout={"tp": 4, "pp": 2}), None).partition is None


def test_one_stage_has_no_partition_to_show() -> None:
    layout = resolve(node(), service(layout={"tp": 8, "partition": [78]}), MODEL)
    assert (layout.partition, layout.declared_partition, layout.partition_text) == (None, (78,), "-")


def test_a_layout_reads_as_operators_write_it() -> None:
    assert str(resolve(node(), service(layout={"tp": 4, "pp": 2}), MODEL)) == "TP4/PP2"
    assert str(resolve(node(), service(layout={"tp": 2, "pp": 2, "dp": 2}), MODEL)) == "TP2/PP2/DP2"


def test_a_declared_device_order_is_kept_word_for_word() -> None:
    order = [7, 6, 5, 4, 3, 2, 1, 0]
    layout = resolve(node(), service(layout={"tp": 4, "pp": 2, "device_order": order}), MODEL)
    assert layout.device_order == tuple(order)


def test_a_service_is_placed_on_its_own_gpus_only() -> None:
    layout = resolve(node(), service(layout={"tp": 2}, gpus=[4, 5, 6, 7]), MODEL)
    assert layout.device_order == (4, 5)
