"""One command, measured: wall time, and the CPU time of everything that it started on the controller and on the hosts.

Each command runs in a cgroup of its own, so that what detaches from it counts too: ssh's ControlPersist masters and
mitogen's processes do. wait4 would miss those. The kernel keeps the CPU time of a cgroup2 folder on every machine,
also where the cpu controller belongs to cgroup version 1. Lab hosts have cgroups of their own and do not count.
"""

import os
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from lab import cgroup

_ENTER = 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"'


class Sample(NamedTuple):
    """What one run took, in seconds, and what it said (stdout and stderr together)."""

    wall_s: float
    cpu_s: float
    hosts_cpu_s: float
    """Of all hosts together, also of what they went on doing for a moment, such as ending a connection."""
    code: int
    out: str


def measured(
    command: list[str], env: dict[str, str], log: Path, cwd: Path, hosts: Path, limit_s: float = 1800
) -> Sample:
    """Run a command to its end, without a terminal. What it left running is ended afterwards.

    `hosts` is the cgroup of the lab.
    subprocess.TimeoutExpired where it takes longer than `limit_s`.
    """
    folder = cgroup.root().parent / "vllm-fleet-bench"
    cgroup.kill(folder)
    folder.mkdir(exist_ok=True)
    words = ["sh", "-c", _ENTER, "enter", str(folder), *command]
    before, hosts_before = _cpu_s(folder), _cpu_s(hosts)
    try:
        with open(log, "wb") as out:
            began = time.monotonic()
            code = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                cwd=cwd,
                timeout=limit_s,
            ).returncode
            wall = time.monotonic() - began
        cpu = _cpu_s(folder) - before
        time.sleep(0.3)
        return Sample(wall, cpu, _cpu_s(hosts) - hosts_before, code, log.read_text(errors="replace"))
    finally:
        cgroup.kill(folder)
        folder.rmdir()


def _cpu_s(folder: Path) -> float:
    lines = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    return int(lines["usage_usec"]) / 1e6


def wait_until_idle(limit_s: float = 15.0, busy: float = 0.1) -> float:
    """Wait until the machine does next to nothing, as after hosts have booted. The busy share that was found last."""
    deadline = time.monotonic() + limit_s
    while True:
        share = _busy_share(1.0)
        if share <= busy or time.monotonic() > deadline:
            return share


def _busy_share(seconds: float) -> float:
    def ticks() -> tuple[int, int]:
        numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return sum(numbers), numbers[3] + numbers[4]

    total, idle = ticks()
    time.sleep(seconds)
    total_after, idle_after = ticks()
    return 1 - (idle_after - idle) / max(1, total_after - total)
