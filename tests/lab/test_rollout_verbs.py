"""The daily verbs: fleet start, stop, wait, status and cmd, on services that were rolled out."""

import json
import shlex
from pathlib import Path

import pytest
import yaml
from rollout_site import RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """Two nodes that serve a proven release."""
    (shared_site.fleet / "l1.yaml").unlink()
    shared_site.nodes = ("a1", "h1")
    shared_site.rollout = {"batches": ["100%"]}
    shared_site.write(llm=shared_site.service(policy={"start_budget_s": 4}))
    ran = shared_site.fleet_command("status")
    assert ran.code == 2, "declared and not rolled out is not as wanted"
    ran = shared_site.deploy()
    assert ran.code == 0, ran.out
    return shared_site


def test_status_shows_what_runs_and_since_when(rolled: RolloutSite) -> None:
    ran = rolled.fleet_command("status", "--json")
    assert ran.code == 0, ran.out
    told = ran.machine
    rows = {row["node"]: row for row in told["services"]}
    for node in rolled.nodes:
        state = rolled.state(node, "llm")
        assert rows[node]["unit"] == "active (running)" and rows[node]["proven"] == "yes"
        assert rows[node]["release"] == state["current"]
        assert (rows[node]["restarts"], rows[node]["pending"], rows[node]["note"]) == (0, None, None)
    assert told["locks"] == {} and told["unread"] == {}
    table = rolled.fleet_command("status", "llm", "a1")
    assert table.code == 0 and "a1 llm active (running)" in table.plain and "h1" not in table.plain


def test_a_node_that_does_not_answer_is_told_with_the_reason_and_exit_code_1(rolled: RolloutSite) -> None:
    path = rolled.fleet / "h1.yaml"
    declared = path.read_text()
    content = yaml.safe_load(declared)
    try:
        path.write_text(yaml.safe_dump(content | {"ssh": content["ssh"] | {"port": 9}}))
        ran = rolled.fleet_command("status", "--json")
        table = rolled.fleet_command("wait", "llm")
    finally:
        path.write_text(declared)
    assert ran.code == 1 and "Unable to connect to port 9" in ran.plain
    told = ran.machine
    assert list(told["unread"]) == ["h1"] and [row["node"] for row in told["services"]] == ["a1"]
    assert table.code == 1 and "h1: no SSH connection" in table.plain


def test_stop_start_and_wait(rolled: RolloutSite) -> None:
    before = rolled.state("a1", "llm")
    ran = rolled.fleet_command("stop", "llm", "a1")
    assert (ran.code, "a1/llm: stop: done" in ran.plain) == (0, True), ran.out
    assert "stopped=" not in ran.plain, "results of the node script are not for people"
    assert rolled.on("a1", f"podman ps --quiet; ls {STATE}/lock 2>/dev/null; true") == ""
    status = rolled.fleet_command("status")
    assert status.code == 2 and "a1 llm inactive (dead)" in status.plain
    waited = rolled.fleet_command("wait", "llm", "a1")
    assert waited.code == 1 and "a1/llm: health FAILED" in waited.plain
    dry = rolled.deploy("--dry")
    assert "a1/llm: start (same release, but it does not run) unit: want active, found inactive" in dry.plain
    ran = rolled.fleet_command("start", "llm")
    assert (ran.code, "a1/llm: start: done" in ran.plain) == (0, True), ran.out
    waited = rolled.fleet_command("wait", "llm", "--json")
    assert waited.code == 0 and [row["passed"] for row in waited.machine] == [True, True]
    now = rolled.state("a1", "llm")
    assert now | {"pid": ""} == before | {"pid": ""} and now["pid"] != "0"
    assert rolled.on("a1", f"ls {STATE}/lock 2>/dev/null; true") == ""


def test_a_service_that_is_no_longer_declared_can_be_stopped(rolled: RolloutSite) -> None:
    declared = rolled.services
    rolled.write(other=rolled.service(port=8001))
    try:
        ran = rolled.fleet_command("stop", "llm", "a1", "--json")
        unknown = rolled.fleet_command("stop", "lmm")
    finally:
        rolled.write(**declared)
    done = {"node": "a1", "service": "llm", "verb": "stop", "done": True, "reason": None}
    assert ran.code == 0 and ran.machine == [done], ran.out
    assert rolled.state("a1", "llm")["active"] == "inactive" and rolled.state("h1", "llm")["active"] == "active"
    assert unknown.code == 1 and "want one that is declared or lies on a1, h1, found 'lmm'" in unknown.plain
    assert rolled.fleet_command("start", "llm", "a1").code == 0


def test_start_asks_the_gates_first(rolled: RolloutSite) -> None:
    assert rolled.fleet_command("stop", "llm", "h1").code == 0
    rolled.lab.set("h1", faults=["gpu-lost:1"])
    try:
        ran = rolled.fleet_command("start", "llm", "h1")
    finally:
        rolled.lab.set("h1", clear=True)
    assert ran.code == 1 and "gpu-count: want 8, found 7 on h1 (GPU 1 is lost" in ran.plain
    assert rolled.state("h1", "llm")["active"] == "inactive"
    assert rolled.fleet_command("start", "llm", "h1").code == 0


