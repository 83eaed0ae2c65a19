"""Every open setting of a service on a node is closed, and why."""

from typing import Any

import pytest

from fleet.declaration import Speculative
from fleet.engines.engine import engine_of, minors
from fleet.plan import Plan, only_pairs
from fleet.verdict import Verdict
from tests.fleet.builders import IMAGE, LLAMA, PAIRS, facts, fleet, fleet_with, installed, node, service, topology, view


def plan(*args: Any, **changes: Any) -> Plan:
    (one,) = fleet_with(*args, **changes).plans
    return one


@pytest.mark.parametrize(
    ("version", "minor"),
    [
        ("0.30.0", "0.30"),
        ("0.30", "0.30"),
        ("0.31.2+cu128", "0.31"),
        ("0.28.1rc1", "0.28"),
        ("0.300.0", None),
        ("1.0", None),
    ],
)
def test_an_engine_is_known_by_its_minor_version_or_not_at_all(version: str, minor: str | None) -> None:
    found = engine_of(version)
    assert (found.version if found else None) == minor


def test_mtp_under_a_pipeline_came_with_0_30() -> None:
    able = {minor for minor in minors() if (engine := engine_of(minor)) and engine.speculation_under_pp}
    assert able == {"0.30", "0.31", "0.32", "0.33"}


def test_auto_speculates_where_model_and_engine_can() -> None:
    assert plan(speculative="auto").speculative == Speculative(method="mtp", k=3)
    assert plan(speculative="auto", config=LLAMA).speculative is None
    assert plan(speculative="none").speculative is None
    old = IMAGE | {"engine": "0.29.0"}
    assert plan(speculative="auto", image=old).speculative is None
    assert plan(speculative="auto", image=old, layout={"tp": 8}).speculative is not None


def test_what_was_asked_for_by_name_is_kept_for_the_gates_to_judge() -> None:
    assert plan(speculative="mtp:2", image=IMAGE | {"engine": "0.29.0"}).speculative == Speculative(method="mtp", k=2)


@pytest.mark.parametrize(
    ("changes", "pinned"),
    [
        ({"speculative": "mtp"}, True),
        ({"speculative": "none"}, None),
        ({"speculative": "ngram"}, None),
        ({"speculative": "mtp", "layout": {"tp": 8}}, None),
        ({"speculative": "mtp", "v2_runner": False}, False),
        ({"speculative": "none", "v2_runner": True}, True),
    ],
)
def test_the_runner_is_pinned_only_where_speculation_meets_a_pipeline(
    changes: dict[str, Any], pinned: bool | None
) -> None:
    assert plan(**changes).v2_runner is pinned


@pytest.mark.parametrize(
    ("tp", "islands", "setting", "off"),
    [
        (2, PAIRS, "auto", True),
        (4, PAIRS, "auto", False),
        (2, ((0, 1, 2, 3), (4, 5, 6, 7)), "auto", False),
        (2, (), "auto", False),
        (2, PAIRS, False, False),
        (8, PAIRS, True, True),
    ],
)
def test_custom_all_reduce_is_off_by_itself_only_at_tp_2_on_pairs(
    tp: int, islands: tuple[tuple[int, ...], ...], setting: bool | str, off: bool
) -> None:
    decided = plan(node(nvlink_islands=islands), layout={"tp": tp}, disable_custom_all_reduce=setting)
    assert decided.disable_custom_all_reduce is off


def test_a_node_with_one_wider_island_has_not_only_pairs() -> None:
    assert only_pairs(node())
    assert not only_pairs(node(nvlink_islands=((0, 1), (2, 3, 4))))
    assert not only_pairs(node(nvlink_islands=()))


def test_each_rank_knows_its_gpu_stage_and_numa_node() -> None:
    ranks = plan(layout={"tp": 2, "pp": 2, "device_order": [6, 7, 0, 1]}).ranks
    assert [(rank.rank, rank.gpu, rank.stage, rank.numa) for rank in ranks] == [
        (0, 6, 0, 1),
        (1, 7, 0, 1),
        (2, 0, 1, 0),
        (3, 1, 1, 0),
    ]


def test_numa_is_bound_only_where_every_rank_is_known() -> None:
    assert plan().numa_bind
    assert plan(node(numa=())).numa_bind  # the topology tells
    unknown = facts(topology=topology(numa=(0, 0, 0, 0, 1, 1, 1, None)))
    assert not plan(node(numa=()), unknown).numa_bind
    assert plan(node(numa=()), unknown, layout={"tp": 4}).numa_bind
    assert not plan(numa_bind=False).numa_bind
    assert not plan(image=IMAGE | {"engine": "0.99.0"}).numa_bind


def test_a_model_that_cannot_be_read_leaves_its_reason() -> None:
    assert plan(told=facts(models=())).architecture_error == "/models/glm-5.2/config.json was not read"
    assert "num_hidden_layers" in str(plan(config={"model_type": "x"}).architecture_error)
    (offline,) = fleet(view(node(), service(), told=None)).plans
    assert offline.architecture_error == "the node was not asked"


def test_a_plan_finds_its_own_installation() -> None:
    told = facts(services=(installed("other"), installed()))
    found = plan(told=told).installed
    assert found is not None and found.name == "glm"
    assert plan().installed is None


def verdict(**changes: Any) -> Verdict:
    return Verdict.model_validate(
        {"gate": "heads-divide", "node": "a1", "service": "glm", "status": "fail", "want": "w", "got": "g"} | changes
    )


def test_a_verdict_says_gate_wanted_found_place_and_remedy() -> None:
    assert str(verdict(remedy="do it")) == "heads-divide: want w, found g on a1/glm; do it"
    assert str(verdict()) == "heads-divide: want w, found g on a1/glm"
    assert str(verdict(status="pass", service=None)) == "heads-divide: pass on a1"
    assert str(verdict(status="waived", reason="known", remedy="do it")).endswith("on a1/glm; waived: known")


@pytest.mark.parametrize(("status", "stops"), [("fail", True), ("warn", False), ("waived", False), ("pass", False)])
def test_only_a_failure_stops(status: str, stops: bool) -> None:
    assert verdict(status=status).stops is stops
