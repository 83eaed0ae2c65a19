"""A declared checkpoint must be verified on its node; what is not known is not fine."""

from fleet.declaration import Waiver
from fleet.gate import FleetView
from fleet.nodes.node import ModelFolder
from tests.fleet.builders import GLM, MODEL, ask, facts, fails, fleet_with, passes

DIGEST, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64
DECLARED = {"manifest": "/site/glm.manifest", "digest": DIGEST}


def told(verified: str | None) -> FleetView:
    folder = ModelFolder(path=MODEL, config=GLM, verified=verified)
    return fleet_with(told=facts(models=(folder,)), checkpoint=DECLARED)


def test_without_a_declared_checkpoint_there_is_nothing_to_verify() -> None:
    passes("checkpoint-verified", fleet_with())


def test_the_declared_content_passes_and_any_other_fails() -> None:
    passes("checkpoint-verified", told(DIGEST))
    fails(
        "checkpoint-verified",
        told(OTHER),
        f"want {MODEL} with the content of {DIGEST}, found that of {OTHER}",
        "run deliver.py",
    )


def test_a_folder_that_was_never_compared_or_is_not_known_fails() -> None:
    fails("checkpoint-verified", told(None), "a folder that was not compared, or that was touched since")
    fails(
        "checkpoint-verified", fleet_with(told=facts(models=()), checkpoint=DECLARED), "a folder that was not compared"
    )


def test_it_can_be_waived_with_a_reason() -> None:
    waiver = Waiver(gate="checkpoint-verified", reason="compared by hand on 2026-03-01")
    assert {v.status for v in ask("checkpoint-verified", told(OTHER), waiver)} == {"waived"}
