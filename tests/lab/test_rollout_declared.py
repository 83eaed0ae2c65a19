"""What is declared decides: several services of a node, one that was taken away, overrides for one run, evidence."""

import json
from typing import Any

import pytest
import yaml
from rollout_site import RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def only_a1(shared_site: RolloutSite) -> RolloutSite:
    """One node."""
    for node in ("h1", "l1"):
        (shared_site.fleet / f"{node}.yaml").unlink()
    shared_site.nodes = ("a1",)
    return shared_site


def pair(site: RolloutSite, **other: Any) -> dict[str, Any]:
    """Two services that share the node: other GPUs, other ports."""
    return {
        "chat": site.service(gpus=[0, 1], layout={"tp": 2}),
        "embed": site.service(**{"gpus": [5], "port": 8005, **other}),
    }


def test_two_services_share_a_node(only_a1: RolloutSite) -> None:
    only_a1.write(**pair(only_a1))
    code, told = only_a1.report()
    assert code == 0
    rows = {row["service"]: row for row in told["results"]}
    assert {name: row["status"] for name, row in rows.items()} == {"chat": "proven", "embed": "proven"}
    assert rows["embed"]["endpoint"].endswith(":8005") and rows["chat"]["endpoint"].endswith(":8000")
    assert "nvidia.com/gpu=5" in only_a1.plan("a1", "embed")["command"]
    before = only_a1.state("a1", "chat")
    only_a1.write(**pair(only_a1, max_model_len=2048))
    assert only_a1.deploy().code == 0
    assert only_a1.state("a1", "chat") == before, "a change of one service does not touch the other"
    only_a1.write(**{name: {**one, "max_model_len": 1024} for name, one in pair(only_a1).items()})
    ran = only_a1.deploy("--data", "service=embed")
    assert ran.code == 0 and "Plan: 1 to change, 0 as declared" in ran.plain, ran.out
    assert only_a1.state("a1", "chat") == before, "nor does a run that is about one service"


@pytest.mark.parametrize(
    "other, words",
    [
        ({"gpus": [1]}, "gpus-shared: want each GPU with one service, found chat and embed both on GPU 1 on a1"),
        ({"port": 8000}, "port-shared: want one service on port 8000, found chat and embed on a1"),
    ],
)
def test_services_that_want_the_same_are_refused(only_a1: RolloutSite, other: dict[str, Any], words: str) -> None:
    only_a1.write(**pair(only_a1, **other))
    before = only_a1.marks()
    ran = only_a1.deploy()
    assert (ran.code, words in ran.plain) == (1, True), ran.out
    assert only_a1.marks() == before


def test_a_service_that_is_no_longer_declared_stays_until_it_is_pruned(only_a1: RolloutSite) -> None:
    only_a1.write(**pair(only_a1))
    assert only_a1.deploy().code == 0
    both = only_a1.marks()
    only_a1.write(chat=pair(only_a1)["chat"])
    ran = only_a1.deploy("--diff")
    assert ran.code == 0, ran.out
    told = "a1/embed: remove (no longer declared) was release "
    assert told in ran.plain and "goes only with --data prune=true" in ran.plain
    assert "--- /etc/systemd/system/vllm-embed.service" in ran.plain
    assert only_a1.marks() == both
    status = only_a1.fleet_command("status")
    assert status.code == 2 and "no longer declared" in status.plain
    dry = only_a1.deploy("--dry", "--data", "prune=true")
    assert (dry.code, only_a1.marks()) == (0, both)
    chat = only_a1.state("a1", "chat")
    only_a1.fault("a1", "hang")
    asked = json.dumps({"model": "embed", "prompt": "anything"})
    only_a1.on("a1", f"curl -s -d '{asked}' localhost:8005/v1/completions >/dev/null 2>&1 & sleep 0.5")
    code, report = only_a1.report("--data", "prune=true")
    only_a1.fault("a1")
    assert code == 0
    assert {r["service"]: r["status"] for r in report["results"]} == {"chat": "unchanged", "embed": "removed"}
    removed = next(row for row in report["results"] if row["service"] == "embed")
    assert removed["proof"] == "1 requests ran at the stop and were cut unless they ended in time"
    left = only_a1.on("a1", f"ls {STATE} /etc/systemd/system; podman ps --all --format '{{{{.Names}}}}'; ss -Hltn")
    assert "embed" not in left and ":8005" not in left
    assert only_a1.state("a1", "chat") == chat
    assert only_a1.fleet_command("status").code == 0
    only_a1.write(**pair(only_a1))
    code, report = only_a1.report()
    assert code == 0
    assert {r["service"]: r["status"] for r in report["results"]} == {"chat": "unchanged", "embed": "proven"}


def glm(site: RolloutSite, **settings: Any) -> dict[str, Any]:
    """A service as the project's own a100.yaml declares it: index-sharing model, two stages."""
    own = {
        "model": "/srv/models/glm-dsa-78",
        "layout": {"tp": 4, "pp": 2, "partition": [42, 36]},
        "max_model_len": 524288,
        "speculative": "mtp:3",
        "kv_cache_dtype": "fp8_ds_mla",
        "policy": {"start_budget_s": 900},
    }
    return site.service(**{**own, **settings})


def test_a_service_takes_the_port_and_the_gpus_of_one_that_goes_in_the_same_run(only_a1: RolloutSite) -> None:
    only_a1.write(glm=glm(only_a1))
    kept = only_a1.deploy()
    assert kept.code == 1 and "port-free: want port 8000 free or held by vllm-glm.service" in kept.plain
    code, told = only_a1.report("--data", "prune=true")
    assert code == 0
    assert {r["service"]: r["status"] for r in told["results"]} == {
        "chat": "removed",
        "embed": "removed",
        "glm": "proven",
    }


