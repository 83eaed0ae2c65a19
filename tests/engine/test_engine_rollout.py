"""A real vLLM in the container of a lab host, rolled out as any other service: layouts, a canary that fails, patches.

Each step of this file is one start of the engine (a minute on two idle cores), so they follow on each other in order.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleet.ledger.budget import Given
from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Serving
from fleet.model.read import read_model
from fleet.releases.command import NODE_SCRIPT, STATE
from lab import host, images
from lab.engine import hosts, image, venv
from lab.lab import Lab
from tests.lab.rollout_site import BIN, PROJECT, Ran, RolloutSite

pytestmark = [pytest.mark.engine, pytest.mark.timeout(2500)]

LIMIT_S = 2400
GIB = 2**30
BLOCK = 128
"""Tokens of a block on CPU."""
NAME = "-".join(filter(None, (os.environ.get("VLLM_FLEET_TEST_LAB", "test"), "real")))


@pytest.fixture(scope="module")
def real(engine_fit: None) -> Iterator[Lab]:
    """Two hosts that have the real engine; all but the last tests need one."""
    reason = host.unfit()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    booted = command([str(BIN / "fleet"), "lab", "up", "--engine", "vllm-cpu", "-n", "2", "--name", NAME])
    assert booted.code == 0, booted.out
    lab = Lab(NAME, 2, engine="vllm-cpu")
    yield lab
    if not os.environ.get("VLLM_FLEET_KEEP_LAB"):
        lab.down()


@pytest.fixture(scope="module")
def site(real: Lab, engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolloutSite]:
    """A site with the first of them."""
    made = RolloutSite(real, tmp_path_factory.mktemp("site"), ("a1",))
    yield made
    if os.environ.get("VLLM_FLEET_KEEP_LAB"):
        return
    real.ssh("a1", f"[ ! -x {NODE_SCRIPT} ] || {NODE_SCRIPT} drop tiny", timeout=60)


def command(words: list[str], **env: str) -> Ran:
    done = subprocess.run(
        words,
        cwd=PROJECT,
        env={**os.environ, "NO_COLOR": "1", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    return Ran(code=done.returncode, out=done.stdout)


def declare(site: RolloutSite, python: Path, **settings: Any) -> None:
    digest = (site.lab.folder / f"image-{images.REAL}.digest").read_text().strip()
    site.write(tiny=hosts.service(digest, python, **settings))


def rolled(site: RolloutSite, python: Path, **settings: Any) -> Ran:
    declare(site, python, **settings)
    return site.deploy(timeout=LIMIT_S)


def proof(site: RolloutSite) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(site.on("a1", f"cat {STATE}/tiny/current/proof.json"))
    return document


def pool(site: RolloutSite) -> int:
    """KV tokens as the engine exported them when it had proven itself; the journal must say the same."""
    measured = proof(site)["measured"]
    assert int(measured["block_size"]) == BLOCK
    told = site.on("a1", "journalctl -u vllm-tiny -o cat | grep -o 'KV cache size: [0-9,]* tokens' | tail -1")
    assert int(told.split()[3].replace(",", "")) == int(measured["kv_cache_size_tokens"])
    return int(measured["kv_cache_size_tokens"])


def predicted(site: RolloutSite, *cut: int, tp: int = 1) -> int:
    """What the ledger says of this cut at 1 GiB a rank."""
    config = json.loads(site.on("a1", f"cat {hosts.MODEL}/config.json"))
    serving = Serving(engine=venv.DEFAULT, tp=tp, pp=len(cut), max_model_len=1024, block_size=BLOCK)
    budget = Given(stages=(GIB,) * len(cut))
    ledger = Ledger(read_model(config), serving)
    return ledger.pool(cut, budget.stages).tokens


def said(site: RolloutSite) -> tuple[str, list[float]]:
    """A greedy answer with its log-probabilities: where a stage does not do its work, these differ."""
    url = f"http://{site.lab.node('a1').address}:8000/v1/completions"
    body = {"model": "tiny", "prompt": "What is 2 + 2?:", "max_tokens": 6, "temperature": 0, "logprobs": 1}
    answer = httpx.post(url, json=body, timeout=120)
    answer.raise_for_status()
    choice = answer.json()["choices"][0]
    return choice["text"], choice["logprobs"]["token_logprobs"]


def proven(site: RolloutSite, ran: Ran, layout: str, partition: str) -> None:
    assert ran.code == 0, ran.out[-4000:]
    state = site.state("a1", "tiny")
    assert state["current"] == state["proven"] and state["active"] == "active" and not state["pending"]
    assert f"a1 tiny {layout} {partition} {state['current']}" in ran.plain
    assert "'tiny.' (stop, 7 tokens" in proof(site)["summary"], proof(site)["summary"]


ONE_STAGE: list[tuple[str, list[float]]] = []


def test_a_lab_with_the_engine_serves_its_model(site: RolloutSite, engine_python: Path) -> None:
    """The commands of docs/lab.md: the lab's own fleet, one rank."""
    fleet = str(site.lab.folder / "fleet")
    ran = command([str(BIN / "pyinfra"), "inventory.py", "deploy.py", "-y", "--limit", "a1"], FLEET=fleet)
    proven(site, ran, "TP1/PP1", "-")
    assert pool(site) == predicted(site, 4) == 1_048_576
    ONE_STAGE.append(said(site))
    assert ONE_STAGE[0][0] == " tiny."


