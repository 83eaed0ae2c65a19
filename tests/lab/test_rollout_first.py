"""The fleet that comes with the project, rolled out on three kinds of nodes: first time, no change, changes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rollout_site import PROJECT, RolloutSite

from fleet.ledger.started import read_started
from fleet.releases.command import NODE_SCRIPT, STATE
from probes.asking.ask import ask
from probes.evidence import Endpoint, Limits

pytestmark = pytest.mark.lab
PROOF = None  # what a service has that says nothing
SERVED = {"a1": ("glm", "TP4/PP2", "42,36"), "h1": ("qwen", "TP8/PP1", "-"), "l1": ("llama", "TP4/PP1", "-")}
"""Node -> service, layout and partition, as group_data of the project declares them."""


@pytest.fixture(scope="module")
def fleet(shared_site: RolloutSite) -> RolloutSite:
    """The project's own group data on the lab's nodes; only the digest's place and times are the test's."""
    made, kinds = shared_site, {"a1": "a100", "h1": "h100", "l1": "l40s"}
    data = made.fleet / "group_data"
    data.mkdir()
    for path in (PROJECT / "group_data").glob("*.yaml"):
        content: dict[str, Any] = yaml.safe_load(path.read_text())
        if path.stem == "all":
            content["images"]["standin"]["digest_file"] = str(made.lab.folder / "image-0.30.0.digest")
            content["defaults"]["policy"] |= {"start_budget_s": 60, "stop_grace_s": 5}
        (data / path.name).write_text(yaml.safe_dump(content))
    for name, kind in kinds.items():
        node = made.fleet / f"{name}.yaml"
        node.write_text(yaml.safe_dump(yaml.safe_load(node.read_text()) | {"groups": [kind]}))
    return made


def change(fleet: RolloutSite, group: str, service: str, **settings: Any) -> None:
    """Edit one service of group data, as its owner would."""
    path = fleet.fleet / "group_data" / f"{group}.yaml"
    content = yaml.safe_load(path.read_text())
    for name, value in settings.items():
        held = content["services"][service].get(name)
        content["services"][service][name] = held | value if isinstance(held, dict) else value
    path.write_text(yaml.safe_dump(content))


def endpoint(fleet: RolloutSite, node: str, service: str, port: int = 8000) -> Endpoint:
    return Endpoint(url=f"http://{fleet.lab.node(node).address}:{port}", model=service)


def test_a_first_roll_serves_and_proves_every_node(fleet: RolloutSite, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ran = fleet.deploy("--data", f"report={report}")
    assert ran.code == 0, ran.out
    assert "3 to change, 0 as declared" in ran.plain
    results = {row["node"]: row for row in json.loads(report.read_text())["results"]}
    for node, (service, layout, partition) in SERVED.items():
        row = results[node]
        assert (row["service"], row["layout"], row["partition"], row["status"]) == (
            service,
            layout,
            partition,
            "proven",
        )
        assert "smoke: 10 checks as wanted" in row["proof"]
        assert "degeneration: 0 of 40 bad" in row["proof"]
        assert "chance to miss a fault in a fifth of the answers: 0.0015" in row["proof"]
        state = fleet.state(node, service)
        assert state | {"pid": ""} == {
            "current": row["release"],
            "proven": row["release"],
            "previous": "",
            "pending": "",
            "active": "active",
            "pid": "",
        }
        assert "4" in ask(endpoint(fleet, node, service), "What is 2 + 2?", Limits(total_s=10)).said
        assert f"{node} {service} {layout} {partition} {row['release']} {row['endpoint']} proven" in ran.plain


@pytest.mark.parametrize("node", SERVED)
def test_what_lies_on_the_node_is_complete_and_for_root_only(fleet: RolloutSite, node: str) -> None:
    service = SERVED[node][0]
    folder = f"{STATE}/{service}"
    unit = f"/etc/systemd/system/vllm-{service}.service"
    modes, rest, text = fleet.on(
        node,
        f"stat -L -c '%a %U:%G %n' {folder} {folder}/current/* {unit}; echo =; cmp {folder}/current/unit {unit};"
        f"systemctl is-enabled vllm-{service}; ls {folder}; echo =; cat {folder}/current/proof.json",
    ).split("=\n")
    assert modes.splitlines() == [
        f"700 root:root {folder}",
        *(f"600 root:root {folder}/current/{name}" for name in ("env", "plan.json", "proof.json", "unit")),
        f"644 root:root {unit}",
    ]
    assert rest.split() == ["enabled", "current", "proven", "releases", "started"]
    proof = json.loads(text)
    assert proof["release"] == fleet.state(node, service)["current"]
    assert proof["evidence"][0]["passed"] and proof["measured"]["kv_cache_size_tokens"]
    started = read_started(text)
    assert started and started.pool_tokens == int(proof["measured"]["kv_cache_size_tokens"]) and started.blocks
    assert started.ranks[0].weights_gib and started.ranks[0].available_kv_gib
    assert started.tightest and started.tightest.total_mib


@pytest.mark.parametrize("node", SERVED)
def test_the_engine_runs_with_the_argv_and_the_environment_of_the_plan(fleet: RolloutSite, node: str) -> None:
    service, layout, partition = SERVED[node]
    plan = fleet.plan(node, service)
    argv, environ = fleet.engine(node, service)
    assert argv == plan["argv"]
    assert {name: environ.get(name) for name in plan["env"]} == plan["env"]
    assert argv[argv.index("--tensor-parallel-size") + 1] == layout[2]
    assert environ.get("VLLM_PP_LAYER_PARTITION", "-") == partition


def test_a_second_run_changes_nothing_and_says_so(fleet: RolloutSite) -> None:
    before = fleet.marks()
    ran = fleet.deploy("--diff")
    assert ran.code == 0, ran.out
    assert "0 to change, 3 as declared" in ran.plain
    assert "Nothing to change: every service is as declared, nothing was restarted." in ran.plain
    assert "Starting operation" not in ran.out
    assert fleet.marks() == before
    assert all(f"{STATE}/lock " not in text for text in before.values())


def test_files_of_the_projects_own_that_a_run_puts_right_are_named_before(fleet: RolloutSite) -> None:
    before = fleet.state("l1", "llama")
    fleet.on("l1", f"rm {NODE_SCRIPT}; chmod 600 /etc/systemd/system/vllm-fleet-boot.service")
    told = f"l1: own files brought up to date: /etc/systemd/system/vllm-fleet-boot.service, {NODE_SCRIPT}"
    dry = fleet.pyinfra("deploy.py", "--dry", "--diff")
    assert dry.code == 0 and told in dry.plain, dry.out
    assert fleet.on("l1", f"ls {NODE_SCRIPT} 2>/dev/null || true") == ""
    ran = fleet.deploy()
    assert ran.code == 0 and told in ran.plain and "a1: own" not in ran.plain, ran.out
    assert fleet.state("l1", "llama") == before and "own files" not in fleet.pyinfra("deploy.py", "--dry").plain


def test_a_change_is_told_flag_by_flag_and_keeps_the_release_before(fleet: RolloutSite) -> None:
    first = fleet.state("a1", "glm")
    others = {node: fleet.state(node, SERVED[node][0]) for node in ("h1", "l1")}
    digest = (fleet.lab.folder / "image-0.33.0.digest").read_text().strip()
    image = {"name": "localhost/vllm-standin", "digest": digest, "engine": "0.33.0"}
    change(
        fleet,
        "a100",
        "glm",
        image=image,
        port=8100,
        max_model_len=262144,
        env={"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_RPC_TIMEOUT": "20000"},
        flags={"--max-num-seqs": 32},
        layout={"partition": [38, 40]},
    )
    ran = fleet.deploy("--diff")
    assert ran.code == 0, ran.out
    told = [line.strip() for line in ran.out.splitlines()]
    for wanted in (
        "a1/glm: update (new release)",
        "engine: 0.30.0 -> 0.33.0",
        "layout partition: [42, 36] -> [38, 40]",
        "flag --port: 8000 -> 8100",
        "flag --max-model-len: 524288 -> 262144",
        "flag --max-num-seqs: 16 -> 32",
        "env VLLM_LOGGING_LEVEL: INFO -> DEBUG",
        "env VLLM_RPC_TIMEOUT: added 20000",
        "env VLLM_PP_LAYER_PARTITION: 42,36 -> 38,40",
        '-VLLM_LOGGING_LEVEL="INFO"',
        '+VLLM_LOGGING_LEVEL="DEBUG"',
        "--- /etc/systemd/system/vllm-glm.service",
        "+    --max-num-seqs 32 \\",
    ):
        assert wanted in told, f"{wanted!r} is not in\n{ran.out}"
    assert "port: 8000 -> 8100" not in told, "what the flag has told"
    now = fleet.state("a1", "glm")
    assert (now["proven"], now["previous"], now["active"]) == (now["current"], first["current"], "active")
    assert now["current"] != first["current"]
    assert {node: fleet.state(node, SERVED[node][0]) for node in ("h1", "l1")} == others
    assert "0.33.0" in fleet.on("a1", "curl -s http://127.0.0.1:8100/version")
    assert ask(endpoint(fleet, "a1", "glm", 8100), "What is 2 + 2?", Limits(total_s=10)).said


def test_after_a_third_release_two_are_kept(fleet: RolloutSite) -> None:
    second = fleet.state("a1", "glm")["current"]
    change(fleet, "a100", "glm", max_model_len=131072)
    ran = fleet.deploy("--limit", "a1")
    assert ran.code == 0, ran.out
    third = fleet.state("a1", "glm")
    assert third["previous"] == second
    assert set(fleet.on("a1", f"ls -A {STATE}/glm/releases").split()) == {second, third["current"]}
    assert fleet.on("a1", f"ls -A {STATE}/glm") == ".guard\ncurrent\nprevious\nproven\nreleases\nstarted"
    argv, _ = fleet.engine("a1", "glm")
    assert argv == fleet.plan("a1", "glm")["argv"]
    assert "131072" in argv
