"""`make demo` where no lab can be: the same plan, gates and difference of recorded nodes, and nothing is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from elsewhere import clone

NOBODY = ["unshare", "--user", "--map-user=65534", "--map-group=65534", "--"]
MAC = "import platform, sys; platform.system = lambda: 'Darwin'; from cli import demo; sys.exit(demo.main())"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone without .lab: no lab has ever run there."""
    return clone(tmp_path_factory.mktemp("offline") / "vllm-fleet")


def run(folder: Path, words: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    """Words in the clone, as somebody who is not root."""
    prefix = NOBODY if os.geteuid() == 0 else []
    environment = {**os.environ, "PYTHONPATH": str(folder), "CI": "", **env}
    return subprocess.run(
        [*prefix, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["make", "--assume-old=.venv/.complete", "demo"], "needs root"),
        ([sys.executable, "-c", MAC], "this is Darwin"),
    ],
    ids=["not-root", "not-linux"],
)
def test_without_a_lab_the_demo_plans_recorded_nodes(folder: Path, words: list[str], reason: str) -> None:
    ran = run(folder, words, FLEET="/srv/production")
    text = ran.stdout
    assert ran.returncode == 0, text
    assert reason in text
    assert "FLEET=recorded .venv/bin/pyinfra inventory.py deploy.py --dry --diff" in text
    assert "Plan: 3 to change, 0 as declared" in text
    assert "fail" not in text
    assert "+++ /etc/systemd/system/vllm-glm.service" in text
    assert '+VLLM_PP_LAYER_PARTITION="42,36"' in text
    assert "Nothing was started" in text
    assert not (folder / ".lab").exists()


def test_a_recorded_node_cannot_be_changed(folder: Path) -> None:
    ran = run(folder, [".venv/bin/pyinfra", "inventory.py", "deploy.py", "-y"], FLEET="recorded")
    assert ran.returncode == 1, ran.stdout
    assert "a recorded node can be planned, not changed" in ran.stdout


def test_a_fact_of_its_own_is_read_from_a_recording(folder: Path) -> None:
    words = [".venv/bin/pyinfra", "inventory.py", "fact", "facts.topology.Topology"]
    ran = run(folder, words, FLEET="recorded")
    assert ran.returncode == 0, ran.stdout
    assert '"GPU1 NV4  X    NODE NODE SYS  SYS  SYS  SYS"' in ran.stdout