def test_the_engine_in_the_container_is_vllm_and_nothing_of_it_was_copied(site: RolloutSite) -> None:
    argv, _ = site.engine("a1", "tiny")
    assert argv == site.plan("a1", "tiny")["argv"]
    assert site.on("a1", "curl -s http://127.0.0.1:8000/version") == json.dumps({"version": venv.DEFAULT}).replace(
        " ", ""
    )
    used = int(site.on("a1", "df --output=used -B1M / | tail -1"))
    assert used < 500, f"{used} MiB of the host's own disk are in use"


def test_a_second_run_changes_nothing(site: RolloutSite, engine_python: Path) -> None:
    declare(site, engine_python)
    before = site.marks()
    ran = site.deploy()
    assert ran.code == 0 and "Nothing to change" in ran.plain, ran.out[-4000:]
    assert site.marks() == before


def test_two_stages_give_the_same_answer_and_the_pool_of_the_larger_one(site: RolloutSite, engine_python: Path) -> None:
    ran = rolled(site, engine_python, layout={"tp": 1, "pp": 2, "partition": [3, 1]})
    proven(site, ran, "TP1/PP2", "3,1")
    assert pool(site) == predicted(site, 3, 1) == 1_398_016
    text, logprobs = said(site)
    assert text == ONE_STAGE[0][0]
    assert logprobs == pytest.approx(ONE_STAGE[0][1], abs=0.02)


ASKED = ("--probes", "smoke,degeneration,quality,speed", "--trials", "8", "--seconds", "400")
BRISK = """
from probes import speed

def probe(endpoint, limits, say=print):
    few = {"concurrency": (1, 4), "max_tokens": 32, "lengths": (32,), "trials": 4}
    return speed.probe(endpoint, limits.model_copy(update=few), say)
"""
"""The project's probe with a load that a CPU can carry: at five tokens a second the usual one takes ten minutes.

With answers of eight tokens (a quarter of a second) a busy CPU held two of four back whole, and no TPOT was left.
"""
OTHER = ("--data", "partition=2,2")
SHARED = ("--tpot-loss", "100000")
"""The cores of the machine that tests are shared: how fast an arm is decides nothing here."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the A/B of this file is kept."""
    return tmp_path_factory.mktemp("ab") / "tiny"


def ab(site: RolloutSite, verb: str, folder: Path, *words: str) -> Ran:
    return site.fleet_command("ab", verb, "tiny", "a1", "--folder", str(folder), *words, timeout=LIMIT_S)


def verdict(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "verdict.json").read_text())
    return document


def test_an_ab_between_two_partitions_step_by_step(site: RolloutSite, engine_python: Path, folder: Path) -> None:
    """Preflight and control touch nothing; the arm is booted, asked, judged, and the control put back."""
    (site.fleet / "probes").mkdir()
    (site.fleet / "probes" / "speed.py").write_text(BRISK)
    before = site.state("a1", "tiny")
    for verb, words in (("preflight", OTHER), ("control", ASKED)):
        ran = ab(site, verb, folder, *words)
        assert ran.code == 0, ran.out[-4000:]
    assert site.state("a1", "tiny") == before, "nothing was touched"
    ran = ab(site, "boot", folder)
    assert ran.code == 0, ran.out[-4000:]
    assert site.state("a1", "tiny")["previous"] == before["current"]
    assert pool(site) == predicted(site, 2, 2) == 2_097_152
    assert said(site)[1] == pytest.approx(ONE_STAGE[0][1], abs=0.02)
    ran = ab(site, "verify", folder, *ASKED)
    assert ran.code == 0, ran.out[-4000:]
    ran = ab(site, "verdict", folder, "--pool-gain", "60", *SHARED)
    assert ran.code == 2 and "verdict: go back: KV pool (tokens)" in ran.plain, ran.out[-4000:]
    ran = ab(site, "restore", folder)
    assert ran.code == 0, ran.out[-4000:]
    now = site.state("a1", "tiny")
    assert (now["current"], now["active"]) == (before["current"], "active")


