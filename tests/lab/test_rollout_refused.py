"""What the gates refuse before anything changes, told in the words of the node, and what a waiver lets through."""

import json
from typing import Any

import pytest
from rollout_site import RolloutSite

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """Three nodes that serve a proven release."""
    shared_site.write(llm=shared_site.service())
    ran = shared_site.deploy("--data", "batches=100%")
    assert ran.code == 0, ran.out
    return shared_site


@pytest.fixture(autouse=True)
def healthy(rolled: RolloutSite) -> Any:
    """Faults are one test's own."""
    yield
    for node in rolled.nodes:
        rolled.lab.set(node, clear=True)


def change(site: RolloutSite, length: int) -> None:
    site.write(llm=site.service(max_model_len=length))


def test_a_lost_gpu_stops_the_whole_rollout_before_anything(rolled: RolloutSite) -> None:
    change(rolled, 2048)
    rolled.lab.set("h1", faults=["gpu-lost:3"])
    before = rolled.marks()
    report = rolled.root / "report.json"
    ran = rolled.deploy("--data", f"report={report}")
    assert ran.code == 1
    assert "fail gpu-count: want 8, found 7 on h1 (GPU 3 is lost: " in ran.plain
    assert "; reboot h1 or set gpus.count " in ran.plain
    assert "gpu-count 2 fail h1" in ran.plain, "the whole table is printed"
    assert "Plan: 3 to change" in ran.plain, "the plan is shown beside it"
    assert "failing gates on h1; nothing was changed" in ran.plain
    assert rolled.marks() == before
    told = json.loads(report.read_text())
    assert {row["node"]: row["status"] for row in told["results"]} == {
        "a1": "untouched",
        "h1": "refused",
        "l1": "untouched",
    }
    assert told["stopped"].endswith("failing gates on h1; nothing was changed")


@pytest.mark.parametrize(
    "node, fault, words",
    [
        ("a1", "driver-mismatch", 'fail gpu-healthy: want no complaint of nvidia-smi, found nvidia-smi: "Failed to '),
        ("a1", "nvlink-missing:0-1", "fail nvlink-islands: want NVLink islands {0,1} {2,3} {4,5} {6,7}, found {2,3} "),
        ("l1", "driver-gone", 'fail gpu-count: want 4, found 0 on l1 (nvidia-smi: "NVIDIA-SMI has failed because'),
        ("h1", "ecc:1", 'found GPU 1: "ecc.errors.uncorrected.volatile.total: 3" on h1;'),
    ],
)
def test_a_node_that_complains_is_refused_in_its_own_words(
    rolled: RolloutSite, node: str, fault: str, words: str
) -> None:
    change(rolled, 2048)
    rolled.lab.set(node, faults=[fault])
    ran = rolled.deploy("--dry", "--limit", node)
    assert ran.code == 1
    assert words in ran.plain, ran.out
    assert f"failing gates on {node}; nothing was changed" in ran.plain


def test_a_waived_gate_lets_through_and_says_why_every_time(rolled: RolloutSite) -> None:
    change(rolled, 2048)
    rolled.lab.set("a1", faults=["nvlink-missing:6-7"])
    waive = ("--data", "waive=nvlink-islands:bridge 6-7 is on order since 2026-03-01")
    assert rolled.deploy("--dry", "--limit", "a1").code == 1
    for times, words in enumerate((("--dry",), ())):
        ran = rolled.deploy("--limit", "a1", *waive, *words)
        assert ran.code == 0, (times, ran.out)
        assert "nvlink-islands - waived a1" in ran.plain
        assert "waived nvlink-islands: want NVLink islands {0,1} {2,3} {4,5} {6,7}, found {0,1} {2,3} {4,5} on a1" in (
            ran.plain
        )
        assert "; waived: bridge 6-7 is on order since 2026-03-01" in ran.plain


def test_a_waiver_without_a_reason_is_refused(rolled: RolloutSite) -> None:
    ran = rolled.deploy("--data", "waive=nvlink-islands:")
    assert ran.code == 1
    assert "--data waive: want text of at least 8 characters" in ran.plain
    assert "Connecting to hosts" not in ran.out


def test_nvidia_smi_that_prints_garbage_is_quoted_and_refused(rolled: RolloutSite) -> None:
    """Also with exit code 0, and where the topology is cut off in the middle of the matrix."""
    change(rolled, 1024)
    before = rolled.marks()
    real = "/usr/bin/nvidia-smi"
    garbage = "#!/bin/sh\necho 'Segmentation \\001 fault'; echo 8; exit 0"
    cut = f'#!/bin/sh\n{real}.real "$@" >/tmp/smi; code=$?; [ "$1" != topo ] || head -c 150 /tmp/smi; '
    cut += '[ "$1" = topo ] || cat /tmp/smi; exit $code'
    rolled.on("l1", f"cp {real} {real}.real")
    try:
        for script, words in (
            (garbage, ("gpu-count: want 4, found 0 on l1 (", "Segmentation")),
            (cut, ("nvlink-islands: want NVLink islands none, found no topology that can be trusted", "on l1")),
        ):
            rolled.lab.ssh(
                "l1", f"cat >{real}.new && chmod 755 {real}.new && mv {real}.new {real}", input=script + "\n"
            )
            ran = rolled.deploy()
            assert ran.code == 1
            assert all(word in ran.plain for word in words), ran.out
            assert "failing gates on l1; nothing was changed" in ran.plain
            assert "Traceback" not in ran.out
    finally:
        rolled.on("l1", f"mv {real}.real {real}")
    assert rolled.marks() == before
