"""An engine over several hosts: what is declared, planned and rendered of it, and that its hosts change as one."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from fleet.batches import batches, units
from fleet.declaration import ServiceDeclaration
from fleet.nodes.node import NodeFacts, Peer
from fleet.plan import Plan
from fleet.releases.command import engine_argv, engine_env
from fleet.releases.difference import Change
from fleet.releases.release import make_release, plan_document
from fleet.releases.tied import as_one, tie, with_hosts_of
from fleet.span import serves, span_in
from templates.render import render_unit
from tests.fleet.builders import facts, node, plans_of, service, view

NODES = ("a1", "a2")
ADDRESS = {"a1": "192.0.2.1", "a2": "192.0.2.2", "a3": "192.0.2.3"}


def spanning(**changes: Any) -> ServiceDeclaration:
    """glm on two hosts, a stage on each."""
    return service(**{"nodes": NODES, "layout": {"tp": 8, "pp": 2, "partition": [42, 36]}, **changes})


def peers(name: str, among: tuple[str, ...] = NODES, **changes: Any) -> tuple[Peer, ...]:
    """What a host tells of the others."""
    sound = {"port": 29501, "interface": "ens1", "source": ADDRESS[name], "answer": "refused"}
    return tuple(
        Peer.model_validate({**sound, "name": other, "resolved": ADDRESS[other], **changes})
        for other in among
        if other != name
    )


def plan(name: str, told: NodeFacts | None = None, among: tuple[str, ...] = NODES, **changes: Any) -> Plan:
    """The plan of one host."""
    declared = view(node(name=name, address=ADDRESS[name]), spanning(nodes=among, **changes), told=told)
    others = {other: ADDRESS[other] for other in among if other != name}
    placed = declared.placement.model_copy(update={"peers": others})
    return plans_of(declared.model_copy(update={"placement": placed}))[0]


def told(name: str, among: tuple[str, ...] = NODES, **changes: Any) -> NodeFacts:
    """The facts of one host."""
    return facts(peers=peers(name, among), **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes": ["a1", "a1"]}, "want each node once, found a1 more than once"),
        ({"nodes": ["a1"]}, "want two nodes or more (one alone serves without it), found ['a1']"),
        ({"nodes": []}, "want two nodes or more"),
        ({"layout": "auto"}, 'layout: want tp and pp for 2 nodes (auto looks at one node alone), found "auto"'),
        ({"layout": {"tp": 8, "pp": 3}}, "layout: want pp a multiple of 2"),
        ({"layout": {"tp": 16, "pp": 1}}, "layout: want pp a multiple of 2"),
        ({"layout": {"tp": 4, "pp": 2, "dp": 2}}, "layout: want dp 1 over several nodes"),
        ({"master_port": 8000}, "want a port and a master_port that differ"),
    ],
)
def test_what_the_engine_could_not_run_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        spanning(**changes)
    assert words in str(refused.value)


def test_the_head_serves_and_the_other_host_is_headless() -> None:
    head, other = plan("a1", told("a1")), plan("a2", told("a2"))
    assert head.serves and not other.serves and head.nodes == other.nodes == NODES
    words = engine_argv(head)
    start = words.index("--nnodes")
    assert words[start : start + 8] == (
        *("--nnodes", "2", "--node-rank", "0"),
        *("--master-addr", "192.0.2.1", "--master-port", "29501"),
    )
    assert "--headless" not in words
    assert engine_argv(other)[start : start + 9] == (
        *("--nnodes", "2", "--node-rank", "1"),
        *("--master-addr", "192.0.2.1", "--master-port", "29501", "--headless"),
    )
    assert head.url == other.url == "http://192.0.2.1:8000"


def test_address_and_interface_are_those_that_the_host_told() -> None:
    other = plan("a2", facts(peers=peers("a2", source="10.1.0.2", resolved="10.1.0.1", interface="ib0")))
    env = engine_env(other)
    assert env["VLLM_HOST_IP"] == "10.1.0.2"
    assert env["GLOO_SOCKET_IFNAME"] == env["NCCL_SOCKET_IFNAME"] == "ib0"
    assert "10.1.0.1" in engine_argv(other)


def test_the_owner_may_name_another_interface() -> None:
    env = engine_env(plan("a1", told("a1"), env={"NCCL_SOCKET_IFNAME": "ib0"}))
    assert env["NCCL_SOCKET_IFNAME"] == "ib0" and env["GLOO_SOCKET_IFNAME"] == "ens1"


def test_without_an_answer_the_declared_addresses_stand_and_no_interface_is_guessed() -> None:
    other = plan("a2")
    assert "192.0.2.1" in engine_argv(other) and engine_env(other)["VLLM_HOST_IP"] == "192.0.2.2"
    assert "GLOO_SOCKET_IFNAME" not in engine_env(other)


def test_each_host_has_the_ranks_of_its_own_stages() -> None:
    four = {"layout": {"tp": 4, "pp": 4}}
    first, second = (plan(name, told(name), **four) for name in NODES)
    assert [rank.rank for rank in first.ranks] == list(range(8))
    assert [rank.rank for rank in second.ranks] == list(range(8, 16))
    assert {rank.stage for rank in first.ranks} == {0, 1} and {rank.stage for rank in second.ranks} == {2, 3}
    assert sorted(rank.gpu for rank in second.ranks) == list(range(8))
    assert engine_env(second)["CUDA_VISIBLE_DEVICES"].count(",") == 7
    assert str(first.layout) == "TP4/PP4 on 2 hosts"


def test_flags_of_the_api_server_are_not_given_to_a_headless_host() -> None:
    flags = {"--api-server-count": 4, "--enable-prefix-caching": True}
    head, other = (engine_argv(plan(name, told(name), flags=flags)) for name in NODES)
    assert "--api-server-count" in head and "--api-server-count" not in other
    assert "--enable-prefix-caching" in other


def test_only_the_head_has_a_heartbeat() -> None:
    beat = {"policy": {"heartbeat": {}}}
    head, other = (plan_document(plan(name, told(name), **beat)) for name in NODES)
    assert "heartbeat" in head and "heartbeat" not in other
    assert serves(head) and not serves(other)


def ids(plans: tuple[Plan, ...]) -> list[str]:
    releases = {(p.node.name, "glm"): make_release(p, "unit") for p in plans}
    return [make_release(p, "unit").id for p in tie(plans, releases)]


def test_a_change_of_one_host_is_a_new_release_of_all() -> None:
    before = ids((plan("a1", told("a1")), plan("a2", told("a2"))))
    again = ids((plan("a1", told("a1")), plan("a2", told("a2"))))
    after = ids((plan("a1", told("a1")), plan("a2", told("a2"), mounts=[{"source": "/x", "target": "/x"}])))
    assert before == again and len(set(before)) == 2
    assert not set(before) & set(after)


def test_a_stored_plan_tells_of_which_engine_it_is_a_part() -> None:
    tied = tie((plan("a1", told("a1")), plan("a2", told("a2"))), {})
    spans = [span_in(json.loads(json.dumps(plan_document(one)))) for one in tied]
    assert spans[0] and spans[1] and [span.rank for span in spans if span] == [0, 1]
    assert spans[0].digest == spans[1].digest != ""
    assert span_in({}) is None and span_in({"span": {"nodes": 1}}) is None and span_in(None) is None


def test_where_one_host_starts_anew_all_do() -> None:
    plans = (plan("a1", told("a1")), plan("a2", told("a2")))
    changes = [Change(node="a1", service="glm", kind="none"), Change(node="a2", service="glm", kind="start")]
    first, second = as_one(changes, plans)
    assert (first.kind, first.words) == ("rejoin", ("a2 of the same engine changes",))
    assert second.kind == "start"
    quiet = [Change(node="a1", service="glm", kind="none"), Change(node="a2", service="glm", kind="tidy")]
    assert as_one(quiet, plans) == tuple(quiet)


def test_a_host_that_is_left_out_takes_the_others_of_its_engine_with_it() -> None:
    plans = (plan("a1", told("a1")), plan("a2", told("a2")))
    assert with_hosts_of(frozenset({"a2"}), plans) == {"a1", "a2"}
    assert with_hosts_of(frozenset({"a3"}), plans) == {"a3"}


def test_an_engine_is_one_unit_of_a_batch() -> None:
    together = [frozenset({"a1", "a3"})]
    assert units(["b1", "a3", "a2", "a1"], together) == [["a1", "a3"], ["a2"], ["b1"]]
    assert batches(["a1", "a2", "a3", "b1"], ("1", "100%"), {}, frozenset(), together) == [["a1", "a3"], ["a2", "b1"]]


def test_engines_that_share_a_host_are_one_unit() -> None:
    together = [frozenset({"a1", "a2"}), frozenset({"a2", "a3"})]
    assert units(["a1", "a2", "a3", "a4"], together) == [["a1", "a2", "a3"], ["a4"]]


def test_two_engines_of_a_service_do_not_go_in_one_batch() -> None:
    together = [frozenset({"a1", "a2"}), frozenset({"b1", "b2"})]
    serving = {"glm": frozenset({"a1", "b1"})}
    found = batches(["a1", "a2", "b1", "b2"], ("100%",), serving, frozenset({"glm"}), together)
    assert found == [["a1", "a2"], ["b1", "b2"]]


def test_a_headless_unit_waits_for_its_head_and_for_the_end_of_an_older_one() -> None:
    head, other = (render_unit(plan(name, told(name), policy={"heartbeat": {}})) for name in NODES)
    script = "/usr/local/lib/vllm-fleet/node"
    assert f"ExecStartPre={script} wait-gone 8000 192.0.2.1" in other and "wait-gone" not in head
    assert f"ExecStartPost={script} wait-health 8000 192.0.2.1" in other
    assert f"ExecStartPost={script} wait-health 8000\n" in head
    for unit in (head, other):
        assert "Wants=vllm-fleet-follow@glm.service" in unit
    assert "vllm-fleet-heartbeat@glm" in head and "vllm-fleet-heartbeat@glm" not in other


def test_each_host_knows_how_to_see_that_another_is_gone() -> None:
    three = ("a1", "a2", "a3")
    found = [plan_document(plan(name, told(name, three), three, layout={"tp": 4, "pp": 6}))["follow"] for name in three]
    assert found == ["all_joined 29501 192.0.2.2 192.0.2.3", *["head_answers 8000 192.0.2.1"] * 2]
    alone = plans_of(view(node(), service(), told=facts()))[0]
    assert "follow" not in plan_document(alone) and "follow@" not in render_unit(alone)