def test_the_verdict_tells_every_figure_of_a_real_engine(folder: Path) -> None:
    told = verdict(folder)
    lines = {line["name"]: line for line in told["lines"]}
    size = lines["KV pool (tokens)"]
    assert (size["control"], size["arm"], size["difference"], size["holds"]) == (
        "1,398,016",
        "2,097,152",
        "+50.0 %",
        False,
    )
    assert lines["pool, tokens: logged (predicted)"]["arm"].startswith("2,097,152 (2,097,")
    assert not [one for one in told["findings"] if "pool" in one], "no prediction of a pool is more than 2 % off"
    assert lines["longest request (tokens)"]["arm"] == "1,024"
    assert (lines["probe smoke"]["control"], lines["probe smoke"]["arm"]) == ("passed", "passed")
    assert lines["probe speed"]["arm"] == "passed"
    for name in ("TTFT P99 at 1 at once (ms)", "TPOT P50 at 4 at once (ms)", "tokens/s at 4 at once"):
        assert float(lines[name]["control"]) > 0 and lines[name]["significance"].startswith("p = "), lines[name]
    assert lines["answer length (tokens, P50)"]["significance"].startswith("p = ")
    assert " of 8 bad" in lines["degenerate answers"]["arm"]
    assert "| KV pool (tokens) | 1,398,016 | 2,097,152 | +50.0 % |" in (folder / "verdict.md").read_text()
    page = (folder / "verdict.html").read_text()
    assert page.count("<svg") == 3 and page.count("<rect class=a") == 3 * 2


def test_an_ab_goes_on_where_it_was_and_adopts_the_larger_pool(
    site: RolloutSite, engine_python: Path, folder: Path
) -> None:
    """The control is not asked again; what is then declared is what runs."""
    before, asked = site.state("a1", "tiny")["current"], (folder / "control.json").stat().st_mtime_ns
    ran = ab(site, "run", folder, *ASKED, "--pool-gain", "40", *SHARED)
    assert ran.code == 0 and "verdict: adopt" in ran.plain, ran.out[-4000:]
    assert (folder / "control.json").stat().st_mtime_ns == asked
    declare(site, engine_python, layout={"tp": 1, "pp": 2, "partition": [2, 2]})
    ran = site.deploy(timeout=LIMIT_S)
    assert ran.code == 0 and "Nothing to change" in ran.plain, ran.out[-4000:]
    assert site.state("a1", "tiny")["previous"] == before


def test_verify_asks_what_runs(site: RolloutSite) -> None:
    ran = site.pyinfra(
        "verify.py", "--data", "probes=smoke,heartbeat", "--data", f"history={site.root}", timeout=LIMIT_S
    )
    assert ran.code == 0 and "checks as wanted" in ran.plain and "a token after" in ran.plain, ran.out[-4000:]


def test_an_engine_that_is_healthy_and_answers_500_is_taken_back(site: RolloutSite, engine_python: Path) -> None:
    """PP 2 with --enforce-eager on CPU: /health is 200, the first forward pass fails with 500 in the stream."""
    before = site.state("a1", "tiny")
    flags = {"--dtype": "bfloat16", "--enforce-eager": True}
    ran = rolled(site, engine_python, layout={"tp": 1, "pp": 2, "partition": [2, 2]}, flags=flags)
    assert ran.code == 1, ran.out[-4000:]
    assert "completion: want an answer, found" in ran.plain and '"code": 500' in ran.plain, ran.out[-4000:]
    assert f"{before['current']} was restored and proved itself" in ran.plain
    now = site.state("a1", "tiny")
    assert now | {"pid": ""} == before | {"pid": ""}
    assert said(site)[0] == " tiny."


def test_two_ranks_of_one_stage_with_a_patched_engine(site: RolloutSite, engine_python: Path) -> None:
    ran = rolled(site, engine_python, layout={"tp": 2}, patches=["index-boundary"])
    proven(site, ran, "TP2/PP1", "-")
    assert pool(site) == predicted(site, 4, tp=2) == 2_097_152
    assert said(site)[1] == pytest.approx(ONE_STAGE[0][1], abs=0.02)
    record = json.loads(site.on("a1", f"cat {STATE}/tiny/current/patches.json"))
    assert len(record["files"]) == 2
    root = "/proc/$(podman inspect --format '{{.State.Pid}}' vllm-tiny)/root"
    for file in record["files"]:
        assert file["target"].startswith(f"{image.PACKAGES}/vllm/")
        seen = site.on("a1", f'sha256sum "{root}{file["target"]}"').split()[0]
        assert seen == file["sha256"] != file["pristine_sha256"]
        pristine = engine_python.parents[1] / "lib" / Path(file["target"]).relative_to(f"{image.VENV}/lib")
        assert hashlib.sha256(pristine.read_bytes()).hexdigest() == file["pristine_sha256"]


