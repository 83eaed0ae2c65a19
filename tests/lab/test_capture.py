"""A rolled fleet is captured and replayed: the replay knows what runs, needs no secret, and holds none."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from conftest import fresh_site
from rollout_site import RolloutSite

from lab.lab import Lab

pytestmark = pytest.mark.lab
SECRET = "a-secret-key-of-the-test"


@pytest.fixture(scope="module")
def rolled(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolloutSite]:
    """Two nodes with a service that has a secret."""
    with fresh_site(lab, tmp_path_factory.mktemp("site"), nodes=("a1", "h1")) as site:
        (site.root / "key").write_text(SECRET)
        site.write(llm=site.service(numa_bind=False, secrets={"VLLM_API_KEY": {"file": str(site.root / "key")}}))
        ran = site.deploy()
        assert ran.code == 0, ran.out
        yield site


@pytest.fixture(scope="module")
def captured(rolled: RolloutSite) -> Path:
    folder = rolled.root / "captured"
    ran = rolled.fleet_command("capture", "--to", str(folder))
    assert ran.code == 0 and "2 nodes recorded" in ran.plain, ran.out
    return folder


def test_no_secret_is_in_it_in_any_form(captured: Path) -> None:
    for path in captured.iterdir():
        text = path.read_text()
        decoded = [base64.b64decode(word) for word in re.findall(r"^(?:[A-Za-z0-9+/]{4})+", text, re.MULTILINE)]
        assert SECRET not in text and not any(SECRET.encode() in content for content in decoded)


def test_the_replay_knows_what_runs_and_needs_no_secret(rolled: RolloutSite, captured: Path) -> None:
    key = rolled.root / "key"
    key.rename(rolled.root / "gone")
    try:
        dry = rolled.pyinfra("deploy.py", "--dry", FLEET=str(captured))
        audit = rolled.pyinfra("audit.py", FLEET=str(captured))
        change = rolled.pyinfra("deploy.py", "--dry", "--diff", "--data", "max_model_len=2048", FLEET=str(captured))
        gates = rolled.pyinfra("gates.py", FLEET=str(captured))
    finally:
        (rolled.root / "gone").rename(key)
    assert dry.code == 0 and "Plan: 0 to change, 2 as declared" in dry.plain, dry.out
    assert audit.code == 0 and "No drift on 2 nodes" in audit.plain, audit.out
    assert change.code == 0 and "flag --max-model-len: 4096 -> 2048" in change.plain, change.out
    assert gates.code == 0, gates.out


def test_a_later_capture_tells_what_changed_on_which_node(rolled: RolloutSite, captured: Path) -> None:
    rolled.lab.set("h1", faults=["nvlink-missing:0-1"])
    rolled.on("a1", "sed -i 's/^RestartSec=.*/RestartSec=1/' /etc/systemd/system/vllm-llm.service")
    later = rolled.root / "later"
    try:
        assert rolled.fleet_command("capture", "--to", str(later)).code == 0
    finally:
        rolled.lab.set("h1", clear=True)
        rolled.on("a1", "sed -i 's/^RestartSec=.*/RestartSec=10/' /etc/systemd/system/vllm-llm.service")
    ran = rolled.fleet_command("capture", "diff", str(captured), str(later))
    assert ran.code == 2 and "+RestartSec=1" in ran.out and "2 of 2 nodes changed" in ran.plain, ran.out
    assert "topology.links" in ran.plain


def test_a_node_that_is_down_is_named_and_the_others_are_recorded(rolled: RolloutSite) -> None:
    folder = rolled.root / "partly"
    rolled.lab.cut("h1")
    try:
        ran = rolled.fleet_command("capture", "--to", str(folder))
    finally:
        rolled.lab.join("h1")
    assert ran.code == 1 and "h1: no connection" in ran.plain and (folder / "a1.probe").exists(), ran.out


def test_node_yaml_of_a_new_node_is_written_like_that_of_another(rolled: RolloutSite) -> None:
    address = yaml.safe_load((rolled.fleet / "h1.yaml").read_text())["address"]
    (rolled.fleet / "h1.yaml").rename(rolled.root / "h1.yaml")
    try:
        words = ("capture", "--new", f"h9={address}", "--like", "a1")
        shown = rolled.fleet_command(*words)
        there = (rolled.fleet / "h9.yaml").exists()
        ran = rolled.fleet_command(*words, "--yes")
        assert (shown.code, there, ran.code) == (2, False, 0), shown.out + ran.out
        written = yaml.safe_load((rolled.fleet / "h9.yaml").read_text())
        (rolled.fleet / "h9.yaml").unlink()
    finally:
        (rolled.root / "h1.yaml").rename(rolled.fleet / "h1.yaml")
    assert written["address"] == address and written["gpus"]["model"] == "NVIDIA H100 80GB HBM3"
    assert written["nvlink_islands"] == [list(range(8))] and written["groups"] == ["lab"]


def test_a_single_fact_has_an_exit_code(rolled: RolloutSite) -> None:
    told = rolled.fleet_command("facts", "Topology")
    assert told.code == 0 and "GPU0 X NV4 NODE" in told.plain, told.out
    rolled.lab.set("a1", faults=["driver-gone"])
    try:
        ran = rolled.fleet_command("facts", "Topology", "a1")
    finally:
        rolled.lab.set("a1", clear=True)
    assert ran.code == 1 and "error:" in ran.plain, ran.out
