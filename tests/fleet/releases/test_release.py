"""A release is named by what it contains, and a change is told before it is made."""

import json
from typing import Any

import pytest

from fleet.nodes.node import Installed, NodeFacts, OwnFile, Pending
from fleet.plan import Plan
from fleet.policy import Heartbeat
from fleet.releases.command import STATE
from fleet.releases.difference import Change, compare, expected_files, plan_words, removals
from fleet.releases.release import ENV, PLAN, SECRETS, UNIT, Release, make_release, plan_document, secrets_mark
from templates.render import render_unit
from tests.fleet.builders import facts, fleet_with, installed

TEXT = "[Unit]\n"


def plan(told: NodeFacts | None = None, **changes: Any) -> Plan:
    (one,) = fleet_with(told=told, **changes).plans
    return one


def release(mark: str = "", **changes: Any) -> Release:
    return make_release(plan(**changes), TEXT, mark)


def lying(made: Release, **changes: Any) -> Installed:
    """That release as it lies on a node after it was written and proven."""
    import hashlib

    files = tuple(
        OwnFile(path=path, sha256=hashlib.sha256(text.encode()).hexdigest(), mode=mode, owner="root:root", text=text)
        for path, (mode, text) in expected_files(made).items()
    )
    if made.secret_names:
        path = f"{STATE}/{made.service}/releases/{made.id}/{SECRETS}"
        files += (OwnFile(path=path, sha256="", mode="600", owner="root:root"),)
    return installed(**({"current": made.id, "proven": made.id, "releases": (made.id,), "files": files} | changes))


def change(made: Release, on_node: Installed | None, digests: dict[str, str] | None = None, **changes: Any) -> Change:
    told = facts(services=(on_node,) if on_node else ())
    return compare(plan(told, **changes), made, digests or {})


def test_the_same_content_has_the_same_name_and_any_change_another() -> None:
    made = release()
    assert made.id == release().id and len(made.id) == 16
    others = [release(port=8001), release(env={"A": "1"}), release("mark"), release(flags={"--x": 1})]
    others.append(release(secrets={"A": {"env": "B"}}))
    assert len({made.id, *(other.id for other in others)}) == 6


def test_facts_that_change_by_themselves_do_not_change_a_release() -> None:
    busy = facts(now=2_000_000_000, kernel="6.1", services=(installed(),))
    assert make_release(plan(busy), TEXT).id == release().id


def test_plan_json_tells_what_was_decided() -> None:
    document = json.loads(release().files[PLAN])
    assert document["layout"] == {"tp": 4, "pp": 2, "dp": 1, "partition": [42, 36], "device_order": [*range(8)]}
    assert document["image"].startswith("site/vllm@sha256:")
    assert document["ranks"][4] == {"rank": 4, "gpu": 4, "stage": 1, "numa": 1}


def test_a_mark_changes_with_the_secret_and_does_not_hold_it() -> None:
    mark = secrets_mark({"A": "hunter2"}, "glm")
    assert mark != secrets_mark({"A": "hunter3"}, "glm") != secrets_mark({"A": "hunter3"}, "other")
    assert "hunter2" not in mark and secrets_mark({}, "glm") == ""


def test_a_first_release_is_shown_as_new_files() -> None:
    found = change(release(), None, {"HF_TOKEN": "x"})
    assert (found.kind, found.restarts) == ("create", True)
    assert found.words == ("secret HF_TOKEN: added",)
    assert all(diff.before is None and diff.lines()[0] == "--- /dev/null" for diff in found.files)
    assert [diff.path.rpartition("/")[2] for diff in found.files] == ["vllm-glm.service", "env"]


def test_the_same_release_running_is_no_change() -> None:
    found = change(release(), lying(release()))
    assert (found.kind, found.restarts, found.words, found.files) == ("none", False, (), ())
    assert str(found) == "a1/glm: none (as declared)"


def test_another_release_is_told_flag_by_flag_env_by_env_and_layout() -> None:
    new: dict[str, Any] = {
        "layout": {"tp": 4, "pp": 2, "partition": [38, 40]},
        "max_model_len": 4096,
        "env": {"A": "1"},
    }
    found = change(release(**new), lying(release()), **new)
    assert found.kind == "update"
    assert "layout partition: [42, 36] -> [38, 40]" in found.words
    assert "flag --max-model-len: 524288 -> 4096" in found.words
    assert "env VLLM_PP_LAYER_PARTITION: 42,36 -> 38,40" in found.words
    assert "env A: added 1" in found.words
    assert any(diff.path.endswith(ENV) and '+A="1"' in diff.lines() for diff in found.files)


