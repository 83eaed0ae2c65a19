"""A layout fits the model and the GPUs, or the engine would refuse it after the load."""

from typing import Any

import pytest

from fleet.gate import FleetView
from fleet.plan import search
from tests.fleet.builders import UNREAD, facts, fails, fleet, fleet_with, node, passes, service, topology, view, warns

NO_CONFIG = facts(config=None)


def cut(*parts: int, tp: int = 4, pp: int = 2, **changes: Any) -> FleetView:
    return fleet_with(layout={"tp": tp, "pp": pp, "partition": parts}, **changes)


def impossible(**changes: Any) -> FleetView:
    """layout: auto where no GPU may be used."""
    return fleet_with(layout="auto", gpus=[], **changes)


def test_auto_that_finds_no_layout_asks_for_one() -> None:
    passes("layout", fleet_with())
    fails("layout", impossible(), "auto: no layout can be: no GPU", "declare layout")


def test_without_a_layout_no_gate_of_the_layout_passes() -> None:
    for gate in ("partition", "partition-sum", "gpus-fit", "heads-divide", "custom-all-reduce", "speculation-pp"):
        fails(gate, impossible(), "no layout can be")


def test_auto_takes_the_best_layout() -> None:
    alone = node(nvlink_islands=((0, 1, 2, 3, 4, 5, 6, 7),))
    told = facts(UNREAD, topology=topology(((0, 1, 2, 3, 4, 5, 6, 7),)))
    passes("layout", fleet_with(alone, told, layout="auto"))


def test_auto_never_takes_more_than_two_stages_of_an_index_sharing_model_even_overridden() -> None:
    for overrides in ({}, {"index_topk_freq": 1}):
        (plan,) = fleet_with(config=UNREAD, layout="auto", hf_overrides=overrides).plans
        assert plan.layout is not None and plan.layout.pp <= 2
        choice = search(plan.node, plan.service, plan.facts, plan.architecture)
        assert choice is not None
        deep = [str(one) for one in choice.rejected if one.candidate.sizes.pp > 2 and one.candidate.order]
        assert deep and all("stages on an index-sharing model" in text for text in deep)


def test_one_part_for_each_stage() -> None:
    passes("partition", cut(42, 36))
    fails("partition", cut(42, 20, 16), "want 2 parts for PP 2", "found 3 (42,20,16)")
    fails("partition", cut(78), "found 1 (78)")


def test_a_stage_cannot_have_less_than_no_layers() -> None:
    fails("partition", cut(80, -2), "non-negative", "80,-2")


def test_a_stage_without_layers_is_a_warning() -> None:
    warns("partition", cut(78, 0), "a stage without any (78,0)")


def test_a_partition_at_pp_1_is_ignored_and_the_owner_is_told() -> None:
    warns("partition", cut(78, tp=8, pp=1), "78, which the engine ignores")
    passes("partition", fleet_with(layout={"tp": 8}))
    passes("partition-sum", fleet_with(layout={"tp": 8}))


def test_an_even_split_is_the_engines_own_and_passes() -> None:
    passes("partition", fleet_with(layout={"tp": 4, "pp": 2}))
    passes("partition-sum", fleet_with(layout={"tp": 4, "pp": 2}))


@pytest.mark.parametrize("parts", [(41, 36), (42, 37)])
def test_stages_add_up_to_the_models_layers(parts: tuple[int, int]) -> None:
    passes("partition-sum", cut(42, 36))
    fails("partition-sum", cut(*parts), "want 78 layers in all", f"found {parts[0]}+{parts[1]} = {sum(parts)}")


def test_a_partition_of_an_unknown_model_does_not_add_up() -> None:
    fails("partition-sum", fleet_with(told=NO_CONFIG), "model unknown")
    even = fleet_with(told=NO_CONFIG, layout={"tp": 4, "pp": 2})
    fails("partition-sum", even, "model unknown")
    passes("partition", even)  # two parts, of however many layers


def test_ranks_fit_the_gpus() -> None:
    passes("gpus-fit", fleet_with())
    fails("gpus-fit", fleet_with(layout={"tp": 4, "pp": 2, "dp": 2}), "at most 8 GPUs", "TP 4 x PP 2 x DP 2 = 16")


def test_ranks_fit_the_gpus_that_the_service_may_use() -> None:
    passes("gpus-fit", fleet_with(gpus=[4, 5, 6, 7], layout={"tp": 4}))
    fails("gpus-fit", fleet_with(gpus=[4, 5, 6, 7]), "at most 4 GPUs (4,5,6,7)")


