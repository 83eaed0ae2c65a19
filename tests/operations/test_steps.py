"""How long a node waits for a proof before it undoes by itself: longer than all that a start may take."""

import json

from fleet.nodes.node import Installed, OwnFile
from fleet.policy import ServicePolicy
from operations.steps import Step
from probes.evidence import Endpoint

POLICY = ServicePolicy(start_budget_s=1800, stop_grace_s=60, proof_s=120, undo_margin_s=30)


def step(policy: ServicePolicy = POLICY, **before: int) -> Step:
    """A step whose old release was made with these times."""
    text = json.dumps({"policy": before})
    plan = OwnFile(
        path="/var/lib/vllm-fleet/glm/releases/0/plan.json", sha256="", mode="600", owner="root:root", text=text
    )
    return Step(
        node="a1",
        service="glm",
        kind="update",
        release="0123456789abcdef",
        endpoint=Endpoint(url="http://a1:8000", model="glm"),
        policy=policy,
        layout="TP8/PP1",
        partition="-",
        old=Installed(name="glm", files=(plan,)) if before else None,
    )


def test_the_deadline_covers_the_old_engines_end_the_load_and_the_proof() -> None:
    assert step().deadline_s == 60 + 1800 + 2 * 120 + 30


def test_every_probe_has_its_own_time() -> None:
    assert (
        step(POLICY.model_copy(update={"proof": ("completion", "needle", "tools")})).deadline_s
        == 60 + 1800 + 3 * 120 + 30
    )
    assert step(POLICY.model_copy(update={"proof": ()})).deadline_s == 60 + 1800 + 120 + 30


def test_the_engine_that_is_stopped_has_the_grace_of_its_own_release() -> None:
    assert step(stop_grace_s=600).grace_s == 600
    assert step(stop_grace_s=600).deadline_s == 600 + 1800 + 2 * 120 + 30


def test_an_undo_waits_for_the_old_releases_own_start_budget() -> None:
    assert step(start_budget_s=3600).undo_s > 3600
