"""The lab on another machine: one with nothing but cgroup version 2, and one where everything is removed.

The other machine is this one in mount, network and cgroup namespaces of its own, so that no other lab is touched.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab
ROOT = Path(__file__).parents[2]

MACHINE = """
set -eu
mount -t tmpfs tmpfs /run
if [ "$1" = unified ]; then
    umount -R /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
fi
ip link set lo up
exec "$2" -c "$3"
"""

USE_AND_CLEAN = """
from pathlib import Path
from lab import cgroup, host, network
from lab.lab import Lab

cgroup.BASE = "vllm-fleet-lab-elsewhere"
lab, other = Lab("demo", 2), Lab("other", 1)
try:
    print("started", *lab.up().started, *other.up().started)
    print("systemd", lab.ssh("a1", "systemctl is-system-running --wait").stdout.strip())
    print("podman", lab.ssh("a1", "podman image exists localhost/vllm-standin:0.30.0").returncode)
finally:
    host.clean_everything()
print("interfaces", *network.links())
print("namespaces", *network.namespaces())
print("routes", network.ip("route").strip())
print("cgroups", *[point for _, point in cgroup.hierarchies() if (point / cgroup.BASE).exists()])
print("files", host.RUN.exists() and list(host.RUN.iterdir()))
strangers = []
for path in Path("/proc").glob("[0-9]*"):
    try:
        dead = "State:\\tZ" in (path / "status").read_text()  # the machine's init is about to reap it
        if "elsewhere" in (path / "cgroup").read_text() and not dead:
            strangers.append(path.name)
    except (FileNotFoundError, ProcessLookupError):
        continue
print("processes", *strangers)
"""


@pytest.mark.parametrize("kind", ["own", "unified"])
def test_labs_run_and_are_removed_with_every_trace(fit: None, tmp_path: Path, kind: str) -> None:
    words = ["unshare", "--mount", "--net", "sh", "-c", MACHINE, "machine", kind, sys.executable, USE_AND_CLEAN]
    environment = {**os.environ, "VLLM_FLEET_LAB_STATE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    told = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == [
        "started a1 h1 a1",
        "systemd running",
        "podman 0",
        "interfaces",
        "namespaces",
        "routes ",
        "cgroups",
        "files False",
        "processes",
    ]