def test_the_settings_of_a_deploy_script_are_overrides_of_one_run(only_a1: RolloutSite) -> None:
    only_a1.write(glm=glm(only_a1))
    once = ("--data", "tp=8", "--data", "pp=1", "--data", "max_model_len=352000")
    ran = only_a1.fleet_command("cmd", "glm", "a1", "--json", *once)
    assert ran.code == 0, ran.out
    told = json.JSONDecoder().raw_decode(ran.out[ran.out.index("{\n") :])[0]
    argv = " ".join(told["argv"])
    assert "--tensor-parallel-size 8 --max-model-len 352000" in argv and "--pipeline-parallel-size" not in argv
    assert "VLLM_PP_LAYER_PARTITION" not in told["env"]
    assert "warn partition: want" in ran.plain, "the engine ignores a partition at PP 1, which is told"
    more = ("partition=38,40", "kv_cache_dtype=auto", "speculative=none", "disable_custom_all_reduce=1", "v2_runner=0")
    ran = only_a1.fleet_command("cmd", "glm", "a1", "--json", *(w for m in more for w in ("--data", m)))
    assert ran.code == 0, ran.out
    told = json.JSONDecoder().raw_decode(ran.out[ran.out.index("{\n") :])[0]
    assert told["env"]["VLLM_PP_LAYER_PARTITION"] == "38,40" and told["env"]["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    assert {"--disable-custom-all-reduce", "auto"} <= set(told["argv"]) and "--speculative-config" not in told["argv"]
    every = ("--data", 'hf_overrides={"index_topk_freq": 1}')
    refused = only_a1.fleet_command("cmd", "glm", "a1", *every)
    assert refused.code == 1 and "fail indexer-weights: " in refused.plain, "sharing layers have no indexer weights"
    ran = only_a1.fleet_command("cmd", "glm", "a1", *every, "--data", "waive=indexer-weights:a diagnosis, no setting")
    assert ran.code == 0 and """--hf-overrides '{"index_topk_freq":1}'""" in ran.out


def test_an_override_is_shown_in_the_plan_and_rolled(only_a1: RolloutSite) -> None:
    only_a1.write(glm=glm(only_a1))
    ran = only_a1.deploy("--data", "tp=8", "--data", "pp=1", "--data", "max_model_len=352000")
    assert ran.code == 0, ran.out
    for words in (
        "layout pp: 2 -> 1",
        "layout tp: 4 -> 8",
        "flag --max-model-len: 524288 -> 352000",
        "flag --pipeline-parallel-size: removed (was 2)",
        "env VLLM_PP_LAYER_PARTITION: removed (was 42,36)",
    ):
        assert words in ran.plain, f"{words}\n{ran.out}"
    assert "a1 glm TP8/PP1 - " in ran.plain


def test_four_stages_of_an_index_sharing_model_need_a_waiver_or_evidence(only_a1: RolloutSite) -> None:
    four = {"layout": {"tp": 2, "pp": 4, "partition": [22, 20, 20, 16]}}
    only_a1.write(glm=glm(only_a1, **four))
    refused = only_a1.deploy("--dry")
    assert refused.code == 1
    assert (
        "fail pp-evidence: want at most 2 stages, or a stored degeneration run of at least 200 trials" in refused.plain
    )
    assert "operators saw 20 % of answers degenerate without speculation, 45 % with MTP" in refused.plain
    waived = only_a1.deploy("--dry", "--data", "waive=pp-evidence:measured by hand on 2026-03-01")
    assert waived.code == 0 and "; waived: measured by hand on 2026-03-01" in waived.plain, waived.out
    folder = only_a1.fleet / "evidence"
    folder.mkdir()
    run = {"model": "glm-dsa-78", "engine": "0.30.0", "partition": [22, 20, 20, 16], "trials": 200, "bad": 0}
    for change, code in (({}, 0), ({"trials": 199}, 1), ({"bad": 1}, 1), ({"engine": "0.33.0"}, 1)):
        (folder / "run.json").write_text(json.dumps(run | change))
        ran = only_a1.deploy("--dry")
        assert ran.code == code, f"{change}\n{ran.out}"
    (folder / "run.json").unlink()
    orphaned = only_a1.deploy("--dry", "--data", "tp=4", "--data", "pp=2", "--data", "partition=41,37")
    assert orphaned.code == 1
    assert "stage 1 starts on layer 41, which reuses the indices of layer 38 (orphaned: 41)" in orphaned.plain


def test_a_waiver_that_is_declared_holds_for_its_node_only(only_a1: RolloutSite) -> None:
    only_a1.write(glm=glm(only_a1, layout={"tp": 2, "pp": 4, "partition": [22, 20, 20, 16]}))
    path = only_a1.fleet / "group_data" / "lab.yaml"
    declared = yaml.safe_load(path.read_text())
    waiver = {"gate": "pp-evidence", "reason": "200 trials by hand, none bad", "nodes": ["a1"]}
    path.write_text(yaml.safe_dump({**declared, "waivers": [waiver]}))
    ran = only_a1.deploy("--dry")
    assert ran.code == 0 and "pp-evidence - waived a1/glm" in ran.plain
    path.write_text(yaml.safe_dump({**declared, "waivers": [{**waiver, "gate": "pp-evidense"}]}))
    ran = only_a1.deploy("--dry")
    assert ran.code == 1 and "waiver: want waivers of gates that there are, found pp-evidense" in ran.plain