@pytest.mark.parametrize("gpus", [[0, 1, 2, 8], [0, 1, 1, 2], [-1, 0, 1, 2]])
def test_a_service_names_gpus_that_there_are_each_once(gpus: list[int]) -> None:
    fails("gpus-fit", fleet_with(gpus=gpus, layout={"tp": 4}), "GPUs 0 to 7, each once", ",".join(map(str, gpus)))


def test_a_node_without_gpus_holds_no_rank() -> None:
    bare = node(gpus={"count": 0, "model": "none", "memory_mib": 1}, nvlink_islands=(), numa=())
    fails("gpus-fit", fleet_with(bare, layout={"tp": 1}), "want at most 0 GPUs (none), found TP 1 x PP 1 x DP 1 = 1")
    fails("gpus-fit", fleet_with(bare, layout={"tp": 1}, gpus=[0]), "the node has no GPU")


def ordered(*order: int, **changes: Any) -> FleetView:
    return fleet_with(layout={"tp": 2, "pp": 2, "device_order": order}, **changes)


def test_each_rank_has_a_gpu_of_its_own() -> None:
    passes("device-order", fleet_with())
    passes("device-order", ordered(0, 3, 1, 2))
    passes("device-order", ordered(2, 3, 0, 1, gpus=[0, 1, 2, 3]))
    fails("device-order", ordered(0, 3, 1), "want 4 different GPUs", "found 0,3,1")
    fails("device-order", ordered(0, 3, 1, 1), "found 0,3,1,1")
    fails("device-order", ordered(0, 3, 1, 2, 2))
    fails("device-order", ordered(0, 3, 1, 9))


def test_a_rank_has_a_gpu_that_the_service_may_use() -> None:
    fails("device-order", ordered(0, 3, 1, 2, gpus=[0, 1, 2, 4]), "of 0,1,2,4")


def test_heads_divide_by_tp() -> None:
    passes("heads-divide", fleet_with())
    fails("heads-divide", fleet_with(layout={"tp": 3}), "want 64 attention heads divisible by TP", "found TP 3")


def test_heads_of_an_unknown_model_do_not_divide() -> None:
    fails("heads-divide", fleet_with(told=NO_CONFIG), "model unknown")


def test_numa_binding_needs_to_know_the_numa_nodes() -> None:
    passes("numa-bind", fleet_with())
    passes("numa-bind", fleet_with(numa_bind=True))
    nowhere = node(numa=(None,) * 8)
    passes("numa-bind", fleet_with(nowhere))
    fails("numa-bind", fleet_with(nowhere, numa_bind=True), "unknown for GPU 0,1,2,3,4,5,6,7")


def test_numa_binding_needs_an_engine_that_is_known_and_a_layout() -> None:
    image = {"name": "vllm", "digest": "sha256:" + "a" * 64, "engine": "0.99.0"}
    fails("numa-bind", fleet_with(numa_bind=True, image=image), "0.99.0")
    fails("numa-bind", impossible(numa_bind=True), "no layout can be")


def two(first: dict[str, Any], second: dict[str, Any]) -> FleetView:
    return fleet(view(node(), service(**first), service(name="other", port=8001, **second), told=facts()))


def test_two_services_share_no_gpu() -> None:
    halves = ({"gpus": [0, 1, 2, 3], "layout": {"tp": 4}}, {"gpus": [4, 5, 6, 7], "layout": {"tp": 4}})
    passes("gpus-shared", two(*halves))
    overlap = {"gpus": [3, 4, 5, 6], "layout": {"tp": 4}}
    fails("gpus-shared", two(halves[0], overlap), "glm and other both on GPU 3 on a1")


def test_services_that_may_use_all_gpus_but_are_placed_apart_share_none() -> None:
    apart = [{"layout": {"tp": 4, "device_order": order}} for order in ([0, 1, 2, 3], [4, 5, 6, 7])]
    passes("gpus-shared", two(*apart))
    fails("gpus-shared", two({"layout": {"tp": 4}}, {"layout": {"tp": 4}}), "both on GPU 0,1,2,3")


def test_a_service_whose_layout_is_open_may_use_any_of_its_gpus() -> None:
    fails("gpus-shared", two({"layout": "auto"}, {"layout": {"tp": 1, "device_order": [7]}}), "both on GPU 7")


def test_the_same_gpu_number_on_two_nodes_is_not_shared() -> None:
    nodes = [view(node(name=name), service(), told=facts()) for name in ("a1", "a2")]
    passes("gpus-shared", fleet(*nodes))
