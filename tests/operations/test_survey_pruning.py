"""What a run takes away is no reason for its gates to fail; and how clocks are compared."""

import pytest

from facts.gather import Answer, clock_ahead
from fleet.declaration import Fleet
from fleet.nodes.nvidia import GpuProcess, Nvidia
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


def test_a_run_about_one_service_is_not_about_the_others_of_its_nodes() -> None:
    told = facts(services=(installed("old"),))
    mine, other = service(), service(name="other", port=8001, max_model_len=10**9)
    fleet = Fleet(name="prod", placements=(view(node(), mine, other, told=told).placement,))
    found = survey(fleet, {"a1": Answer(node="a1", facts=told)}, Secrets())
    assert "a1" in found.failing, "the other's context is too long"
    alone = found.about(mine.name)
    assert {plan.service.name for plan in alone.plans} == {mine.name}
    assert {change.service for change in alone.changes} == {key[1] for key in alone.releases} == {mine.name}
    assert {verdict.service for verdict in alone.verdicts} == {mine.name, None}
    assert "max-model-len" in {v.gate for v in found.verdicts if v.stops} - {v.gate for v in alone.verdicts if v.stops}
    assert found.about(None) is found
