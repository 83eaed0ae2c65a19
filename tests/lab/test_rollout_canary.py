"""A release that misbehaves on the first host: the old one comes back and proves itself, later hosts stay."""

import json
import os
import random
import re
from typing import Any

import pytest
from rollout_site import RolloutSite

from fleet.releases.command import STATE
from probes.asking.ask import ask
from probes.evidence import Endpoint, Limits

pytestmark = pytest.mark.lab
PROOF = None  # what a service has that says nothing


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """Two nodes that serve a proven release."""
    (shared_site.fleet / "l1.yaml").unlink()
    shared_site.nodes = ("a1", "h1")
    shared_site.write(llm=shared_site.service())
    ran = shared_site.deploy("--data", "batches=100%")
    assert ran.code == 0, ran.out
    return shared_site


def broken(site: RolloutSite, fault: str, **more: Any) -> dict[str, Any]:
    """The service with a fault of its own, which the old release does not have, and short budgets.

    The start's is short only where it is to run out: podman takes seconds on a busy machine.
    """
    env = {**site.service()["env"], "VLLM_STANDIN_FAULT": fault, **more.pop("env", {})}
    budget = 5 if fault.startswith("slow-start") or fault == "crash-start" else 12
    return site.service(env=env, policy={"start_budget_s": budget, "proof_s": 3}, **more)


def answer(site: RolloutSite, node: str) -> str:
    endpoint = Endpoint(url=f"http://{site.lab.node(node).address}:8000", model="llm")
    return ask(endpoint, "What is 2 + 2?", Limits(total_s=10)).said


def look(site: RolloutSite) -> dict[str, dict[str, str]]:
    """Node -> what lies there; no node may be locked, pending or waiting for an undo."""
    script = f"ls {STATE}/lock {STATE}/*/pending; systemctl is-active 'vllm-fleet-undo@*.timer'"
    for node in site.nodes:
        told = site.on(node, f"({script}) 2>/dev/null; true")
        assert told in ("", "inactive"), f"{node}: {told}"
    return {node: site.state(node, "llm") for node in site.nodes}


@pytest.mark.parametrize(
    "fault, why",
    [
        ("slow-start:60", "it did not start: vllm-llm.service did not become active"),
        ("crash-start", "it did not start: vllm-llm.service did not become active"),
        ("first-completion-500", "HTTP 500: EngineCore encountered an issue"),
        ("completion-500", "HTTP 500: EngineCore encountered an issue"),
        ("hang", "nothing more after 3.0 s"),
        ("crash-after:1", "connection"),
        ("crash-after:2", "connection"),
        ("loop", "a loop: "),
    ],
)
def test_a_canary_that_misbehaves_gets_its_old_release_back(rolled: RolloutSite, fault: str, why: str) -> None:
    before = look(rolled)
    rolled.write(llm=broken(rolled, fault))
    path = rolled.root / "report.json"
    ran = rolled.deploy("--data", f"report={path}")
    assert ran.code == 1, ran.out
    now = look(rolled)
    assert now["h1"] == before["h1"]
    assert now["a1"] | {"pid": ""} == before["a1"] | {"pid": ""}
    assert now["a1"]["pid"] != before["a1"]["pid"], "the new release was never started"
    assert "4" in answer(rolled, "a1")
    assert "VLLM_STANDIN_FAULT" not in rolled.engine("a1", "llm")[1]
    told = json.loads(path.read_text())
    rows = {row["node"]: row for row in told["results"]}
    assert {node: row["status"] for node, row in rows.items()} == {"a1": "restored", "h1": "untouched"}
    assert {node: row["release"] for node, row in rows.items()} == {node: before[node]["current"] for node in rows}
    assert not re.search(r"\b(seconds|undone|active)=", ran.plain), "results of the node script are not for people"
    assert why in rows["a1"]["proof"], rows["a1"]["proof"]
    assert f"{before['a1']['current']} was restored and proved itself" in told["stopped"]
    assert re.search(r"Result node .* a1 llm .* restored .* h1 llm .* untouched .* stopped: a1/llm: ", ran.plain)


