"""A site whose one service has a checkpoint that must be delivered."""

import json
import math
import random
import subprocess
from pathlib import Path
from typing import Any

import yaml
from rollout_site import BIN, PROJECT, Ran, RolloutSite

TARGET = "/srv/models/delivered"
CONFIG = PROJECT / "lab/models/llama-70b/config.json"
MIB = 1 << 20


HIDDEN, HEAD, FEED, VOCAB = 128, 64, 256, 512
SMALL = {
    "hidden_size": HIDDEN,
    "intermediate_size": FEED,
    "num_attention_heads": HIDDEN // HEAD,
    "num_key_value_heads": HIDDEN // HEAD,
    "head_dim": HEAD,
    "vocab_size": VOCAB,
}


def make_checkpoint(folder: Path, seed: int = 1, shards: int = 4, mib: int = 6) -> Path:
    """A small folder as a checkpoint is: config.json, a shard of noise for each layer, and a name with a space."""
    folder.mkdir(parents=True)
    noise = random.Random(seed)
    config = json.loads(CONFIG.read_text()) | SMALL | {"num_hidden_layers": shards}
    (folder / "config.json").write_text(json.dumps(config))
    for number in range(shards):
        shapes = layer(number) | (ENDS if number == 0 else {})
        (folder / f"model-{number}.safetensors").write_bytes(shard(noise, mib * MIB + number, shapes))
    (folder / "extra").mkdir()
    (folder / "extra" / "a note.txt").write_text(f"{seed}\n")
    return folder


ENDS = {
    "model.embed_tokens.weight": [VOCAB, HIDDEN],
    "model.norm.weight": [HIDDEN],
    "lm_head.weight": [VOCAB, HIDDEN],
}


def layer(number: int) -> dict[str, list[int]]:
    """The shapes of a layer's tensors, BF16."""
    at = f"model.layers.{number}"
    return {
        **{f"{at}.self_attn.{name}_proj.weight": [HIDDEN, HIDDEN] for name in "qkvo"},
        **{f"{at}.mlp.{name}_proj.weight": [FEED, HIDDEN] for name in ("gate", "up")},
        f"{at}.mlp.down_proj.weight": [HIDDEN, FEED],
        **{f"{at}.{name}_layernorm.weight": [HIDDEN] for name in ("input", "post_attention")},
    }


def shard(noise: random.Random, size: int, shapes: dict[str, list[int]]) -> bytes:
    """A safetensors file of exactly this size: these tensors, and one that fills it."""
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    rest = size - 8 - 4096
    header["filler"] = {"dtype": "U8", "shape": [rest - at], "data_offsets": [at, rest]}
    text = json.dumps(header).encode().ljust(4096)
    return len(text).to_bytes(8, "little") + text + noise.randbytes(rest)


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

    def tidy(self) -> None:
        """Nothing of a delivery is on any node, whoever was there before."""
        left = "/srv/models/.[a-z]* /srv/models/deliv* /srv/models/next /srv/models/copy /var/lib/vllm-fleet/.delivery"
        for node in self.site.nodes:
            self.site.on(node, f"systemctl stop vllm-fleet-delivery 2>/dev/null; rm -rf {left}")

    def listing(self) -> dict[str, str]:
        """Everything where deliveries write, with times."""
        script = "find /srv/models /var/lib/vllm-fleet -printf '%p %m %s %T@ %C@ %i\\n' | sort"
        return {node: self.site.on(node, script) for node in self.site.nodes}
