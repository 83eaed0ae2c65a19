"""Another machine, as far as labs can tell: mounts, network, /run and cache of its own, with a fresh clone on it.

What is documented for the lab `demo` is run there word by word, whatever runs on this machine meanwhile.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab import host, images, rootfs

PROJECT = Path(__file__).resolve().parent.parent
NOT_CLONED = (".git", ".venv", ".lab", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "results", "*.log")

# The cache is seen, and what is removed of it is removed only here.
BOOT = """
set -eu
mount -t tmpfs tmpfs /run
mkdir /run/upper /run/work
mount -t overlay -o "lowerdir=$1,upperdir=/run/upper,workdir=/run/work" overlay "$1"
ip link set lo up
echo booted
exec cat
"""


@dataclass(frozen=True)
class Ran:
    """What a command ended with. `out` is stdout and stderr together, as an operator reads them."""

    code: int
    out: str


def clone(folder: Path) -> Path:
    """The files of this checkout in a folder, with its .venv; the root of the clone."""
    shutil.copytree(PROJECT, folder, symlinks=True, ignore=shutil.ignore_patterns(*NOT_CLONED))
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


class Elsewhere:
    """The other machine. `clone` is the checkout on it."""

    def __init__(self, folder: Path) -> None:
        """Boot it. The cache is filled before: there is no network there."""
        images.ensure(rootfs.ensure(print), print)
        self.clone = clone(folder)
        self._own_cgroup(f"vllm-fleet-lab-{os.getpid()}")
        words = [
            "unshare",
            "--mount",
            "--propagation=slave",
            "--net",
            "sh",
            "-c",
            BOOT,
            "elsewhere",
            str(host.cache_root()),
        ]
        self._holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "booted\n"

    def _own_cgroup(self, name: str) -> None:
        """Cgroups have no mounts to hide behind: the clone gets another folder for its labs."""
        source = self.clone / "lab/cgroup.py"
        text, changed = re.subn(r'^BASE = "vllm-fleet-lab"$', f'BASE = "{name}"', source.read_text(), flags=re.M)
        assert changed == 1
        source.write_text(text)

    def run(self, line: str, timeout: float = 180, **env: str) -> Ran:
        """A line as typed at a shell in the clone."""
        inside = ["nsenter", f"--target={self._holder.pid}", "--mount", "--net", f"--wd={self.clone}"]
        inherited = {name: value for name, value in os.environ.items() if name not in ("FLEET", "CI")}
        done = subprocess.run(
            [*inside, "bash", "-c", line],
            env={**inherited, "PYTHONPATH": str(self.clone), **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
        return Ran(code=done.returncode, out=done.stdout)

    def end(self) -> None:
        """End its labs and give it back."""
        self.run(f"{sys.executable} -c 'from lab import host; host.clean_everything()'")
        self._holder.kill()
        self._holder.communicate()
