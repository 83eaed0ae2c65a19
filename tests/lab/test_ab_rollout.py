"""`fleet ab`: both arms asked on a real node, a verdict with its exit code, and the control put back."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rollout_midway import kill, until
from rollout_site import BIN, PROJECT, Ran, RolloutSite

pytestmark = pytest.mark.lab
PROOF = None  # what a service has that says nothing
PROBES = ("--probes", "smoke,quality,degeneration")
ARM = ("--data", "max_model_len=2048")


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """One node with a proven release."""
    for node in ("h1", "l1"):
        (shared_site.fleet / f"{node}.yaml").unlink()
    shared_site.nodes = ("a1",)
    shared_site.write(llm=shared_site.service())
    ran = shared_site.deploy()
    assert ran.code == 0, ran.out
    return shared_site


def ab(site: RolloutSite, verb: str, folder: Path, *words: str) -> Ran:
    return site.fleet_command("ab", verb, "llm", "a1", "--folder", str(folder), *words, timeout=300)


def read(folder: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / name).read_text())
    return document


def test_each_step_by_itself_and_a_verdict_that_sends_a_worse_arm_back(rolled: RolloutSite, tmp_path: Path) -> None:
    folder = tmp_path / "ab"
    before = rolled.state("a1", "llm")
    assert ab(rolled, "boot", folder, *ARM).code == 1, "there is no control yet"
    for verb, words in (("preflight", ARM), ("control", PROBES)):
        ran = ab(rolled, verb, folder, *words, "--json")
        assert ran.code == 0 and ran.machine["step"] == verb, ran.out
        assert str(folder / f"{verb}.json") in ran.machine["files"] and "error" not in ran.machine
    assert rolled.state("a1", "llm") == before, "nothing was touched"
    ran = ab(rolled, "boot", folder, "--json")
    assert ran.code == 0 and ran.machine["files"][0] == str(folder / "booted.json"), ran.out
    arm = rolled.state("a1", "llm")
    assert (arm["current"], arm["previous"]) != (before["current"], "") and arm["previous"] == before["current"]
    rolled.fault("a1", "dull")
    try:
        assert ab(rolled, "verify", folder, *PROBES).code == 0, "that the arm is worse is for the verdict to say"
    finally:
        rolled.fault("a1")
    ran = ab(rolled, "verdict", folder)
    assert ran.code == 2
    assert "verdict: go back: probe quality" in ran.plain
    told = read(folder, "verdict.json")
    assert (told["control"], told["arm"], told["adopt"]) == (before["current"], arm["current"], False)
    assert "| quality right | 12 of 12 | 0 of 12 |" in (folder / "verdict.md").read_text()
    assert (folder / "verdict.html").read_text().startswith("<!doctype html>")
    ran = ab(rolled, "restore", folder, "--json")
    assert ran.code == 0 and ran.machine["files"] == [str(folder / "restore-report.json")], ran.out
    assert rolled.state("a1", "llm")["current"] == before["current"]
    ran = ab(rolled, "restore", folder, "--json")
    assert ran.code == 0 and "nothing to put back" in ran.machine["said"], ran.out


def killed(site: RolloutSite, folder: Path, when: Callable[[], bool], what: str) -> None:
    """`fleet ab run`, and everything that it started, is gone at that moment."""
    words = ("ab", "run", "llm", "a1", "--folder", str(folder), *ARM, *PROBES)
    run = subprocess.Popen(
        [str(BIN / "fleet"), *words],
        cwd=PROJECT,
        env=site.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        until(when, 90, what)
    finally:
        kill(run)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interrupted") / "ab"


def test_a_run_that_was_killed_while_the_arm_was_booted_can_be_taken_back(rolled: RolloutSite, folder: Path) -> None:
    before = rolled.state("a1", "llm")
    killed(rolled, folder, lambda: rolled.state("a1", "llm")["pending"] != "", "an arm that is not proven")
    assert (folder / "booting.json").exists() and not (folder / "booted.json").exists()
    assert rolled.state("a1", "llm")["current"] != before["current"]
    ran = ab(rolled, "restore", folder)
    assert ran.code == 0, ran.out
    state = rolled.state("a1", "llm")
    assert (state["current"], state["proven"], state["pending"]) == (before["current"], before["current"], "")
    assert not (folder / "booting.json").exists()


def test_a_run_that_was_killed_while_it_verified_goes_on_and_adopts_an_arm_that_is_as_good(
    rolled: RolloutSite, folder: Path
) -> None:
    before, asked = rolled.state("a1", "llm")["current"], (folder / "control.json").stat().st_mtime_ns
    killed(rolled, folder, (folder / "booted.json").exists, "a booted arm")
    assert not (folder / "arm.json").exists()
    booted = rolled.state("a1", "llm")
    ran = ab(rolled, "run", folder, *PROBES)
    assert ran.code == 0, ran.out
    assert "verdict: adopt" in ran.plain and "declare max_model_len=2048 for llm" in ran.plain
    assert (folder / "control.json").stat().st_mtime_ns == asked, "what was done is not done again"
    after = rolled.state("a1", "llm")
    assert after == booted and after["previous"] == before, "nor was the arm booted again"
    lines = {line["name"]: line for line in read(folder, "verdict.json")["lines"]}
    assert lines["KV pool (tokens)"]["arm"] != "unknown"
    assert lines["pool, tokens: logged (predicted)"]["arm"] != "unknown"
    assert lines["longest request (tokens)"]["arm"] == "2,048"


def test_a_run_puts_the_control_back_where_a_limit_is_broken(rolled: RolloutSite, folder: Path) -> None:
    control = read(folder, "control.json")["release"]
    ran = ab(rolled, "run", folder, "--pool-gain", "1000", "--json")
    assert ran.code == 2, ran.out
    assert ran.machine["decision"].startswith("go back: KV pool (tokens)") and ran.machine["restored"] is True
    assert rolled.state("a1", "llm")["current"] == control


def test_an_arm_that_the_gates_refuse_or_that_is_the_control_touches_nothing(
    rolled: RolloutSite, tmp_path: Path
) -> None:
    before = rolled.state("a1", "llm")
    ran = ab(rolled, "run", tmp_path / "refused", "--data", "max_model_len=9999999", *PROBES, "--json")
    assert ran.code == 1 and "the gates refuse the arm; nothing was touched" in ran.plain
    assert ran.machine["error"] == "preflight: the gates refuse the arm; nothing was touched"
    assert ab(rolled, "control", tmp_path / "same", "--data", "max_model_len=4096", "--probes", "smoke").code == 0
    ran = ab(rolled, "boot", tmp_path / "same")
    assert ran.code == 1 and "--data changes nothing" in ran.plain
    assert rolled.state("a1", "llm") == before