def test_an_audit_of_what_runs_is_clean(site: RolloutSite) -> None:
    ran = site.pyinfra("audit.py")
    assert ran.code == 0, ran.out[-4000:]


def test_what_would_apply_to_the_installed_engine_is_told(site: RolloutSite, engine_python: Path) -> None:
    packages = next(engine_python.parents[1].glob("lib/python3*/site-packages"))
    ran = site.fleet_command("patch", "check", str(packages), "--json")
    assert ran.code == 0, ran.out
    told = json.loads(ran.out)
    assert told["engine"].startswith(venv.DEFAULT) and {row["answer"] for row in told["patches"]} == {"applies"}


LOSE = """
import pathlib
import subprocess

from probes.evidence import Endpoint, Evidence, Limits

MARK = pathlib.Path({mark!r})


def probe(endpoint: Endpoint, limits: Limits) -> Evidence:
    found = "nothing to do"
    if MARK.exists():
        MARK.unlink()
        found = f"exit {{subprocess.run({command!r}).returncode}} of the kill"
    return Evidence(probe="lose-a-host", passed=True, wanted="a host less", found=found, seconds=0)
"""
"""Kills the part of the engine on the other host, between two probes of a proof; once."""


@pytest.fixture(scope="module")
def pair(real: Lab, site: RolloutSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolloutSite]:
    """A site with both hosts, after the tests of one."""
    names = tuple(node.name for node in real.nodes)
    made = RolloutSite(real, tmp_path_factory.mktemp("pair"), names)
    made.waivers = [{"gate": "hosts-gpus", "reason": "a lab has one node of each kind; the engine runs on CPUs"}]
    probes = made.fleet / "probes"
    probes.mkdir()
    mark = made.root / "lose"
    words = [*real.ssh_command(names[1]), "--", "podman", "kill", "vllm-tiny"]
    (probes / "lose_a_host.py").write_text(LOSE.format(mark=str(mark), command=words))
    yield made
    if not os.environ.get("VLLM_FLEET_KEEP_LAB"):
        real.ssh(names[1], f"[ ! -x {NODE_SCRIPT} ] || {NODE_SCRIPT} drop tiny", timeout=60)


def over_both(pair: RolloutSite, **settings: Any) -> dict[str, Any]:
    return {"nodes": list(pair.nodes), "layout": {"tp": 1, "pp": 2, "partition": [3, 1]}, **settings}


def test_one_engine_over_two_hosts_gives_the_same_answer(pair: RolloutSite, engine_python: Path) -> None:
    ran = rolled(pair, engine_python, **over_both(pair))
    assert ran.code == 0, ran.out[-4000:]
    for node in pair.nodes:
        state = pair.state(node, "tiny")
        assert state["current"] == state["proven"] and state["active"] == "active"
        argv, env = pair.engine(node, "tiny")
        assert argv == pair.plan(node, "tiny")["argv"]
        assert ("--headless" in argv) == (node == pair.nodes[1])
        assert env["VLLM_HOST_IP"] == pair.lab.node(node).address
    assert pool(pair) == predicted(pair, 3, 1) == 1_398_016
    text, logprobs = said(pair)
    assert text == ONE_STAGE[0][0]
    assert logprobs == pytest.approx(ONE_STAGE[0][1], abs=0.02)


def test_a_second_run_of_an_engine_over_two_hosts_changes_nothing(pair: RolloutSite) -> None:
    before = pair.marks()
    ran = pair.deploy()
    assert ran.code == 0 and "Nothing to change" in ran.plain, ran.out[-4000:]
    assert pair.marks() == before
    audit = pair.pyinfra("audit.py")
    assert audit.code == 0, audit.out[-4000:]


def test_a_dead_host_fails_the_proof_and_the_old_engine_comes_back_on_both(
    pair: RolloutSite, engine_python: Path
) -> None:
    before = {node: pair.state(node, "tiny") for node in pair.nodes}
    (pair.root / "lose").touch()
    service = hosts.service("sha256:" + "0" * 64, engine_python)
    policy = {**service["policy"], "proof": ["completion", "lose_a_host", "completion"], "proof_s": 20}
    ran = rolled(pair, engine_python, **over_both(pair, max_model_len=512, policy=policy))
    assert ran.code == 1, ran.out[-4000:]
    assert "lose-a-host passed" in ran.plain and "exit 0 of the kill" in ran.plain, ran.out[-4000:]
    assert "completion: want an answer" in ran.plain, ran.out[-4000:]
    assert "was restored and proved itself" in ran.plain, ran.out[-4000:]
    after = {node: pair.state(node, "tiny") | {"pid": ""} for node in pair.nodes}
    assert after == {node: state | {"pid": ""} for node, state in before.items()}
    assert said(pair)[0] == " tiny."
