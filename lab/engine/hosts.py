"""What a lab host gets for a real engine, and how a service of it is declared."""

import ctypes.util
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lab import host, rootfs
from lab.engine import image, tiny, venv

KINDS = ("vllm-cpu",)
MODEL = "/srv/models/tiny-llama"
ENV = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
"""1 GiB for KV on each rank, and no pinning of cores that other hosts of the lab need too."""
FLAGS: dict[str, Any] = {"--compilation-config": {"mode": 2, "backend": "eager"}, "--dtype": "bfloat16"}
"""Without them a start takes 300 s instead of 60."""


class Engine(NamedTuple):
    """A real engine that hosts can run: the interpreter of its environment, and the model beside it."""

    version: str
    python: Path
    model: Path

    @property
    def binds(self) -> tuple[str, ...]:
        """SOURCE:TARGET of what a host sees of this machine, read-only."""
        seen = {f"{image.ON_HOST}/{name}": folder for name, folder in image.folders(self.python).items()}
        return tuple(f"{source}:{target}" for target, source in {**seen, MODEL: self.model}.items())


def ensure(kind: str, progress: Callable[[str], None]) -> Engine:
    """The engine of that kind, installed where the cache has none. LabError where this machine cannot run it."""
    if kind not in KINDS:
        raise host.LabError(f"engine: wanted one of {', '.join(KINDS)}, found {kind!r}")
    reason = venv.unfit() or _lacking()
    if reason:
        raise host.LabError(reason)
    python = venv.ensure(venv.DEFAULT, progress)
    source = hashlib.sha256(Path(tiny.__file__).read_bytes()).hexdigest()[:12]
    model = host.cache_root() / f"tiny-llama-{source}"
    if not model.is_dir():
        with rootfs.building(model, progress) as beside:
            if beside is not None:
                beside.rmdir()
                tiny.write(beside)
    return Engine(version=venv.DEFAULT, python=python, model=model)


def _lacking() -> str | None:
    if ctypes.util.find_library("numa"):
        return None
    return "vllm-cpu needs libnuma, and this machine has none; apt-get install libnuma1"


def service(digest: str, python: Path, **settings: Any) -> dict[str, Any]:
    """A service of the tiny model, as group data declares it; `settings` are laid over it."""
    own: dict[str, Any] = {
        "model": MODEL,
        "image": {"name": image.NAME, "digest": digest, "engine": venv.DEFAULT, "packages": image.PACKAGES},
        "layout": {"tp": 1},
        "max_model_len": 1024,
        "flags": FLAGS,
        "env": ENV,
        "numa_bind": False,
        "shm_gib": 1,
        "mounts": image.mounts(python),
        "policy": {
            "start_budget_s": 900,
            "stop_grace_s": 5,
            "proof": ["completion"],  # what a tiny random model says at temperature 0.8 is degenerate
            "proof_s": 60,
            "drain_s": 5,
            "last_replica": "take",
        },
    }
    return {**own, **settings}
