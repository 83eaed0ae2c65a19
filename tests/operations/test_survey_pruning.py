"""What a run takes away is no reason for its gates to fail; and how clocks are compared."""

import pytest

from facts.gather import Answer, clock_ahead
from fleet.declaration import Fleet
from fleet.nodes.node import GpuProcess, Nvidia
from fleet.verdict import Verdict
from operations.survey import Secrets, survey
from tests.fleet.builders import facts, gpus, installed, node, service, view


def judged(prune: bool) -> list[Verdict]:
    """a1 on which a service that is no longer declared holds GPU 2."""
    rows = list(gpus())
    rows[2] = rows[2].model_copy(update={"memory_used_mib": 30000})
    held = GpuProcess(bus_id=rows[2].bus_id or "", pid=7, name="vllm", memory_mib=29990, unit="vllm-old.service")
    nvidia = Nvidia(gpus=tuple(rows), driver="570.86.15", processes=(held,))
    told = facts(nvidia=nvidia, services=(installed("old"),))
    fleet = Fleet(name="prod", placements=(view(node(), service(), told=told).placement,))
    found = survey(fleet, {"a1": Answer(node="a1", facts=told)}, Secrets(), prune)
    return [verdict for verdict in found.verdicts if verdict.status != "pass"]


def test_gpus_of_a_service_that_is_pruned_count_as_free() -> None:
    assert {verdict.gate for verdict in judged(prune=False)} == {"gpu-free", "undeclared-service"}
    assert judged(prune=True) == []


@pytest.mark.parametrize(
    ("now", "ahead"), [(1000, 0.0), (1001, 0.0), (999, 0.0), (1060, 58.5), (900, -99.0), (1002, 0.5)]
)
def test_a_clock_is_ahead_only_by_what_the_question_did_not_take(now: int, ahead: float) -> None:
    assert clock_ahead(now, asked=1000.0, answered=1001.5) == ahead
