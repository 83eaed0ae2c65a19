"""Gates about an engine over several hosts: they reach one another and are alike."""

from typing import Any

import pytest

from fleet.gate import FleetView
from fleet.nodes.node import NodeFacts
from fleet.nodes.nvidia import Nvidia
from tests.fleet.builders import (
    OLD_DIGEST,
    ask,
    facts,
    fails,
    fleet,
    gpus,
    listening,
    node,
    passes,
    service,
    view,
    warns,
)
from tests.fleet.test_span import ADDRESS, NODES, peers, spanning

GATES = (
    "hosts-reach",
    "hosts-interface",
    "hosts-port",
    "hosts-ports-shared",
    "hosts-listen",
    "hosts-backend",
    "hosts-address",
    "hosts-image",
    "hosts-gpus",
    "hosts-clock",
    "hosts-alike",
)


def pair(
    first: NodeFacts | None = None,
    second: NodeFacts | None = None,
    other: dict[str, Any] | None = None,
    declared: dict[str, Any] | None = None,
    also: tuple[Any, ...] = (),
    **changes: Any,
) -> FleetView:
    """Two hosts of one engine. `first`, `second`: what they tell; `other`: settings of the second's service.

    `declared`: of the second node; `also`: further services of the first.
    """
    told = (first or facts(peers=peers("a1")), second or facts(peers=peers("a2")))
    views = []
    for name, one in zip(NODES, told, strict=True):
        own = spanning(**{**changes, **((other or {}) if name == "a2" else {})})
        machine = node(**{"name": name, "address": ADDRESS[name], **((declared or {}) if name == "a2" else {})})
        made = view(machine, own, *(also if name == "a1" else ()), told=one)
        known = {peer: ADDRESS[peer] for peer in NODES if peer != name}
        views.append(made.model_copy(update={"placement": made.placement.model_copy(update={"peers": known})}))
    return fleet(*views)


def knows(name: str, **changes: Any) -> NodeFacts:
    """What a host tells, with changes of what it knows of the other one."""
    return facts(peers=peers(name, **changes))


@pytest.mark.parametrize("gate", GATES)
def test_two_hosts_that_are_alike_and_reach_one_another_pass(gate: str) -> None:
    passes(gate, pair())


@pytest.mark.parametrize("gate", GATES)
def test_a_service_of_one_node_is_not_asked(gate: str) -> None:
    passes(gate, fleet())


def test_every_part_of_an_engine_passes_every_other_gate() -> None:
    from fleet.gate import evaluate

    assert [str(verdict) for verdict in evaluate(pair()) if verdict.status != "pass"] == []


def test_a_host_that_does_not_answer_is_refused() -> None:
    fails("hosts-reach", pair(second=knows("a2", answer="none within 3 s")), "a1 to answer at port 29501", "on a2/glm")
    fails("hosts-reach", pair(first=knows("a1", answer="No route to host")), "No route to host from 192.0.2.2")
    passes("hosts-reach", pair(first=knows("a1", answer="accepted")))


def test_a_name_that_leads_back_to_the_host_itself_is_refused() -> None:
    loop = knows("a2", resolved="127.0.1.1", source="127.0.0.1", interface="lo", answer="accepted")
    fails("hosts-reach", pair(second=loop), "127.0.1.1, this host itself")


def test_a_host_that_was_not_asked_or_did_not_tell_is_unknown() -> None:
    fails("hosts-reach", pair(first=facts()), "want what a1 knows of a2, found nothing")
    fails("hosts-reach", pair(first=facts(peers_error="exit code 124")), "found exit code 124")
    odd = knows("a1", resolved=None, interface=None, source=None, error="want an address for a2, found ''")
    fails("hosts-reach", pair(first=odd), "want the way to a2, found want an address")
    fails("hosts-interface", pair(first=odd), "unknown (unknown)")


def test_two_ways_to_the_others_are_refused() -> None:
    three = (*NODES, "a3")
    ways = (peers("a1", three)[0], peers("a1", three, interface="ib0", source="10.0.0.1")[1])
    alone = view(node(), spanning(nodes=three, layout={"tp": 4, "pp": 6}), told=facts(peers=ways))
    fails("hosts-interface", fleet(alone), "ens1 (192.0.2.1), ib0 (10.0.0.1)")


def test_somebody_on_the_master_port_of_the_head_is_refused() -> None:
    held = (listening(29501, process="python3", pid=7),)
    fails(
        "hosts-port",
        pair(first=facts(peers=peers("a1"), ports=held)),
        "found process python3, pid 7",
        "choose another master_port",
    )
    passes("hosts-port", pair(second=facts(peers=peers("a2"), ports=held)))
    own = (listening(29501, process="vllm", unit="vllm-glm.service"),)
    passes("hosts-port", pair(first=facts(peers=peers("a1"), ports=own)))
    fails("hosts-port", pair(first=facts(peers=peers("a1"), ports_error="ss: exit 1")), "unknown listeners: ss: exit 1")


