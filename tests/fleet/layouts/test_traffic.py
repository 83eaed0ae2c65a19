"""What a layout sends over which links, by hand calculation, and what the order of its cost is."""

import pytest

from fleet.layouts.device_order import device_order
from fleet.layouts.traffic import Shape, Traffic, traffic
from fleet.layouts.wiring import Wiring, wiring_of
from fleet.nodes.gpu import memory_bandwidth
from tests.fleet.builders import node

GLM = Shape(layers=78, hidden_size=6144)
PAIRS = wiring_of(node())
SWITCHED = wiring_of(node(nvlink_islands=((0, 1, 2, 3, 4, 5, 6, 7),)))
CARDS = wiring_of(node(nvlink_islands=()))


def sent(wiring: Wiring, tp: int, pp: int, dp: int = 1, shape: Shape = GLM, tokens: int = 1) -> Traffic:
    order = device_order(wiring, tuple(range(8)), tp, pp, dp)
    return traffic(wiring, order, (tp, pp, dp), shape, tokens)


def test_a_ring_sends_twice_the_message_but_a_share() -> None:
    (load,) = sent(SWITCHED, 8, 1).loads
    assert (load.link, load.operations) == ("nvlink", 156)
    assert load.bytes == 156 * 2 * 7 * (6144 * 2) // 8
    assert load.hops == 156 * 14


def test_a_pipeline_sends_hidden_state_and_residual_in_shares_over_its_own_links() -> None:
    inside, across = sent(PAIRS, 4, 2).loads
    assert (inside.link, inside.operations) == ("host", 156)
    assert (across.link, across.operations, across.bytes) == ("socket", 1, 2 * 6144 * 2 // 4)


def test_the_draft_layer_adds_its_all_reduces_for_each_token_drafted() -> None:
    drafted = sent(SWITCHED, 8, 1, shape=GLM.model_copy(update={"draft_steps": 3})).loads[0]
    assert drafted.operations == 2 * (78 + 3)


def test_replicas_of_a_dense_model_send_each_other_nothing() -> None:
    assert sent(SWITCHED, 1, 1, 8).loads == ()
    assert str(sent(SWITCHED, 1, 1, 8)) == "nothing"
    assert sent(SWITCHED, 4, 1, 2).loads == sent(SWITCHED, 4, 1, 1).loads


def test_replicas_of_a_model_with_experts_exchange_every_such_layer() -> None:
    moe = Shape(layers=10, hidden_size=1024, moe_layers=8)
    (load,) = sent(SWITCHED, 1, 1, 8, shape=moe).loads
    assert (load.operations, load.bytes) == (8, 8 * (2 * 7 * (1024 * 2 * 8) // 8))


def test_the_slowest_link_of_a_group_counts() -> None:
    assert [load.link for load in sent(PAIRS, 2, 1, 4).loads] == ["nvlink"]
    assert [load.link for load in sent(PAIRS, 8, 1).loads] == ["socket"]
    assert [load.link for load in sent(CARDS, 4, 1, 2).loads] == ["host"]


def test_fast_links_cost_less_and_a_single_gpu_nothing() -> None:
    assert 0 == sent(CARDS, 1, 1, 8).seconds < sent(SWITCHED, 8, 1).seconds < sent(PAIRS, 8, 1).seconds
    assert sent(PAIRS, 2, 4).seconds < sent(PAIRS, 4, 2).seconds < sent(PAIRS, 8, 1).seconds
    assert sent(CARDS, 1, 8).seconds < sent(CARDS, 2, 4).seconds


@pytest.mark.parametrize(
    ("name", "gb_per_s"),
    [
        ("NVIDIA A100-SXM4-80GB", 2039),
        ("NVIDIA A100-PCIE-40GB", 1555),
        ("NVIDIA A100 80GB PCIe", 1935),
        ("NVIDIA H100 80GB HBM3", 3350),
        ("NVIDIA H100 PCIe", 2000),
        ("NVIDIA H200", 4800),
        ("NVIDIA B200", 8000),
        ("NVIDIA L40S", 864),
        ("NVIDIA L4", 300),
        ("NVIDIA A10G", 600),
        ("Tesla V100-SXM2-32GB", 900),
        ("Tesla T4", 320),
        ("NVIDIA GeForce RTX 4090", 1008),
    ],
)
def test_memory_bandwidth_is_known_by_name(name: str, gb_per_s: int) -> None:
    assert memory_bandwidth(name) == gb_per_s * 10**9


def test_the_memory_bandwidth_of_a_gpu_that_is_not_listed_is_unknown() -> None:
    assert memory_bandwidth("NVIDIA Z999") is None
