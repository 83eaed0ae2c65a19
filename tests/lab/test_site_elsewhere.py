"""A site keeps its inventory, group data and probes in a repository of its own; a rollout writes into no checkout."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from rollout_site import BIN, PROJECT, RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab
PROBE = """
from probes.evidence import Endpoint, Evidence, Limits


def probe(endpoint: Endpoint, limits: Limits) -> Evidence:
    said = f"greeted {endpoint.model}"
    return Evidence(probe="site-greeting", passed=True, wanted="a greeting", found=said, seconds=0)
"""
NOT_PART = shutil.ignore_patterns(".*", "__pycache__", "bench")


def contents(folder: Path) -> dict[str, str]:
    """Path -> digest of every file, without what Python caches."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def repository(site: RolloutSite, tmp_path: Path) -> Path:
    """As docs/site.md describes it: nodes under inventory/, group data and probes beside it, relative paths."""
    root = tmp_path / "my-site"
    for folder in ("inventory/prod", "group_data", "probes", "access"):
        (root / folder).mkdir(parents=True)
    for name in ("id_ed25519", "known_hosts"):
        shutil.copy(site.lab.folder / name, root / "access" / name)
    access = {"user": "root", "key": "../../access/id_ed25519", "known_hosts": "../../access/known_hosts"}
    for node in site.nodes:
        declared = yaml.safe_load((site.fleet / f"{node}.yaml").read_text()) | {"groups": ["lab"], "ssh": access}
        (root / "inventory/prod" / f"{node}.yaml").write_text(yaml.safe_dump(declared))
    service = site.service(policy={"proof": ["completion", "site-greeting"]})
    (root / "group_data/all.yaml").write_text(yaml.safe_dump({"rollout": {"min_free_gib": 0.1}}))
    (root / "group_data/lab.yaml").write_text(yaml.safe_dump({"services": {"chat": service}}))
    (root / "probes/site-greeting.py").write_text(PROBE)
    return root


def test_a_rollout_of_a_site_elsewhere_leaves_checkout_and_site_untouched(
    site: RolloutSite, repository: Path, tmp_path: Path
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(PROJECT, checkout, symlinks=True, ignore=NOT_PART)
    before = {folder: contents(folder) for folder in (checkout, repository)}
    for words in (("--dry", "--diff"), ("-y",), ("-y",)):
        ran = subprocess.run(
            [str(BIN / "pyinfra"), "inventory.py", "deploy.py", *words],
            cwd=checkout,
            env=site.environment(FLEET=str(repository / "inventory/prod")),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Nothing to change" in ran.stdout
    assert {folder: contents(folder) for folder in (checkout, repository)} == before
    for node in site.nodes:
        state = site.state(node, "chat")
        assert state["proven"] == state["current"] != ""
        proof = site.on(node, f"cat {STATE}/chat/current/proof.json")
        assert "greeted chat" in proof, "the site's own probe is part of the proof"
