"""A container gets its memory, its limits and its files, and nobody is in its place."""

import json
from typing import Any

import pytest

from fleet.nodes.machine import Limit
from fleet.nodes.node import Installed, OwnFile, Unit
from tests.fleet.builders import facts, fails, fleet, fleet_with, installed, machine, node, passes, service, view, warns

FEW = Limit(soft=1024, hard=1024)


def test_shared_memory_is_set_once_and_fits() -> None:
    passes("shm-size", fleet_with())
    fails("shm-size", fleet_with(shm_gib=2048), "want at most 1024 GiB", "found shm_gib: 2048")
    twice = node(runtime_flags=["--shm-size=1g"])
    fails("shm-size", fleet_with(twice), "--shm-size=1g in runtime_flags", "take it out of runtime_flags of a1")
    fails("shm-size", fleet_with(told=facts(memory_bytes=None)), "the node's memory, found nothing")


def test_a_unit_may_open_enough_files() -> None:
    passes("limits", fleet_with())
    fails("limits", fleet_with(told=facts(machine=machine(nr_open=1024))), "at least 16384 open files, found 1024")
    weak = machine(capabilities=0, open_files=FEW)
    fails("limits", fleet_with(told=facts(machine=weak)), "found 1024")
    passes("limits", fleet_with(told=facts(machine=machine(open_files=FEW))))


def test_memory_is_locked_only_where_network_cards_read_the_gpus() -> None:
    weak = facts(machine=machine(capabilities=0))
    passes("limits", fleet_with(told=weak))
    fails("limits", fleet_with(node(peermem=True), weak), "unlimited locked memory for peermem", "8388608 bytes")


@pytest.mark.parametrize("field", ["nr_open", "open_files", "capabilities"])
def test_a_limit_that_was_not_told_is_not_enough(field: str) -> None:
    fails("limits", fleet_with(told=facts(machine=machine(**{field: None}))), "found nothing")


MOUNT = {"source": "/srv/cache", "target": "/root/.cache"}


def test_the_source_of_a_mount_is_on_the_node() -> None:
    passes("mounts", fleet_with())
    passes("mounts", fleet_with(told=facts(sources={"/srv/cache": True}), mounts=[MOUNT]))
    absent = facts(sources={"/srv/cache": False})
    fails("mounts", fleet_with(told=absent, mounts=[MOUNT]), "want /srv/cache on the node, found no such file")
    fails("mounts", fleet_with(mounts=[MOUNT]), "whether /srv/cache is there, found nothing")
    fails("mounts", fleet_with(told=facts(sources_error="did not end in time"), mounts=[MOUNT]), "did not end in time")


def old(gpus: object = (0, 1), active: str = "active") -> Installed:
    """A service that is no longer declared."""
    text = json.dumps({"layout": {"device_order": gpus}})
    path = "/var/lib/vllm-fleet/old/releases/r1/plan.json"
    plan = OwnFile(path=path, sha256="0", mode="600", owner="root:root", text=text)
    unit = Unit(name="vllm-old.service", load="loaded", active=active, sub="-", enabled="enabled")
    return installed("old", files=(plan,), unit=unit)


def both(lies: Installed, **changes: Any) -> Any:
    return fleet(view(node(), service(**changes), told=facts(services=(lies,))))


def test_a_service_that_is_no_longer_declared_does_not_hold_the_gpus_of_one_that_is() -> None:
    passes("undeclared-service", fleet_with())
    fails("undeclared-service", both(old()), "vllm-old.service is active on GPU 0, 1", "--data prune=true")
    fails("undeclared-service", both(old(active="activating")), "is activating on GPU 0, 1")
    passes("undeclared-service", both(old(active="inactive")))


def test_one_that_runs_on_other_gpus_is_a_warning_and_one_that_does_not_tell_may_hold_any() -> None:
    warns("undeclared-service", both(old(), gpus=[4, 5], layout={"tp": 2}), "vllm-old.service is active on a1")
    fails("undeclared-service", both(old(gpus="wings"), gpus=[4, 5], layout={"tp": 2}), "on GPU 4, 5")
