"""One cgroup a lab host, so that a host, whatever it started, is ended by one write to the kernel.

A host's folder has two children: `keeper` with the process that boots it, and `host` with systemd-nspawn and the
host itself; killing `host` is a power cut, killing the folder ends the host for good.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

BASE = "vllm-fleet-lab"
OWN_HIERARCHY = Path("/run/vllm-fleet-cgroup2")


def hierarchies() -> list[tuple[str, Path]]:
    """Kind (`cgroup` or `cgroup2`) and mount point of every cgroup hierarchy of this machine."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [(kind, Path(point)) for _, point, kind, *_ in mounts if kind in ("cgroup", "cgroup2")]


def root() -> Path:
    """The folder of all labs in the version 2 hierarchy, which is mounted where the machine has not done so."""
    for kind, point in hierarchies():
        if kind == "cgroup2":
            return point / BASE
    OWN_HIERARCHY.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "cgroup2", "none", str(OWN_HIERARCHY)], check=True)
    return OWN_HIERARCHY / BASE


def of_node(lab: str, node: str) -> Path:
    """The folder of one host."""
    return root() / lab / node


def create(lab: str, node: str) -> Path:
    """Make the folder of a host, with every controller that the machine lets us pass on."""
    folder = of_node(lab, node)
    for child in ("keeper", "host"):
        _make(folder / child)
    for level in (root().parent, root(), root() / lab, folder):
        _pass_controllers(level)
    return folder


def _make(folder: Path) -> None:
    for _ in range(20):
        with contextlib.suppress(FileNotFoundError):  # another lab that ends may remove `root()` meanwhile
            folder.mkdir(parents=True, exist_ok=True)
            return
    raise OSError(f"{folder} cannot be made")


def _pass_controllers(level: Path) -> None:
    wanted = {"cpu", "memory", "pids", "cpuset"}
    for controller in wanted & set((level / "cgroup.controllers").read_text().split()):
        try:
            (level / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            continue  # held by a version 1 hierarchy or by the machine's own systemd: hosts run without it


def populated(folder: Path) -> bool:
    """Whether a process lives in this cgroup or below it."""
    try:
        return "populated 1" in (folder / "cgroup.events").read_text()
    except FileNotFoundError:
        return False


def end(folder: Path, patience_s: float = 20.0) -> None:
    """Kill what lives in a folder of `root()` and remove it; TimeoutError where something stays."""
    kill(folder, patience_s)
    relative = folder.relative_to(root())
    for _, point in hierarchies():
        _remove(point / BASE / relative)


def kill(folder: Path, patience_s: float = 20.0) -> None:
    """SIGKILL for everything in the folder and below, and wait until it is gone."""
    if not folder.is_dir():
        return
    (folder / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + patience_s
    while populated(folder):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{folder}: processes still live {patience_s} s after SIGKILL")
        time.sleep(0.01)


def remove_unused() -> None:
    """Remove the folder of all labs where no lab is left in it."""
    for _, point in hierarchies():
        with contextlib.suppress(OSError):  # not there, or another lab runs
            (point / BASE).rmdir()


def end_all() -> None:
    """End everything that any lab runs."""
    top = root()
    end(top)
    for _, point in hierarchies():
        _remove(point / BASE)
    if OWN_HIERARCHY.is_mount():
        subprocess.run(["umount", str(OWN_HIERARCHY)], check=True)
        OWN_HIERARCHY.rmdir()


def _remove(folder: Path) -> None:
    """Remove a cgroup with its children, which only `rmdir` can do."""
    for path in _depth_first(folder):
        path.rmdir()


def _depth_first(folder: Path) -> Iterator[Path]:
    for path, _, _ in os.walk(folder, topdown=False):
        yield Path(path)
