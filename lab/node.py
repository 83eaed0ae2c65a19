"""One lab host on this machine: its seed (what differs from other hosts), its keeper, and when it answers."""

import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from lab import cgroup, gpus, host, naming

KEEPER = Path(__file__).parent / "keeper.sh"
DISK = "2g"  # tmpfs: taken only as far as it is used (about 10 MiB for a host that was just booted)


class Layers(NamedTuple):
    """What all hosts of a lab share: the lab's own files, the installed Debian, the images."""

    layer: Path
    rootfs: Path
    store: Path
    binds: tuple[str, ...] = ()
    """Further folders of this machine that a host sees read-only, SOURCE:TARGET."""
    disks: Path | None = None
    """Folder of this machine with a folder for each host, which is its disk; None: its disk is in memory."""


def folder_of(lab: str, node: str) -> Path:
    """The host's folder on this machine: seed, gpu state, console log."""
    return host.RUN / lab / node


def gpu_folder(lab: str, node: str) -> Path:
    """The state that the host's nvidia-smi reads at every call."""
    return folder_of(lab, node) / "gpu"


def prepare(lab: str, node: naming.NodeName, host_key: Path) -> None:
    """Write the host's seed and its GPU state; the folder must not exist."""
    folder = folder_of(lab, node.name)
    ssh = folder / "seed/etc/ssh"
    ssh.mkdir(parents=True)
    (folder / "disk").mkdir()
    gpu_folder(lab, node.name).mkdir()
    gpus.write_machine(gpu_folder(lab, node.name))
    shutil.copyfile(host_key, ssh / "ssh_host_ed25519_key")
    (ssh / "ssh_host_ed25519_key").chmod(0o600)
    (folder / "seed/etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
    (folder / "seed/etc/hosts").write_text(f"127.0.0.1 localhost\n{node.address} {node.name}\n")
    gpus.set_state(gpu_folder(lab, node.name), kind=node.kind, faults=[])


def start(lab: str, node: naming.NodeName, layers: Layers) -> None:
    """Start the host's keeper, which boots it; returns at once."""
    folder = folder_of(lab, node.name)
    lower = f"{folder / 'seed'}:{layers.layer}:{layers.rootfs}"
    group = cgroup.create(lab, node.name)
    command = ["setsid", "--fork", "unshare", "--mount", "sh", str(KEEPER)]
    disk: str | Path = DISK
    if layers.disks is not None:
        disk = layers.disks / node.name
        shutil.rmtree(disk, ignore_errors=True)
        disk.mkdir(parents=True)
    words = [folder, lower, layers.store, group, naming.netns_name(lab, node.name), node.name, disk]
    words += [f"--bind-ro={bind}" for bind in layers.binds]
    with open(folder / "console.log", "wb") as console:
        subprocess.run(
            command + [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            check=True,
        )


def resize_disk(lab: str, node: str, size: str) -> None:
    """Remount the host's disk with another size, in the mount namespace that its keeper holds."""
    keepers = (cgroup.of_node(lab, node) / "keeper/cgroup.procs").read_text().split()
    if not keepers:
        raise host.LabError(f"{node} is down")
    disk = folder_of(lab, node) / "disk"
    command = ["nsenter", f"--mount=/proc/{keepers[0]}/ns/mnt", "mount", "-o", f"remount,size={size}", str(disk)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise host.LabError(f"{node}: its disk cannot be made {size}: {done.stderr.strip()}; is more in use?")


def power_cycle(lab: str, node: str) -> None:
    """A power cut: the host dies at once, whatever it does, and boots again with the disk it had."""
    (folder_of(lab, node) / "again").touch()
    cgroup.kill(cgroup.of_node(lab, node) / "host")


def boots(lab: str, node: str) -> int:
    """How often the host was booted since it was made; 0 before the first time."""
    try:
        return int((folder_of(lab, node) / "boots").read_text() or 0)
    except FileNotFoundError:
        return 0


def powered(lab: str, node: str) -> bool:
    """Whether the host's systemd, or anything else of it, is alive."""
    return cgroup.populated(cgroup.of_node(lab, node) / "host")


def has_keeper(lab: str, node: str) -> bool:
    """Whether the process that boots the host lives: without it a reboot would be the host's end."""
    return cgroup.populated(cgroup.of_node(lab, node) / "keeper")


def console(lab: str, node: str, lines: int = 15) -> str:
    """The last lines that the host wrote to its console."""
    try:
        return "\n".join((folder_of(lab, node) / "console.log").read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no console)"


def answers(address: str, timeout_s: float = 10.0) -> bool:
    """Whether an SSH server says hello at this address.

    The default is patient: on a busy machine a host may need seconds, and `up` replaces one that does not answer.
    """
    try:
        with socket.create_connection((address, 22), timeout=timeout_s) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def wait_until_answer(lab: str, nodes: Iterable[naming.NodeName], limit_s: float) -> None:
    """Wait until every host's sshd answers; LabError with the console of one that does not within `limit_s`."""
    deadline = time.monotonic() + limit_s
    waiting = list(nodes)
    while waiting:
        waiting = [node for node in waiting if not answers(node.address, 2.0)]
        if not waiting:
            return
        if time.monotonic() > deadline:
            names = ", ".join(node.name for node in waiting)
            raise host.LabError(
                f"lab {lab}: wanted an answer of sshd within {limit_s:.0f} s, found none from {names}; "
                f"console of {waiting[0].name}:\n{console(lab, waiting[0].name)}"
            )
        time.sleep(0.05)
