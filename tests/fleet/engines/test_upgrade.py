"""What another engine version would mean: flags, patches, gates and memory, judged before anything is written."""

import json
from pathlib import Path
from typing import Any

from fleet.declaration import Evidence
from fleet.engines.catalogs import catalog_of
from fleet.engines.patch import Patch
from fleet.engines.upgrade import Upgrade, upgrade
from fleet.gate import FleetView, evaluate
from fleet.nodes.node import NodeFacts
from tests.fleet.builders import IMAGE, MODEL, UNREAD, facts, fleet, node, patch, service, view

MODELS = Path(__file__).resolve().parents[3] / "lab" / "models"


def moved(
    old: str,
    new: str,
    told: NodeFacts | None = None,
    catalogue: tuple[Patch, ...] = (),
    evidence: tuple[Evidence, ...] = (),
    **changes: Any,
) -> Upgrade:
    """glm on a1, as it is and with another engine version."""

    def at(version: str) -> FleetView:
        declared = service(image=IMAGE | {"engine": version}, **changes)
        return fleet(view(node(), declared, told=told or facts()), evidence=evidence, patches=catalogue)

    before, after = at(old), at(new)
    catalogs = catalog_of(old), catalog_of(new)
    assert catalogs[0] is not None and catalogs[1] is not None
    return upgrade(before.plans[0], after.plans[0], (catalogs[0], catalogs[1]), (evaluate(before), evaluate(after)))


def said(found: Upgrade, kind: str) -> dict[str | None, str]:
    return {one.flag: one.message for one in found.flags if one.kind == kind}


def answer(found: Upgrade, gate: str) -> tuple[str, str]:
    (one,) = [one for one in found.gates if one.gate == gate]
    return one.before, one.after


def test_a_sound_service_moves_on_and_is_told_which_defaults_change_under_it() -> None:
    found = moved("0.30.0", "0.33.0")
    assert not found.stops and not found.gates and not said(found, "refused")
    assert said(found, "default")["--allowed-origins"] == "['*'] -> []"


def test_a_default_is_not_told_of_a_flag_that_is_set() -> None:
    found = moved("0.30.0", "0.33.0", flags={"--allowed-origins": '["x"]'})
    assert "--allowed-origins" not in said(found, "default")


def test_a_flag_that_the_new_version_refuses_must_be_changed_first() -> None:
    gone = "--attention-config.use_fp4_indexer_cache"
    found = moved("0.28.0", "0.33.0", speculative="none", flags={gone: "true"})
    assert found.stops and "no such key" in said(found, "refused")[gone]
    assert answer(found, "engine-argv") == ("pass", "fail")


def test_what_was_wrong_before_is_not_told_as_new() -> None:
    found = moved("0.30.0", "0.33.0", flags={"--no-such-flag": True})
    assert not said(found, "refused") and not found.stops


def test_a_variable_that_is_not_read_any_more_is_told() -> None:
    old, new = catalog_of("0.30.0"), catalog_of("0.33.0")
    assert old is not None and new is not None
    gone = next(name for name in old.environment if name not in new.environment and name.startswith("VLLM_"))
    found = moved("0.30.0", "0.33.0", env={gone: "1"})
    assert said(found, "variable") == {gone: "is not read any more"}
    assert answer(found, "engine-env") == ("pass", "warn") and not found.stops


def test_what_the_plan_itself_decides_otherwise_is_told() -> None:
    found = moved("0.30.0", "0.29.0", speculative="auto")
    told = said(found, "rendered")
    assert "--speculative-config" in told[None] and told["VLLM_USE_V2_MODEL_RUNNER"] == "1 -> not set"


def test_a_gate_that_fails_only_with_the_other_version_is_told_with_what_it_says() -> None:
    found = moved("0.30.0", "0.29.0")
    assert found.stops and answer(found, "speculation-pp") == ("pass", "fail")
    assert any("want engine 0.30 or later" in one.text for one in found.gates)


def test_a_gate_that_passes_again_stops_nothing() -> None:
    found = moved("0.29.0", "0.30.0")
    assert answer(found, "speculation-pp") == ("fail", "pass") and not found.stops


def test_the_image_of_the_old_version_is_no_answer_about_the_new_one() -> None:
    assert not [one for one in moved("0.30.0", "0.33.0").gates if one.gate == "image-engine"]


def test_evidence_is_for_one_version_and_does_not_move_on() -> None:
    run = {"model": MODEL, "engine": "0.30.0", "partition": [22, 20, 20, 16], "trials": 500, "bad": 0}
    cut = {"tp": 2, "pp": 4, "partition": [22, 20, 20, 16]}
    found = moved("0.30.0", "0.33.0", evidence=(Evidence.model_validate(run),), layout=cut)
    assert found.stops and answer(found, "pp-evidence") == ("pass", "fail")


def test_a_patch_that_is_not_for_the_new_version_must_be_decided_first() -> None:
    found = moved("0.30.0", "0.33.0", catalogue=(patch("mine", ("0.30.0",)),), patches=["mine"])
    (one,) = found.patches
    assert (one.name, one.kind) == ("mine", "does not apply") and "want mine for engine 0.33.0" in one.message
    assert found.stops and answer(found, "patches") == ("pass", "fail")


def test_a_patch_for_both_versions_goes_on_and_one_that_is_not_needed_is_told() -> None:
    both = ("0.30.0", "0.33.0")
    (one,) = moved(*both, catalogue=(patch("mine", both),), patches=["mine"]).patches
    assert one.kind == "applies"
    found = moved(*both, catalogue=(patch("mine", both, unneeded_from="0.32.0"),), patches=["mine"])
    (one,) = found.patches
    assert one.kind == "not needed" and "0.32.0" in one.message and not found.stops


def test_the_pool_is_predicted_with_both_versions() -> None:
    whole = json.loads((MODELS / "glm-dsa-78" / "config.json").read_text())
    found = moved("0.30.0", "0.33.0", told=facts(whole), kv_cache_dtype="fp8_ds_mla").memory
    assert found.unknown is None and found.before and found.after
    assert found.partition == (42, 36)


def test_a_pool_that_cannot_be_predicted_is_said_to_be_unknown() -> None:
    found = moved("0.30.0", "0.33.0", told=facts(UNREAD)).memory
    assert found.before is None and found.after is None and found.unknown
