"""Which layout follows from the declaration, and which GPU is which rank."""

import pytest

from fleet.layouts.layout import LayoutError, resolve
from fleet.model.architecture import read_architecture
from tests.fleet.builders import GLM, node, service

MODEL = read_architecture(GLM)


def test_auto_without_a_known_model_is_refused_with_the_reason() -> None:
    with pytest.raises(LayoutError, match=r"auto: the model is unknown: config.json was not read"):
        resolve(node(), service(layout="auto"), None, unknown="config.json was not read")


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