def test_why_an_engine_did_not_start_is_shown_from_its_own_log(rolled: RolloutSite) -> None:
    rolled.write(llm=broken(rolled, "crash-start"))
    ran = rolled.deploy()
    assert ran.code == 1
    assert "[a1] | ValueError: fault crash-start: the worker died while it loaded the model" in ran.plain


def test_an_engine_that_crashes_at_half_of_its_starts_is_taken_or_put_back_by_what_it_did(rolled: RolloutSite) -> None:
    """The draw is repeatable: of these seeds one lets the first start live, the other does not."""
    dies = next(seed for seed in map(str, range(99)) if random.Random(seed).random() < 0.5)
    lives = next(seed for seed in map(str, range(99)) if random.Random(seed).random() >= 0.5)
    before = look(rolled)
    rolled.write(llm=broken(rolled, "crash-start:p=0.5", env={"VLLM_STANDIN_SEED": dies}))
    assert rolled.deploy().code == 1
    assert look(rolled)["a1"]["current"] == before["a1"]["current"]
    rolled.write(llm=broken(rolled, "crash-start:p=0.5", env={"VLLM_STANDIN_SEED": lives}))
    ran = rolled.deploy("--limit", "a1")
    assert ran.code == 0, ran.out
    assert look(rolled)["a1"]["previous"] == before["a1"]["current"]


def test_a_first_release_that_fails_leaves_nothing_that_runs_or_starts(rolled: RolloutSite) -> None:
    before = look(rolled)
    fresh = {**broken(rolled, "first-completion-500"), "port": 8001, "gpus": [1]}
    rolled.write(llm=rolled.services["llm"], fresh=fresh)
    code, told = rolled.report("--data", "service=fresh")
    assert code == 1
    rows = {(row["node"], row["service"]): row["status"] for row in told["results"]}
    assert (rows["a1", "fresh"], rows["h1", "fresh"]) == ("failed", "untouched")
    assert "nothing served here before, so nothing was restored and the service is stopped" in told["stopped"]
    assert look(rolled)["a1"] == before["a1"]
    script = (
        "podman ps --all --format '{{.Names}}'; ls /etc/systemd/system /etc/systemd/system/multi-user.target.wants; "
        f"ls {STATE}/fresh; systemctl is-active vllm-fresh; systemctl is-enabled vllm-fresh; ss -Hltn 'sport = :8001'"
    )
    for node in rolled.nodes:
        words = rolled.on(node, f"({script}) 2>/dev/null; true").split()
        assert "fresh" not in " ".join(words) and "current" not in words, f"{node}: {words}"
        assert words.count("inactive") == 1 and "8001" not in " ".join(words), f"{node}: {words}"


SEEDS = range(1, int(os.environ.get("VLLM_FLEET_SEEDED_ROLLOUTS", "2")) + 1)
"""Each takes about seven seconds, so the suite tries two. The decision itself is tried fifty times elsewhere."""


@pytest.mark.parametrize("seed", [str(seed) for seed in SEEDS])
def test_an_engine_that_loops_in_a_fifth_of_its_answers_never_reaches_the_second_host(
    rolled: RolloutSite, seed: str
) -> None:
    """The same decision for fifty seeds, without a rollout around it: tests/operations/test_canary_proof.py."""
    before = look(rolled)
    env = {"VLLM_STANDIN_FAULT": "loop:p=0.2", "VLLM_STANDIN_SEED": seed}
    rolled.write(llm=rolled.service(env={**rolled.service()["env"], **env}, max_model_len=2048))
    code, told = rolled.report()
    rows = {row["node"]: row for row in told["results"]}
    assert code == 1
    assert {node: row["status"] for node, row in rows.items()} == {"a1": "restored", "h1": "untouched"}
    assert look(rolled)["h1"] == before["h1"]
    caught = ("bad, rate", "a loop", "smoke: want stop: an answer that stops")
    assert any(text in rows["a1"]["proof"] for text in caught), rows["a1"]["proof"]
