"""The root file system that every lab host boots from: Debian by debootstrap, installed once, kept in a cache.

A recipe is plain data and its hash names the folder, so that a changed recipe is a new folder. It is built beside and
renamed at the end: a folder that exists is complete. What the lab itself adds (see layer.py) is not part of it.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lab import host

SUITE = "trixie"  # systemd 257, podman 5.4
KEYRING = Path(__file__).parent / "debian-trixie.gpg"  # its archive's key: that of Ubuntu 22.04's keyring is too old
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "openssh-server", "iproute2", "procps", "kmod", "curl", "numactl"),
    *("podman", "crun", "conmon", "netavark", "aardvark-dns", "catatonit"),
    *("rsync",),  # what deliver.py moves bytes with
    *("python3",),  # the stand-in engine's image takes it from here; nothing of ours asks a node for it
)
REMOVED = (
    *("etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/lib/dbus/machine-id", "var/log/journal"),
    *("etc/ssh/ssh_host_*", "var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "etc/motd", "etc/update-motd.d/*"),
)


class System(NamedTuple):
    """A system that hosts can have besides: as bare as an installer leaves it, for bootstrap.py to be tried on."""

    suite: str
    keyring: Path


DEFAULT = "debian-13"
SYSTEMS = {"debian-12": System("bookworm", Path("/usr/share/keyrings/debian-archive-keyring.gpg"))}
BARE_PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "openssh-server", "iproute2", "procps", "kmod", "python3"),
    *("ca-certificates", "unattended-upgrades", "systemd-timesyncd"),
)
FORMAT = 1  # raise it where the code below changes what it makes


def digest(system: str = DEFAULT) -> str:
    """Names the recipe, 12 hexadecimal digits."""
    recipe: list[object] = [FORMAT, SUITE, platform.machine(), PACKAGES, REMOVED]
    if system != DEFAULT:
        recipe = [FORMAT, platform.machine(), BARE_PACKAGES, REMOVED, [str(word) for word in SYSTEMS[system]]]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]


def ensure(progress: Callable[[str], None], system: str = DEFAULT) -> Path:
    """The installed root file system; it is built where the cache has none, which takes about a minute."""
    if system != DEFAULT and system not in SYSTEMS:
        raise host.LabError(f"system: want one of {', '.join((DEFAULT, *SYSTEMS))}, found {system!r}")
    folder = host.cache_root() / f"rootfs-{digest(system)}"
    if folder.is_dir():
        return folder
    with building(folder, progress) as beside:
        if beside is not None:
            _debootstrap(beside, progress, SYSTEMS.get(system))
            _finish(beside)
    return folder


@contextmanager
def building(folder: Path, progress: Callable[[str], None]) -> Iterator[Path | None]:
    """A folder beside to build in, renamed to `folder` at the end; None where another run has just made it.

    One run builds at a time; the others wait for it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f".{folder.name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another run that builds {folder.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            yield None
            return
        beside = folder.with_name(f".{folder.name}.part")
        if beside.exists():
            shutil.rmtree(beside)
        beside.mkdir()
        yield beside
        beside.rename(folder)


def _debootstrap(target: Path, progress: Callable[[str], None], system: System | None) -> None:
    # In namespaces of its own, and not longer than this process: where either is killed, children and mounts go too.
    inside = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
    suite, names = (system.suite, BARE_PACKAGES) if system else (SUITE, PACKAGES)
    command = [*inside, "debootstrap", "--variant=minbase", f"--include={','.join(names)}"]
    if system is not None:
        if not system.keyring.exists():
            raise host.LabError(f"{suite}: want the keys of its archive, found no {system.keyring}")
        command.append(f"--keyring={system.keyring}")
    command += [suite, str(target)]
    if mirror := _own_mirror():
        command.append(mirror)
    steps = 0
    lines: list[str] = []
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment())
    assert running.stdout is not None
    for line in running.stdout:
        lines.append(line.rstrip())
        steps += line.startswith("I: ")
        progress(f"installing {suite} (once, about a minute): step {steps}, {line.removeprefix('I: ').strip()}")
    if running.wait():
        tail = "\n".join(lines[-8:])
        raise host.LabError(f"debootstrap {suite} failed ({running.returncode}); its last words:\n{tail}")


def _own_mirror() -> str | None:
    """The Debian archive that this machine's apt uses, so that a local mirror is honoured; None: the default."""
    filters = ["Created-By: Packages", "Origin: Debian", "Label: Debian"]
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", *filters]
    told = subprocess.run(command, capture_output=True, text=True).stdout.split()
    return told[0] if told and told[0].startswith(("http://", "https://")) else None


def _environment() -> dict[str, str]:
    """The environment with apt's proxy, which debootstrap does not know of."""
    command = ["apt-config", "shell", "proxy", "Acquire::http::Proxy"]
    told = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    proxy = told.removeprefix("proxy=").strip("'")
    return {**os.environ, **({"http_proxy": proxy} if proxy and proxy != "DIRECT" else {})}


def _finish(target: Path) -> None:
    """What differs between hosts goes out; the stamps say that nothing is left to do at a first boot."""
    for pattern in REMOVED:
        for path in target.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for stamp in ("etc/.updated", "var/.updated"):
        (target / stamp).touch()
    for mount_point in ("usr/lib/containers/store", "var/lib/containers", "var/lib/vllm-fleet-lab/gpu", "srv/models"):
        (target / mount_point).mkdir(parents=True, exist_ok=True)
