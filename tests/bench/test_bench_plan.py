"""The planning bench measures real plans. Nothing is timed here."""

from bench.plan import deep, fleet_of, one_node, one_node_dense
from fleet.plan import Plan


def layout(plan: Plan) -> str:
    return f"{plan.layout} {plan.layout.partition_text}" if plan.layout else str(plan.layout_error)


def test_the_measured_node_is_planned_whole() -> None:
    assert layout(one_node()) == "TP4/PP2 42,36"
    assert layout(one_node_dense()) == "TP8/PP1 -"


def test_the_measured_fleet_has_many_kinds_and_every_node_a_layout() -> None:
    plans = fleet_of(40, 20)
    assert len({(plan.node.gpus, plan.node.nvlink_islands) for plan in plans}) == 20
    assert len({layout(plan) for plan in plans}) > 1 and [*map(layout, plans[:20])] == [*map(layout, plans[20:])]


def test_both_ways_to_cut_deep_models_find_the_same() -> None:
    assert deep(40, 4) == deep(40, 4, monotone=False) and sum(deep(40, 4)) == 40
