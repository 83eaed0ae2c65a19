"""What the lab needs of this machine, such as root and packages, and how all that it did there is undone."""

import contextlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab import cgroup, naming, network

RUN = Path("/run/vllm-fleet-lab")
PACKAGES = {
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "ssh": "openssh-client",
}
INOTIFY_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")


class LabError(RuntimeError):
    """The lab cannot do what was asked; the message says why and what helps."""


def unfit() -> str | None:
    """Why this machine cannot run a lab, or None where it can."""
    if platform.system() != "Linux":
        return f"the lab boots systemd hosts and needs Linux; this is {platform.system()}"
    if os.geteuid() != 0:
        return "the lab makes network namespaces, mounts and cgroups and needs root; run it with sudo"
    return _no_namespaces() or _no_cgroups()


def _no_namespaces() -> str | None:
    tried = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, text=True)
    if tried.returncode:
        return (
            "the lab needs to make network and mount namespaces, and this machine refuses: "
            f"{tried.stderr.strip()}; in a container, run it privileged"
        )
    return None


def _no_cgroups() -> str | None:
    try:
        writable = os.access(cgroup.root().parent, os.W_OK)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"the lab needs a cgroup2 hierarchy, and this machine has none and refuses to mount one: {error}"
    return None if writable else f"{cgroup.root().parent} is read-only; in a container, run it privileged"


def require_fit() -> None:
    """LabError with the reason where this machine cannot run a lab."""
    reason = unfit()
    if reason:
        raise LabError(reason)


def ensure_packages(progress: Callable[[str], None] = lambda text: None) -> None:
    """Install what the lab runs on this machine; nothing happens where all of it is there."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise LabError(f"the lab needs {', '.join(missing)}; install them (this machine has no apt-get)")
    progress(f"installing {', '.join(missing)} on this machine")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", "-q", *command], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise LabError(f"apt-get {' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")


def make_room() -> None:
    """Raise the kernel's limit of inotify instances: each systemd takes several, and the default ends at ~15 hosts."""
    if int(INOTIFY_INSTANCES.read_text()) < 8192:
        INOTIFY_INSTANCES.write_text("8192")


def clean_everything(cache: bool = False) -> None:
    """End every lab of this machine, of any checkout: processes, cgroups, interfaces, mounts.

    `cache` removes the installed root file systems and the images as well.
    """
    require_fit()
    cgroup.end_all()
    network.remove_all()
    forget_machines()
    if RUN.exists():
        shutil.rmtree(RUN)
    if cache:
        _empty_cache()


def forget_machines(lab: str | None = None) -> None:
    """Remove what systemd-nspawn leaves of a host that was killed: an empty folder under its name."""
    wanted = naming.netns_pattern(lab)
    for path in Path("/run/systemd/nspawn/propagate").glob("*/"):
        if wanted.fullmatch(path.name):
            with contextlib.suppress(OSError):
                path.rmdir()


def _empty_cache() -> None:
    """Only what we put there: VLLM_FLEET_CACHE may name a folder that others use too."""
    for kind in ("rootfs", "images", "engine", "tiny-llama"):
        for path in (*cache_root().glob(f"{kind}-*"), *cache_root().glob(f".{kind}-*")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with contextlib.suppress(OSError):  # not there, or not empty
        cache_root().rmdir()


def cache_root() -> Path:
    """Where installed root file systems and images are kept: VLLM_FLEET_CACHE, or /var/cache/vllm-fleet."""
    folder = Path(os.environ.get("VLLM_FLEET_CACHE", "/var/cache/vllm-fleet")).absolute()
    if any(sign in str(folder) for sign in ":,\\"):
        raise LabError(f"VLLM_FLEET_CACHE: {folder} has ':', ',' or '\\', which an overlay mount cannot take")
    return folder


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Write beside and rename, so that a reader (a host that runs, say) sees the old or the new, never a part."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
        os.fchmod(file.fileno(), mode)
    os.replace(beside, path)
