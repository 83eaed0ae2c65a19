"""The stand-in's container image, built from a folder: no registry is needed.

`build` makes the root filesystem from a Debian root filesystem that has the package `python3-minimal` (trixie or
later); only what the engine loads is taken. `archive` writes it as an OCI image for `podman load`, byte for byte the
same from the same inputs, so that every node of a lab has the image under the same digest. `changes` gives
the same configuration for `podman import --change`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PACKAGE = "python3-minimal"
HOME = "usr/local/lib/vllm-standin"
ENGINE = (
    "__init__",
    "answers",
    "api",
    "arguments",
    "completions",
    "engine",
    "faults",
    "hosts",
    "knowledge",
    "metrics",
    "model",
    "pool",
    "responses",
    "server",
    "startup",
)
PATH = "/usr/local/bin:/usr/bin:/bin"
CUDA = "13.0.1"
"""The CUDA that an engine of this age is built for; the stand-in needs none."""

LAUNCHER = """#!/usr/bin/python3 -ISB
import os
import sys

os.environ.setdefault("VLLM_STANDIN_VERSION", "{version}")
sys.path.insert(0, "/{home}")
from standin.engine import main

sys.exit(main(sys.argv[1:]))
"""

OS_RELEASE = """NAME="vllm-standin"
ID=vllm-standin
PRETTY_NAME="vllm-standin {version}: a stand-in for vLLM, not vLLM"
VERSION_ID="{version}"
"""

# loaded on demand, so importing the engine does not show them
ON_DEMAND = ("encodings.idna", "encodings.latin_1", "encodings.ascii", "traceback", "site", "runpy", "stringprep")


class ImageError(Exception):
    """The image cannot be built; the text says what was wanted, what was found and what to do."""


def build(rootfs: Path, into: Path, version: str) -> Path:
    """Makes the image's folder tree at `into` (which must not exist or be empty) and gives it back.

    Raises ImageError where `rootfs` lacks python3-minimal or `into` is taken. The stdlib is compiled ahead, because
    sixty first starts would otherwise compile it sixty times.
    """
    python = _interpreter(rootfs)
    if into.exists() and any(into.iterdir()):
        raise ImageError(f"{into}: wanted an empty or absent folder, found files; remove it first")
    _skeleton(into, version)
    _copy_engine(into)
    _copy(rootfs, into, python)
    (into / "usr/bin/python3").symlink_to(python.name)
    _copy(rootfs, into, Path("usr/bin/dash"))  # podman's health commands and operators want a shell
    (into / "usr/bin/sh").symlink_to("dash")
    for path in _libraries(rootfs, python) | _libraries(rootfs, Path("usr/bin/dash")):
        _copy(rootfs, into, path)
    for path in _modules(rootfs, into, python):
        _copy(rootfs, into, path)
    (into / "usr/lib" / python.name / "lib-dynload").mkdir()  # the interpreter warns where it is missing
    _compile(rootfs, into, python)
    return into


def _interpreter(rootfs: Path) -> Path:
    """usr/bin/python3.N of a root filesystem, relative to it."""
    found = sorted((rootfs / "usr/bin").glob("python3.[0-9]*[0-9]"), key=lambda path: int(path.name[8:]))
    if not found:
        raise ImageError(
            f"{rootfs}: wanted usr/bin/python3.N, found none; put the package {PACKAGE} into that root filesystem"
        )
    return found[-1].relative_to(rootfs)


def _skeleton(into: Path, version: str) -> None:
    for folder in ("etc", "tmp", "usr/bin", "usr/lib", "usr/lib64", "usr/local/bin", HOME + "/standin"):
        (into / folder).mkdir(parents=True, exist_ok=True)
    (into / "tmp").chmod(0o1777)
    for name in ("bin", "lib", "lib64"):
        (into / name).symlink_to(f"usr/{name}")
    (into / "etc/os-release").write_text(OS_RELEASE.format(version=version))
    (into / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (into / "etc/group").write_text("root:x:0:\n")
    launcher = into / "usr/local/bin/vllm"
    launcher.write_text(LAUNCHER.format(version=version, home=HOME))
    launcher.chmod(0o755)


def _copy_engine(into: Path) -> None:
    for name in ENGINE:
        shutil.copyfile(Path(__file__).with_name(f"{name}.py"), into / HOME / "standin" / f"{name}.py")


def _copy(rootfs: Path, into: Path, path: Path) -> None:
    """Copies one file by its path in the root filesystem; links are followed, so the image has plain files."""
    target = into / path
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(rootfs / path, target)
    target.chmod(0o755 if os.access(rootfs / path, os.X_OK) else 0o644)


def _loader(rootfs: Path) -> Path:
    """The dynamic loader of the root filesystem: with it its programs run here, without chroot and without root."""
    found = sorted(rootfs.glob("usr/lib64/ld-linux-*")) or sorted(rootfs.glob("usr/lib/ld-linux-*"))
    if not found:
        raise ImageError(f"{rootfs}: wanted usr/lib*/ld-linux-*, found none; is it a Debian root filesystem?")
    return found[0]


def _run(rootfs: Path, program: Path, *arguments: str, environ: dict[str, str] | None = None) -> str:
    """Runs a program of the root filesystem on its own loader and libraries, and gives what it printed."""
    folders = ":".join(str(folder) for folder in sorted(rootfs.glob("usr/lib/*-linux-gnu*")))
    command = [str(_loader(rootfs)), "--library-path", folders, str(rootfs / program), *arguments]
    done = subprocess.run(command, env=environ or {}, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise ImageError(f"{program} of {rootfs} exited with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def _libraries(rootfs: Path, program: Path) -> set[Path]:
    """Shared libraries a program is linked with, the loader included, relative to the root filesystem."""
    folders = ":".join(str(folder) for folder in sorted(rootfs.glob("usr/lib/*-linux-gnu*")))
    command = [str(_loader(rootfs)), "--library-path", folders, "--list", str(rootfs / program)]
    done = subprocess.run(command, env={}, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise ImageError(f"{program} of {rootfs}: its libraries cannot be listed: {done.stderr.strip()}")
    paths = {_loader(rootfs).relative_to(rootfs)}
    for line in done.stdout.splitlines():
        _, arrow, found = line.partition(" => ")
        if arrow and found.startswith(str(rootfs)):
            paths.add(Path(found.split(" (")[0]).relative_to(rootfs))
    return paths


def _modules(rootfs: Path, into: Path, python: Path) -> set[Path]:
    """Files of the standard library that the engine loads, found by loading it."""
    script = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "for module in list(sys.modules.values()):\n"
        "    if getattr(module, '__file__', None): print(module.__file__)\n"
    )
    names = [f"standin.{name}" for name in ENGINE if name != "__init__"]
    environ = {"PYTHONHOME": str(rootfs / "usr"), "PYTHONPATH": str(into / HOME)}
    printed = _run(rootfs, python, "-SB", "-c", script, *names, *ON_DEMAND, environ=environ)
    stdlib = rootfs / "usr/lib" / python.name
    found = {Path(line) for line in printed.splitlines() if line.startswith(str(stdlib))}
    needed = {path for path in found if "lib-dynload" not in path.parts}  # only OpenSSL's are there
    if not needed:
        raise ImageError(f"{stdlib}: no module of the standard library was loaded; is {PACKAGE} complete?")
    return {path.relative_to(rootfs) for path in needed | {stdlib / "os.py"}}


def _compile(rootfs: Path, into: Path, python: Path) -> None:
    """Compiles ahead, unchecked: nobody edits an image, and file times may change on the way."""
    environ = {"PYTHONHOME": str(rootfs / "usr")}
    options = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(into), "-p", "/")
    for folder in (into / "usr/lib" / python.name, into / HOME):
        _run(rootfs, python, "-SB", *options, str(folder), environ=environ)


def labels(version: str) -> dict[str, str]:
    """Labels that say what the image is; `version` is the engine version it stands in for."""
    return {"org.vllm-fleet.engine": version, "org.vllm-fleet.standin": "true"}


def changes(version: str) -> list[str]:
    """The image's configuration as arguments of `podman import --change`."""
    described = [f"LABEL {name}={value}" for name, value in labels(version).items()]
    return ['ENTRYPOINT ["vllm"]', f"ENV PATH={PATH}", f"ENV CUDA_VERSION={CUDA}", "EXPOSE 8000", *described]