def test_the_port_of_another_service_as_master_port_is_refused() -> None:
    other = service(name="chat", port=29501)
    fails("hosts-ports-shared", pair(also=(other,)), "chat on 29501 too")


def test_a_headless_host_leaves_the_port_to_others() -> None:
    held = (listening(8000, process="nginx"),)
    fails("port-free", pair(first=facts(peers=peers("a1"), ports=held)), "port 8000 free")
    passes("port-free", pair(second=facts(peers=peers("a2"), ports=held)))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_head_that_only_it_can_ask_is_refused(host: str) -> None:
    fails("hosts-listen", pair(host=host), "an address that other hosts reach", host)


def test_another_backend_is_refused() -> None:
    fails("hosts-backend", pair(flags={"--distributed-executor-backend": "ray"}), "want backend mp, found ray")
    passes("hosts-backend", pair(flags={"--distributed-executor-backend": "mp"}))


def test_an_address_that_the_others_do_not_know_is_refused() -> None:
    fails("hosts-address", pair(second=knows("a2", source="10.0.0.7")), "want 192.0.2.2, by which a1 knows it")
    fails("hosts-address", pair(first=knows("a1", resolved=None)), "the address by which a1 knows a2, found unknown")


def test_another_image_is_refused() -> None:
    other = {"image": {"name": "site/vllm:0.30.0", "digest": OLD_DIGEST, "engine": "0.30.0"}}
    fails("hosts-image", pair(other=other), OLD_DIGEST, "as on a1", "on a2/glm")


def test_another_kind_of_gpu_or_driver_is_refused() -> None:
    small = {"gpus": {"count": 8, "model": "NVIDIA L40S", "memory_mib": 46068}}
    fails("hosts-gpus", pair(declared=small), "want NVIDIA A100-SXM4-80GB 81920 MiB as on a1, found NVIDIA L40S")
    old = facts(peers=peers("a2"), nvidia=Nvidia(gpus=gpus(), driver="550.54.14"))
    fails("hosts-gpus", pair(second=old), "want driver 570.86.15 as on a1, found 550.54.14")
    near = facts(peers=peers("a2"), nvidia=Nvidia(gpus=gpus(), driver="570.124.06"))
    warns("hosts-gpus", pair(second=near), "570.124.06")
    none = facts(peers=peers("a2"), nvidia=Nvidia(gpus=gpus()))
    fails("hosts-gpus", pair(second=none), "570.86.15 on a1, none here")


def test_clocks_that_differ_are_refused() -> None:
    late = facts(peers=peers("a2"), clock_ahead_s=-4.5)
    fails("hosts-clock", pair(second=late), "want within 2 s of a1, found 4.5 s behind on a2/glm")
    passes("hosts-clock", pair(first=facts(peers=peers("a1"), clock_ahead_s=-4.5), second=late))
    fails(
        "hosts-clock", pair(second=facts(peers=peers("a2"), clock_ahead_s=None)), "a clock that could not be compared"
    )


def test_settings_that_differ_are_refused_by_their_names() -> None:
    fails("hosts-alike", pair(other={"max_model_len": 4096}), "another value of --max-model-len")
    fails("hosts-alike", pair(other={"env": {"NCCL_DEBUG": "INFO"}}), "another value of NCCL_DEBUG")
    passes("hosts-alike", pair(other={"env": {"NCCL_SOCKET_IFNAME": "ib1"}}))
    passes("hosts-alike", pair(other={"mounts": [{"source": "/srv/x", "target": "/x"}]}))


def test_flags_of_the_place_in_the_engine_have_their_fields() -> None:
    fails("set-once", pair(flags={"--node-rank": 1}), "--node-rank (field: nodes)")


def test_one_engine_over_two_hosts_is_one_replica() -> None:
    policy = {"policy": {"replicas": 2}}
    fails("replicas", pair(**policy), "want 2 nodes, found 1 (a1)")


def test_an_engine_that_serves_alone_is_the_last_replica_of_both_its_hosts() -> None:
    from tests.fleet.builders import installed

    told = [facts(peers=peers(name), services=(installed(),)) for name in NODES]
    found = pair(*told).model_copy(update={"changing": frozenset((name, "glm") for name in NODES)})
    verdicts = [verdict for verdict in ask("last-replica", found) if verdict.stops]
    assert [verdict.node for verdict in verdicts] == ["a1"]