def test_a_secret_is_told_by_name_only() -> None:
    secrets = {"A": {"env": "X"}, "B": {"env": "Y"}}
    held = lying(release(secrets=secrets), secrets={"A": "digest-1", "C": "digest-3"})
    found = change(release(secrets=secrets), held, {"A": "digest-2", "B": "digest-4"}, secrets=secrets)
    assert found.kind == "repair"
    assert found.words == ("secret B: added", "secret C: removed", "secret A: changed")
    assert "digest" not in found.model_dump_json()


def test_a_file_that_somebody_changed_or_removed_is_repaired() -> None:
    made = release()
    whole = lying(made)
    edited = tuple(
        f.model_copy(update={"sha256": "0", "text": "x"}) if f.path.endswith(UNIT) and "releases" in f.path else f
        for f in whole.files
    )
    assert any("was changed on the node" in word for word in change(made, lying(made, files=edited)).words)
    missing = change(made, lying(made, files=whole.files[1:]))
    assert missing.kind == "repair" and missing.words[0].endswith(": is missing")
    open_file = (whole.files[0].model_copy(update={"mode": "666"}), *whole.files[1:])
    assert "want 644 root:root, found 666 root:root" in change(made, lying(made, files=open_file)).words[0]


def unit_state(**changes: str) -> dict[str, str]:
    sound = {"name": "u", "load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"}
    return sound | changes


@pytest.mark.parametrize(
    ("changes", "kind", "word"),
    [
        ({"unit": unit_state(active="failed")}, "start", "unit: want active, found failed"),
        ({"unit": None}, "start", "unit: want active, found no unit"),
        ({"unit": unit_state(enabled="disabled")}, "repair", "unit: want enabled, found disabled"),
    ],
)
def test_a_release_that_does_not_run_is_started(changes: dict[str, Any], kind: str, word: str) -> None:
    found = change(release(), lying(release(), **changes))
    assert (found.kind, found.words) == (kind, (word,))


def test_a_release_that_never_proved_itself_is_rolled_again() -> None:
    pending = Pending(release=release().id, since=1, deadline=2, run="r")
    assert change(release(), lying(release(), pending=pending)).kind == "update"
    assert change(release(), lying(release(), proven="old")).kind == "update"


def test_an_old_plan_that_cannot_be_read_is_said_to_be_so() -> None:
    made = lying(release(), current="old", proven="old", files=())
    assert change(release(), made).words == ("the old release's plan.json is unreadable",)


def test_equal_plans_have_no_words() -> None:
    document = plan_document(plan())
    assert plan_words(document, document) == ()


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("port", 8123, "flag --port: 8000 -> 8123"),
        ("model", "/srv/models/other", "model: /models/glm-5.2 -> /srv/models/other"),
    ],
)
def test_what_is_a_field_and_a_word_of_the_command_is_told_once(field: str, value: Any, told: str) -> None:
    before = plan()
    after = before.model_copy(update={"service": before.service.model_copy(update={field: value})})
    words = plan_words(plan_document(before), plan_document(after))
    assert [word for word in words if not word.startswith("container ")] == [told], "beside what is mounted"


def test_a_service_that_is_no_longer_declared_is_shown_as_a_removal() -> None:
    (found,) = removals("a1", facts(services=(installed(), installed("old"))), frozenset({"glm"}))
    assert (found.service, found.kind) == ("old", "remove")
    assert "prune=true" in found.words[1]


def test_a_watched_service_wants_its_heartbeat_and_tells_its_node_where_to_ask() -> None:
    quiet = plan()
    policy = quiet.service.policy.model_copy(update={"heartbeat": Heartbeat(deadline_s=20, misses=4)})
    watched = quiet.model_copy(update={"service": quiet.service.model_copy(update={"policy": policy})})
    text = plan_document(watched)["heartbeat"]
    assert text == f"127.0.0.1 {quiet.service.port} 20 4 {quiet.service.served_name}"
    assert f"Wants=vllm-fleet-heartbeat@{quiet.service.name}.timer" in render_unit(watched)
    assert "heartbeat" not in plan_document(quiet) and "heartbeat" not in render_unit(quiet)
