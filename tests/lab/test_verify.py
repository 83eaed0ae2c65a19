"""verify.py asks what runs, keeps what it found with the release, and tells by its exit code."""

import json
from typing import Any

import pytest
from rollout_site import RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab
PROOF = None  # what a service has that says nothing


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """Two nodes that serve a proven release."""
    (shared_site.fleet / "l1.yaml").unlink()
    shared_site.nodes = ("a1", "h1")
    shared_site.write(
        llm=shared_site.service(flags={"--enable-auto-tool-choice": True, "--tool-call-parser": "hermes"})
    )
    ran = shared_site.deploy("--data", "batches=100%")
    assert ran.code == 0, ran.out
    return shared_site


def verify(site: RolloutSite, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON that was kept, and what was said."""
    path = site.root / "verify.json"
    path.unlink(missing_ok=True)
    kept = site.root / "kept"
    data = ("--data", f"report={path}", "--data", f"history={kept}")
    ran = site.pyinfra("verify.py", *data, *words)
    assert path.exists(), ran.out
    assert path.read_text() in [each.read_text() for each in kept.iterdir()]
    return ran.code, json.loads(path.read_text()), ran.plain


def statuses(told: dict[str, Any]) -> dict[str, list[tuple[str, bool, bool]]]:
    return {
        row["node"]: [(item["probe"], item["passed"], item["degraded"]) for item in row["evidence"]]
        for row in told["results"]
    }


def test_what_runs_well_passes_on_every_node_and_is_kept_with_its_release(rolled: RolloutSite) -> None:
    before = {name: rolled.state(name, "llm") for name in rolled.nodes}
    code, told, said = verify(rolled, "--data", "probes=smoke,tools,quality,degeneration", "--data", "trials=60")
    assert code == 0, said
    good = [(name, True, False) for name in ("smoke", "tools", "quality", "degeneration")]
    assert statuses(told) == {"a1": good, "h1": good}
    for node in rolled.nodes:
        kept = json.loads(rolled.on(node, f"cat {STATE}/llm/current/verify.json"))
        assert kept["release"] == before[node]["current"]
        assert [item["probe"] for item in kept["evidence"]] == ["smoke", "tools", "quality", "degeneration"]
        assert kept["evidence"][3]["details"]["trials"] == 60
    assert {name: rolled.state(name, "llm") for name in rolled.nodes} == before, "nothing was restarted"


def test_a_verified_run_is_the_baseline_of_the_next_and_no_drift(rolled: RolloutSite) -> None:
    code, told, _ = verify(rolled, "--data", "probes=degeneration", "--limit", "a1")
    assert code == 0
    assert "beside 0 of 60 before" in told["results"][0]["evidence"][0]["found"]
    ran = rolled.deploy()
    assert ran.code == 0 and "Nothing to change" in ran.plain, ran.out


def test_one_degraded_node_exits_with_2_and_one_that_fails_with_1(rolled: RolloutSite) -> None:
    try:
        rolled.fault("h1", "loop:p=0.4")
        code, told, said = verify(rolled, "--data", "probes=degeneration")
        assert code == 2, said
        assert statuses(told) == {"a1": [("degeneration", True, False)], "h1": [("degeneration", False, True)]}
        assert "degraded" in said
        rolled.fault("a1", "completion-500")
        code, told, said = verify(rolled, "--data", "probes=degeneration")
        assert code == 1
        assert "HTTP 500: EngineCore" in said
    finally:
        rolled.fault("a1")
        rolled.fault("h1")


def test_what_does_not_run_or_is_not_there_is_told(rolled: RolloutSite) -> None:
    code, told, said = verify(rolled, "--data", "probes=smoke,absent", "--limit", "a1")
    assert code == 1
    assert "wanted absent.py in one of" in said
    assert rolled.fleet_command("stop", "llm", "h1").code == 0
    try:
        code, told, said = verify(rolled)
        assert code == 1
        assert statuses(told)["h1"] == [("smoke", False, False), ("degeneration", False, False)]
        assert "no connection" in said
    finally:
        assert rolled.fleet_command("start", "llm", "h1").code == 0
