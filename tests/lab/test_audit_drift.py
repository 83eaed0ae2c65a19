"""An audit finds what somebody did by hand on a node, all of it and nothing else, and changes nothing itself."""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import fresh_site
from drifts import PREPARE, ByHand, together
from rollout_site import BIN, PROJECT, Ran, RolloutSite

from lab.lab import Lab

pytestmark = pytest.mark.lab
NODES = ("a1", "h1", "l1")
GROUPS = together()
ROUNDS = [GROUPS[at : at + len(NODES)] for at in range(0, len(GROUPS), len(NODES))]
SECRET = "a secret key$ of the test"


def audit(site: RolloutSite, *words: str) -> tuple[Ran, dict[str, Any]]:
    """The audit as a person reads it, and its JSON."""
    path = site.root / "audit.json"
    path.unlink(missing_ok=True)
    ran = site.pyinfra("audit.py", "--data", f"report={path}", *words)
    return ran, json.loads(path.read_text()) if path.exists() else {}


@pytest.fixture(scope="module")
def rolled(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolloutSite]:
    """Three nodes with a service, its secret and a mounted file; a release before it lies there too."""
    with fresh_site(lab, tmp_path_factory.mktemp("site")) as site:
        key = site.root / "key"
        key.write_text(SECRET)
        for name in site.nodes:
            site.on(name, "echo one >/srv/mounted.txt")
        service = site.service(layout={"tp": 2}, secrets={"VLLM_API_KEY": {"file": str(key)}}, numa_bind=False)
        service["mounts"].append({"source": "/srv/mounted.txt", "target": "/opt/mounted.txt"})
        for length in (2000, 4096):
            site.write(llm={**service, "max_model_len": length})
            assert site.deploy().code == 0
        for name in site.nodes:
            site.on(name, PREPARE)
        yield site


def test_a_clean_fleet_has_no_drift_and_is_left_as_it_was(rolled: RolloutSite) -> None:
    before = rolled.marks()
    ran, told = audit(rolled)
    assert (ran.code, told["exit"], told["drifts"]) == (0, 0, []), ran.out
    assert "No drift on 3 nodes" in ran.plain and "Traceback" not in ran.out
    assert [node["state"] for node in told["nodes"]] == ["clean"] * 3
    assert rolled.marks() == before


def other_image(site: RolloutSite) -> str:
    return (site.lab.folder / "image-0.33.0.digest").read_text().strip()


def on(site: RolloutSite, node: str, text: str) -> None:
    """Carry it out there, with the images that this lab has."""
    declared = site.services["llm"]["image"]
    text = text.replace("OTHER_IMAGE", other_image(site))
    site.on(node, text.replace("DECLARED_IMAGE", f"{declared['name']}@{declared['digest']}"))


def on_all(site: RolloutSite, done: dict[str, tuple[ByHand, ...]], back: bool = False) -> None:
    """Do a group on each node, all nodes at the same time; `back`: undo it, the last first."""

    def one(node: str) -> None:
        for drift in reversed(done[node]) if back else done[node]:
            on(site, node, drift.back if back else drift.by)

    with ThreadPoolExecutor(len(done)) as pool:
        list(pool.map(one, done))


@pytest.mark.parametrize("groups", ROUNDS, ids=lambda groups: "; ".join(d.name for group in groups for d in group))
def test_what_was_done_by_hand_is_found(rolled: RolloutSite, groups: tuple[tuple[ByHand, ...], ...]) -> None:
    done = dict(zip(NODES, groups, strict=True))
    on_all(rolled, done)
    try:
        ran, told = audit(rolled)
    finally:
        on_all(rolled, done, back=True)
    found = {node: sorted({d["check"] for d in told["drifts"] if d["node"] == node}) for node in NODES}
    assert found == {node: sorted(set().union(*(d.checks for d in drifts))) for node, drifts in done.items()}, ran.out
    assert ran.code == told["exit"] == 2, ran.out
    for drift in (drift for drifts in groups for drift in drifts):
        assert drift.says.replace("OTHER_IMAGE", other_image(rolled)) in ran.plain, ran.out
    everything = ran.out + json.dumps(told)
    assert SECRET not in everything and "hunter2" not in everything


def test_after_all_that_the_fleet_is_clean_again_and_json_on_stdout_is_json_alone(rolled: RolloutSite) -> None:
    done = subprocess.run(
        [BIN / "pyinfra", "inventory.py", "audit.py", "--json"],
        cwd=PROJECT,
        env=rolled.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    assert (done.returncode, told["verb"], told["drifts"]) == (0, "audit", [])


def test_what_cannot_be_told_ends_with_1_and_is_no_drift(rolled: RolloutSite) -> None:
    rolled.lab.cut("h1")
    try:
        ran, told = audit(rolled)
    finally:
        rolled.lab.join("h1")
    assert ran.code == told["exit"] == 1, ran.out
    assert [(d["check"], d["node"], d["kind"]) for d in told["drifts"]] == [("reachable", "h1", "unknown")]
    ran = rolled.pyinfra("audit.py", "--limit", "a1")
    assert ran.code == 0 and "No drift on 1 node" in ran.plain


def test_hardware_that_is_not_as_declared_is_drift(rolled: RolloutSite) -> None:
    rolled.lab.set("a1", faults=["gpu-lost:7"])
    rolled.lab.set("h1", recording="a100")
    try:
        ran, told = audit(rolled)
    finally:
        for name in ("a1", "h1"):
            rolled.lab.set(name, clear=True)
    found = {node: {d["check"] for d in told["drifts"] if d["node"] == node} for node in NODES}
    assert ran.code == 2 and "gpu-count" in found["a1"] and "gpu-model" in found["h1"] and not found["l1"], ran.out


def test_a_plan_that_was_edited_is_put_right_without_a_restart(rolled: RolloutSite) -> None:
    state = rolled.state("a1", "llm")
    rolled.on(
        "a1",
        "sed -i 's/4096/9999/' /var/lib/vllm-fleet/llm/current/plan.json; "
        "chmod 640 /etc/systemd/system/vllm-llm.service",
    )
    code, told = rolled.report()
    (row,) = [row for row in told["results"] if row["node"] == "a1"]
    assert (code, row["status"], row["release"]) == (0, "tidied", state["current"])
    assert rolled.state("a1", "llm") == state, "the same process"
    ran, told = audit(rolled)
    assert (ran.code, told["drifts"]) == (0, []), ran.out


def test_a_report_that_cannot_be_written_is_refused_before_the_look(rolled: RolloutSite, tmp_path: Path) -> None:
    for name in ("html", "report", "history"):
        ran = rolled.pyinfra("audit.py", "--data", f"{name}=/nowhere/at/all")
        assert ran.code == 1 and f"--data {name}: want a" in ran.plain and "Traceback" not in ran.out, ran.out
