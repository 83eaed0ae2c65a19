"""rollback.py: the release before comes back proven, twice is forth, and it is asked with the key it was given."""

import json
from typing import Any

import pytest
from rollout_midway import kill, until
from rollout_site import FAULT_FILE, RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab
PROOF = ("smoke",)


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """Two nodes with a first release."""
    (shared_site.fleet / "l1.yaml").unlink()
    shared_site.nodes = ("a1", "h1")
    shared_site.rollout = {"batches": ["100%"]}
    shared_site.write(llm=shared_site.service())
    ran = shared_site.deploy()
    assert ran.code == 0, ran.out
    return shared_site


def look(site: RolloutSite) -> dict[str, dict[str, str]]:
    for node in site.nodes:
        assert site.on(node, f"ls {STATE}/lock {STATE}/*/pending 2>/dev/null; true") == ""
    return {node: site.state(node, "llm") for node in site.nodes}


def rollback(site: RolloutSite, *words: str, **env: str) -> Any:
    return site.pyinfra("rollback.py", "-y", *words, **env)


def test_with_nothing_to_go_back_to_the_rollback_is_refused(rolled: RolloutSite) -> None:
    before = rolled.marks()
    ran = rollback(rolled)
    assert ran.code == 1
    assert (
        "rollback: want a release before the current one, found none on these nodes; nothing was changed" in ran.plain
    )
    assert rolled.marks() == before


def test_back_and_forth_and_on(rolled: RolloutSite) -> None:
    first = look(rolled)
    rolled.write(llm=rolled.service(max_model_len=2048, port=8010))
    assert rolled.deploy().code == 0
    second = look(rolled)
    dry = rollback(rolled, "--dry")
    assert (dry.code, look(rolled)) == (0, second)
    a1, h1 = (f"{second[n]['current']} -> {first[n]['current']}" for n in ("a1", "h1"))
    assert f"a1/llm: {a1} " in dry.plain and f"h1/llm: {h1} " in dry.plain
    ran = rollback(rolled)
    assert ran.code == 0, ran.out
    back = look(rolled)
    for node in rolled.nodes:
        assert back[node] | {"pid": ""} == {**first[node], "previous": second[node]["current"], "pid": ""}
    assert rolled.engine("a1", "llm")[0] == rolled.plan("a1", "llm")["argv"]
    assert "Result of the rollback" in ran.plain and "http://10." in ran.plain
    assert ran.plain.count(":8000 proven smoke") == 2
    forth = rollback(rolled, "--limit", "a1")
    assert forth.code == 0, forth.out
    assert look(rolled)["a1"]["current"] == second["a1"]["current"]
    assert look(rolled)["h1"] == back["h1"]
    on = rolled.deploy()
    assert on.code == 0, on.out
    assert {n: s["current"] for n, s in look(rolled).items()} == {n: s["current"] for n, s in second.items()}


def test_a_rollback_that_does_not_prove_itself_is_undone(rolled: RolloutSite) -> None:
    before = look(rolled)
    env = f"{STATE}/llm/releases/{before['a1']['previous']}/env"
    rolled.on(
        "a1", f"sed -i 's#{FAULT_FILE}#/var/lib/standin/other#' {env}; echo completion-500 >/var/lib/standin/other"
    )
    rolled.rollout = {"batches": [1]}
    rolled.write(**rolled.services)
    path = rolled.root / "report.json"
    ran = rollback(rolled, "--data", f"report={path}")
    now = look(rolled)
    assert ran.code == 1
    assert [row["status"] for row in json.loads(path.read_text())["results"]] == ["restored", "untouched"]
    assert "HTTP 500" in ran.plain and f"{before['a1']['current']} was restored and proved itself" in ran.plain
    assert now["a1"] | {"pid": ""} == before["a1"] | {"pid": ""}


def test_a_release_whose_image_is_gone_is_refused_before_anything(rolled: RolloutSite) -> None:
    before, path = look(rolled), rolled.root / "report.json"
    plan = f"{STATE}/llm/releases/{before['a1']['previous']}/plan.json"
    rolled.on("a1", f"cp {plan} /root/plan.json && sed -i 's/@sha256:..../@sha256:0000/' {plan}")
    ran = rollback(rolled, "--data", f"report={path}")
    rolled.on("a1", f"mv /root/plan.json {plan}")
    assert ran.code == 1 and "Traceback" not in ran.out
    told = f"a1/llm: want the image {rolled.plan('a1', 'llm')['image'].partition('@')[0]}@sha256:0000"
    report = json.loads(path.read_text())
    assert report["stopped"].startswith(told) and told in ran.plain
    status = {row["node"]: (row["status"], row["proof"]) for row in report["results"]}
    assert status["a1"][0] == "refused" and status["a1"][1].startswith(told)
    assert {status[node][0] for node in status if node != "a1"} <= {"untouched"}
    assert f"of release {before['a1']['previous']}, found " in ran.plain and "nothing was changed" in ran.plain
    assert look(rolled) == before


def test_from_what_a_dead_run_left_pending_the_way_back_is_the_proven_release(rolled: RolloutSite) -> None:
    before = look(rolled)
    rolled.fault("a1", "slow-start:300")
    rolled.write(llm=rolled.service(max_model_len=1024, policy={"start_budget_s": 100}))
    run = rolled.start("deploy.py", "-y", "--limit", "a1")
    until(lambda: rolled.state("a1", "llm")["active"] == "activating", 60, "a1 loads its new release")
    kill(run)
    rolled.fault("a1")
    rolled.on("a1", f"rm {STATE}/lock")
    ran = rollback(rolled, "--limit", "a1")
    assert ran.code == 0, ran.out
    assert look(rolled)["a1"] | {"pid": ""} == before["a1"] | {"pid": ""}, "and not the one before that"


def test_a_release_is_proven_with_the_key_that_it_was_given(rolled: RolloutSite) -> None:
    """The key was changed since: on the way back, and where a new release fails, the old engine still has its own."""
    keyed = rolled.service(secrets={"VLLM_API_KEY": {"env": "LLM_KEY"}}, policy={"proof_s": 3})
    rolled.write(llm=keyed)
    assert rolled.deploy(LLM_KEY="first-key-4711").code == 0
    before = look(rolled)
    bad = {**keyed, "env": {**keyed["env"], "VLLM_STANDIN_FAULT": "completion-500"}}
    rolled.write(llm=bad)
    path = rolled.root / "report.json"
    ran = rolled.deploy("--limit", "a1", "--data", f"report={path}", LLM_KEY="second-key-4712")
    assert ran.code == 1
    assert "was restored and proved itself" in ran.plain, ran.out
    assert look(rolled)["a1"]["current"] == before["a1"]["current"]
    rolled.write(llm=keyed)
    assert rolled.deploy(LLM_KEY="second-key-4712").code == 0
    back = rollback(rolled, LLM_KEY="second-key-4712")
    assert back.code == 0, back.out
    assert {n: s["current"] for n, s in look(rolled).items()} == {n: s["current"] for n, s in before.items()}
    for words in (ran.out, back.out):
        assert "key-471" not in words
