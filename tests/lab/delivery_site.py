"""A site whose one service has a checkpoint that must be delivered."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import yaml
from rollout_site import BIN, PROJECT, Ran, RolloutSite

TARGET = "/srv/models/delivered"
CONFIG = PROJECT / "lab/models/llama-70b/config.json"
MIB = 1 << 20


def make_checkpoint(folder: Path, seed: int = 1, shards: int = 4, mib: int = 6) -> Path:
    """A small folder as a checkpoint is: config.json, shards of noise, and a name with a space."""
    folder.mkdir(parents=True)
    noise = random.Random(seed)
    (folder / "config.json").write_bytes(CONFIG.read_bytes())
    for number in range(shards):
        (folder / f"model-{number}.safetensors").write_bytes(shard(noise, mib * MIB + number))
    (folder / "extra").mkdir()
    (folder / "extra" / "a note.txt").write_text(f"{seed}\n")
    return folder


def shard(noise: random.Random, size: int) -> bytes:
    """A safetensors file of exactly this size with one tensor of noise."""
    weights = size - 8 - 256
    tensor = {"model.layers.0.mlp.up_proj.weight": {"dtype": "U8", "shape": [weights], "data_offsets": [0, weights]}}
    header = json.dumps(tensor).encode().ljust(256)
    return len(header).to_bytes(8, "little") + header + noise.randbytes(weights)


class DeliverySite:
    """Wraps a site: its checkpoint's source on this machine, the manifest, and deliver.py."""

    def __init__(self, site: RolloutSite, **size: int) -> None:
        self.site = site
        self.source = make_checkpoint(site.root / "source", **size)
        self.manifests = 0

    def manifest(self, folder: Path) -> str:
        """A manifest of this folder, as an owner makes it."""
        self.manifests += 1
        path = self.site.root / f"{self.manifests}.manifest"
        subprocess.run([BIN / "fleet", "manifest", folder, "-o", path], check=True, capture_output=True)
        return str(path)

    def service(self, source: Path | None = None, **origin: Any) -> dict[str, Any]:
        """A service of this checkpoint."""
        checkpoint = {"manifest": self.manifest(source or self.source), **origin}
        return self.site.service(model=TARGET, checkpoint=checkpoint, policy={"mixed": ["gpus"]})

    def declare(self, source: Path | None = None, delivery: dict[str, Any] | None = None, **origin: Any) -> None:
        """Declare it for all nodes."""
        self.site.write(m=self.service(source, **origin))
        path = self.site.fleet / "group_data/all.yaml"
        declared = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(declared | {"delivery": {"bundle_mib": 1, **(delivery or {})}}))

    def run(self, *words: str, timeout: float = 240, **env: str) -> Ran:
        """A delivery, `-y`."""
        return self.site.pyinfra("deliver.py", "-y", *words, timeout=timeout, XDG_CACHE_HOME=str(self.site.root), **env)

    def report(self, *words: str, timeout: float = 240) -> tuple[int, dict[str, Any]]:
        """A delivery's exit code and its JSON report."""
        path = self.site.root / "delivery.json"
        path.unlink(missing_ok=True)
        ran = self.run("--data", f"report={path}", *words, timeout=timeout)
        assert path.exists(), ran.out
        return ran.code, json.loads(path.read_text())

    def listing(self) -> dict[str, str]:
        """Everything where deliveries write, with times."""
        script = "find /srv/models /var/lib/vllm-fleet -printf '%p %m %s %T@ %C@ %i\\n' | sort"
        return {node: self.site.on(node, script) for node in self.site.nodes}
