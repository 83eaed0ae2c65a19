"""`fleet capture` on recorded nodes: a capture is a fleet that can be planned, judged and compared offline."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def run(program: str, *words: str | Path, fleet: str | Path = "recorded") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / program), *map(str, words)],
        cwd=PROJECT,
        env={**os.environ, "FLEET": str(fleet), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """inventory/recorded as a site of its own, to be written to."""
    fleet = tmp_path_factory.mktemp("site") / "inventory" / "prod"
    shutil.copytree(PROJECT / "inventory" / "recorded", fleet)
    return fleet


@pytest.fixture(scope="module")
def captured(site: Path) -> Path:
    folder = site.parent.parent / "captures" / "monday"
    ran = run("fleet", "capture", "--to", folder, fleet=site)
    assert ran.returncode == 0 and "3 nodes recorded" in ran.stdout, ran.stdout + ran.stderr
    return folder


def test_a_capture_runs_as_a_fleet_with_the_declaration_of_today(site: Path, captured: Path) -> None:
    assert sorted(path.name for path in captured.iterdir()) == ["a1.probe", "capture.yaml", "h1.probe", "l1.probe"]
    ran = run("pyinfra", "inventory.py", "deploy.py", "--dry", "--diff", fleet=captured)
    assert ran.returncode == 0 and "Plan: 3 to change" in ran.stdout, ran.stdout + ran.stderr
    changed = run("pyinfra", "inventory.py", "deploy.py", "--dry", "--data", "max_model_len=9999999", fleet=captured)
    assert changed.returncode == 1 and "max-model-len" in changed.stdout
    everyone = site / "group_data" / "all.yaml"
    text = everyone.read_text()
    everyone.write_text(text.replace("last_replica: take", "last_replica: nobody"))
    wrong = run("pyinfra", "inventory.py", "deploy.py", "--dry", fleet=captured)
    everyone.write_text(text)
    assert wrong.returncode == 1 and "last_replica: want" in wrong.stderr


def test_gates_and_audit_run_on_it(captured: Path) -> None:
    gates = run("pyinfra", "inventory.py", "gates.py", fleet=captured)
    assert gates.returncode == 0 and gates.stdout.count("passed everywhere") == 1, "one look, whatever hosts come"
    audit = run("pyinfra", "inventory.py", "audit.py", fleet=captured)
    assert audit.returncode == 2 and "found no release on a1/glm" in audit.stdout and "Traceback" not in audit.stderr


@pytest.mark.parametrize("kept", [0, 3000])
def test_a_recording_that_is_not_whole_is_told_with_its_file_and_not_as_a_node_that_is_down(
    captured: Path, tmp_path: Path, kept: int
) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(captured, cut)
    (cut / "capture.yaml").write_text(f"fleet: {captured.parent.parent / 'inventory' / 'prod'}\n")
    (cut / "h1.probe").write_bytes((captured / "h1.probe").read_bytes()[:kept])
    ran = run("pyinfra", "inventory.py", "gates.py", "--limit", "h1", fleet=cut)
    assert ran.returncode == 1 and f"reachable: want a whole recording in {cut / 'h1.probe'}, found" in ran.stdout, ran
    assert "SSH" not in ran.stdout


def test_what_was_not_recorded_is_an_error(captured: Path) -> None:
    ran = run("pyinfra", "inventory.py", "-vvv", "exec", "--", "uptime", fleet=captured)
    assert ran.returncode == 1 and "not recorded" in ran.stdout + ran.stderr
    (captured / "h1.probe").rename(captured / "h1.gone")
    try:
        ran = run("pyinfra", "inventory.py", "deploy.py", "--dry", fleet=captured)
    finally:
        (captured / "h1.gone").rename(captured / "h1.probe")
    assert ran.returncode == 1 and "reachable" in ran.stdout and "want a readable file" in ran.stdout + ran.stderr


def test_two_captures_are_compared(captured: Path, tmp_path: Path) -> None:
    later = tmp_path / "friday"
    shutil.copytree(captured, later)
    assert run("fleet", "capture", "diff", captured, later).returncode == 0
    probe = later / "a1.probe"
    probe.write_text(probe.read_text().replace("580.95.05", "610.10.01"))
    (later / "l1.probe").unlink()
    ran = run("fleet", "capture", "diff", captured, later)
    assert ran.returncode == 2 and "nvidia.driver: 580.95.05 -> 610.10.01" in ran.stdout, ran.stdout
    assert "is only in the earlier one" in ran.stdout and "2 of 3 nodes changed" in ran.stdout
    told = json.loads(run("fleet", "capture", "diff", captured, later, "--json").stdout)
    assert list(told["changed"]) == ["a1", "l1"]
    probe.write_text("nonsense")
    for words in ((captured, later), (captured, tmp_path / "nowhere")):
        ran = run("fleet", "capture", "diff", *words)
        assert ran.returncode == 1 and "Traceback" not in ran.stderr and "want a" in ran.stderr


def test_node_yaml_is_refreshed_and_keeps_the_owners_words(site: Path) -> None:
    path = site / "a1.yaml"
    before = path.read_text()
    path.write_text(
        before.replace("[[0, 1], [2, 3], [4, 5], [6, 7]]", "[[0, 1]]   # mine").replace("count: 8", "count: 7")
    )
    drifted = path.read_text().replace("numa: [0, 0, 0, 0, 1, 1, 1, 1]", "numa: [0, 0, 0, 0, 1, 1, 1]")
    path.write_text(drifted)
    to = site.parent.parent / "captures" / "refresh"
    ran = run("fleet", "capture", "--refresh", "--to", to, fleet=site)
    assert ran.returncode == 2 and "-nvlink_islands: [[0, 1]]   # mine" in ran.stdout and path.read_text() == drifted
    assert "add --yes" in ran.stdout
    ran = run("fleet", "capture", "--refresh", "--yes", "--to", to, fleet=site)
    after = path.read_text()
    assert ran.returncode == 0 and after == before.replace("[6, 7]]", "[6, 7]]   # mine"), ran.stdout
    ran = run("fleet", "capture", "--refresh", "--to", to, fleet=site)
    assert ran.returncode == 0 and "every NODE.yaml says what its node has" in ran.stdout
    path.write_text(before)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--node", "z9"), "--node: want one of a1, h1, l1, found z9"),
        (("--new", "a9=10.0.0.9"), "want both or neither"),
        (("--new", "a1=10.0.0.9", "--like", "a1"), "want a node that has no NODE.yaml"),
        (("--new", "a9", "--like", "a1"), "want NAME=ADDRESS"),
        (("--new", "a9=10.0.0.9", "--like", "z9"), "--like: want one of"),
        (("--to", str(PROJECT / "inventory" / "lab")), "want a folder that is new or a capture"),
        (("--to", "/proc/nowhere"), "want a folder that can be written"),
    ],
)
def test_wrong_calls_are_told_without_a_traceback(words: tuple[str, ...], said: str) -> None:
    ran = run("fleet", "capture", *words)
    assert ran.returncode == 1 and said in ran.stderr and "Traceback" not in ran.stderr, ran.stderr


def test_a_capture_of_a_fleet_that_is_gone_is_told(tmp_path: Path) -> None:
    for text in ("fleet: ../nowhere\n", "when: now\n", "fleet: [x]\n"):
        (tmp_path / "capture.yaml").write_text(text)
        ran = run("fleet", "status", fleet=tmp_path)
        assert ran.returncode == 1 and "capture.yaml" in ran.stderr and "Traceback" not in ran.stderr, ran.stderr
