"""The site that the bench rolls out: every host of its lab, one service, in two policies; and its rendered releases."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from lab.lab import Lab

PROJECT = Path(__file__).resolve().parent.parent
SERVICE = "standin"
MODEL = "/srv/models/llama-70b"
CHANGED = {"max_model_len": "8192"}
"""What the dry run finds changed in the declaration, as `--data`."""
POLICIES: dict[str, dict[str, Any]] = {
    "bare": {"batches": ["100%"], "proof": []},
    "default": {},
}
"""`bare`: all hosts in one batch, proven by /health alone, which is all that the others do. `default`: what a site has
that says nothing: one host, then quarters, each proven by a real completion."""


class BenchSite:
    """The folders of a site on a lab's hosts: `fleet(policy)` is what FLEET names."""

    def __init__(self, lab: Lab, root: Path) -> None:
        self.lab = lab
        self.root = root

    def fleet(self, policy: str) -> Path:
        """The folder of the nodes under one of POLICIES."""
        return self.root / policy

    def rendered(self, which: str) -> Path:
        """Folder with NODE/unit and NODE/env, as the product renders them `now` or, with CHANGED, `next`."""
        return self.root / "rendered" / which

    def write(self) -> None:
        """Declare the service under each policy."""
        for name, policy in POLICIES.items():
            self.lab.write_inventory(self.fleet(name))
            data = self.fleet(name) / "group_data"
            data.mkdir(exist_ok=True)
            (data / "all.yaml").write_text(yaml.safe_dump(self._declared(policy)))

    def image(self) -> dict[str, str]:
        """The stand-in's image, as a service names it."""
        digest = (self.lab.folder / "image-0.30.0.digest").read_text().strip()
        return {"name": "localhost/vllm-standin", "digest": digest, "engine": "0.30.0"}

    def _declared(self, policy: dict[str, Any]) -> dict[str, Any]:
        service: dict[str, Any] = {
            "model": MODEL,
            "image": self.image(),
            "layout": {"tp": 1},
            "max_model_len": 4096,
            "port": 8000,
        }
        if "proof" in policy:
            service["policy"] = {"proof": policy["proof"]}
        rollout: dict[str, Any] = {"min_free_gib": 0.1}  # a lab host's disk has 2 GiB
        if "batches" in policy:
            rollout["batches"] = policy["batches"]
        return {"rollout": rollout, "services": {SERVICE: service}}

    def render(self) -> None:
        """Let the product render the releases of every host, by asking the hosts; in a process of its own."""
        for which, changes in (("now", {}), ("next", CHANGED)):
            words = [f"{name}={value}" for name, value in changes.items()]
            subprocess.run(
                [sys.executable, "-m", "bench.render", str(self.fleet("bare")), str(self.rendered(which)), *words],
                cwd=PROJECT,
                check=True,
                stdout=subprocess.DEVNULL,
                env=dict(os.environ),
            )

    def access(self) -> dict[str, str]:
        """The controller's key and the known hosts."""
        return {name: str(self.lab.folder / file) for name, file in _ACCESS.items()}

    def gpu_counts(self) -> dict[str, int]:
        """GPUs of each node, as declared."""
        files = sorted(self.fleet("bare").glob("*.yaml"))
        return {path.stem: yaml.safe_load(path.read_text())["gpus"]["count"] for path in files}


_ACCESS = {"key": "id_ed25519", "known_hosts": "known_hosts"}


def write_json(path: Path, document: Any) -> None:
    """A document for machines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