def test_a_start_that_fails_is_told_with_the_engines_words(rolled: RolloutSite) -> None:
    assert rolled.fleet_command("stop", "llm", "h1").code == 0
    rolled.fault("h1", "crash-start")
    try:
        ran = rolled.fleet_command("start", "llm", "h1")
    finally:
        rolled.fault("h1")
    assert ran.code == 1
    assert "h1/llm: start: vllm-llm.service did not become active" in ran.plain
    assert "ValueError: fault crash-start" in ran.plain and "| conmon " not in ran.out
    assert rolled.on("h1", f"ls {STATE}/lock 2>/dev/null; true") == ""
    assert rolled.fleet_command("start", "llm", "h1").code == 0


@pytest.mark.parametrize(
    "words, said",
    [
        (("start", "lmm"), "service: want one of llm, found 'lmm'"),
        (("stop", "llm", "z9"), "node: want one of a1, h1, found 'z9'"),
        (("wait", "llm", "z9"), "node: want one of a1, h1, found 'z9'"),
        (("cmd", "nope"), "service: want one of llm, found 'nope'"),
        (("status", "nope"), "service: want one of llm, found 'nope'"),
    ],
)
def test_names_that_nobody_has_are_refused(rolled: RolloutSite, words: tuple[str, ...], said: str) -> None:
    ran = rolled.fleet_command(*words)
    assert (ran.code, said in ran.plain, "Traceback" in ran.out) == (1, True, False), ran.out


def test_cmd_prints_what_the_unit_runs(rolled: RolloutSite) -> None:
    before = rolled.marks()
    ran = rolled.fleet_command("cmd", "llm", "a1", "--json")
    assert ran.code == 0, ran.out
    told, plan = ran.machine, rolled.plan("a1", "llm")
    assert told["argv"] == plan["argv"] and told["command"] == plan["command"] and told["env"] == plan["env"]
    text = rolled.fleet_command("cmd", "llm")
    assert text.out.count(f"{shlex.join(plan['command'])}\n") == 2, "the same on both nodes"
    assert rolled.marks() == before


def test_cmd_asks_the_gates_and_takes_overrides(rolled: RolloutSite) -> None:
    ran = rolled.fleet_command("cmd", "llm", "a1", "--data", "tp=3")
    assert ran.code == 1 and "heads-divide: want" in ran.plain
    assert "podman run" not in ran.out
    ran = rolled.fleet_command("cmd", "llm", "a1", "--data", "tp=2", "--data", "max_model_len=1024")
    assert ran.code == 0 and "--tensor-parallel-size 2 --max-model-len 1024" in ran.out
    assert "--disable-custom-all-reduce" in ran.out, "TP 2 on a node with NVLink pairs"


def test_a_recorded_command_is_compared_without_contact(rolled: RolloutSite, tmp_path: Path) -> None:
    golden = tmp_path / "golden.json"
    told = rolled.fleet_command("cmd", "llm", "a1", "--json").machine
    golden.write_text(json.dumps(told))
    rolled.lab.cut("a1")
    try:
        same = rolled.fleet_command("cmd", "llm", "a1", "--check", str(golden))
        assert (same.code, "as in" in same.plain) == (0, True), same.out
        argv = told["argv"]
        swapped = [*argv[:-4], *argv[-2:], *argv[-4:-2]]
        env = {**told["env"], "CUDA_VISIBLE_DEVICES": "7", "EXTRA": ""}
        del env["HF_HUB_OFFLINE"]
        for drifted, words in (
            (
                {"argv": [*swapped, "--enforce-eager"]},
                (
                    f"argv[{len(argv) - 4}]: want '{swapped[-4]}', found '{argv[-4]}'",
                    f"argv[{len(argv)}]: want '--enforce-eager', found nothing",
                    "llm on a1: 5 differences from",
                ),
            ),
            (
                {"argv": argv[:-1], "env": env},
                (
                    f"argv[{len(argv) - 1}]: want nothing, found '{argv[-1]}'",
                    "env CUDA_VISIBLE_DEVICES: want '7', found '0'",
                    "env EXTRA: want '', found nothing",
                    "env HF_HUB_OFFLINE: want nothing, found '1'",
                    "llm on a1: 4 differences from",
                ),
            ),
        ):
            golden.write_text(json.dumps({**told, **drifted}))
            ran = rolled.fleet_command("cmd", "llm", "a1", "--check", str(golden))
            assert (ran.code, [w for w in words if w not in ran.plain]) == (2, []), ran.out
        for wrong in ("{", '{"argv": []}'):
            golden.write_text(wrong)
            ran = rolled.fleet_command("cmd", "llm", "a1", "--check", str(golden))
            assert (ran.code, "Traceback" in ran.out) == (1, False), ran.out
        golden.unlink()
        check = ("cmd", "llm", "a1", "--check", str(golden))
        assert rolled.fleet_command(*check).code == 1
        golden.write_text(json.dumps(told))
        auto = rolled.fleet_command(*check, "--data", "speculative=auto")
        assert auto.code == 1 and "--check asks no node, and speculative: auto is decided by" in auto.plain
    finally:
        rolled.lab.join("a1")


def test_the_catalogue_of_gates_is_listed_for_machines(rolled: RolloutSite) -> None:
    ran = rolled.fleet_command("gates", "--json")
    names = [gate["name"] for gate in json.loads(ran.out)]
    assert ran.code == 0 and len(names) == len(set(names)) and {"gpu-count", "pp-evidence"} <= set(names)
