"""`python -m bench.deliver [--hosts 20] [--mib 2048]`: a checkpoint to many hosts, by this project and by others.

Needs root on Linux, as the lab does. What the hosts get lies in this machine's memory where a third of that is
enough, else on its disk, which must have room for hosts x size.
Compared: deliver.py; a plain loop of `rsync` over ssh, one host after the other; the same with all hosts at once;
Ansible's `copy` and `synchronize` (forks = hosts). Then, in turn, a run that has nothing to do and its floor: our own
look word for word, over one SSH connection and one channel a host, all hosts at once (asyncssh).
"""

import argparse
import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bench import peers
from bench.measure import measured, wait_until_idle
from bench.rollout import compile_modules
from bench.site import PROJECT, BenchSite, write_json
from declare.folder import measure
from facts.parse.delivery import SECTIONS
from facts.script import sections_script
from lab import cgroup, host
from lab.lab import Lab

RESULTS = Path(__file__).parent / "results"
TARGET = "/srv/models/bench"
SHARDS = 8
MIB = 1 << 20
MOST_IN_MEMORY_MIB = 1024
"""A host's disk in memory has 2 GiB, and a delivery gathers beside what is there."""


class Row(NamedTuple):
    """One measurement: wall and controller CPU in seconds, the hosts' CPU together."""

    name: str
    wall_s: float
    cpu_s: float
    hosts_cpu_s: float


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line. Exits 2 with the usage where it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.deliver", description=__doc__)
    parser.add_argument("--hosts", type=int, default=20, help="size of the lab, 2 to 100")
    parser.add_argument("--mib", type=int, default=2048, help="size of the checkpoint in MiB")
    parser.add_argument("--turns", type=int, default=5, help="turns of the run that has nothing to do, and its floor")
    parser.add_argument("--only", nargs="+", choices=[*CONTESTANTS], default=[*CONTESTANTS], help="only these rows")
    parser.add_argument("--lab", default="benchd", help="name of the lab that is made and ended")
    parser.add_argument("--rate", type=float, help="MiB/s of one transfer, for all contestants: a network's limit")
    asked = parser.parse_args(words)
    if not 2 <= asked.hosts <= 100 or asked.mib < SHARDS or asked.turns < 1:
        parser.error(f"want 2 to 100 hosts, at least {SHARDS} MiB and one turn")
    return asked


def checkpoint(folder: Path, mib: int) -> Path:
    """Noise in shards, as weights are: nothing that compresses, nothing that repeats."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number in range(SHARDS):
        noise = random.Random(number).randbytes(MIB)
        with (folder / f"model-{number}.safetensors").open("wb") as file:
            for block in range(mib // SHARDS):
                file.write(block.to_bytes(8, "big") + noise[8:])
    (folder / "config.json").write_text("{}")
    return folder


class Ground(NamedTuple):
    """What every contestant is called with."""

    site: BenchSite
    source: Path
    fleet: Path
    rate_mib_s: float | None

    @property
    def ssh(self) -> str:
        """`ssh` for rsync -e."""
        access = self.site.access()
        options = ["-o", f"UserKnownHostsFile={access['known_hosts']}", "-o", "BatchMode=yes"]
        return shlex.join(["ssh", "-F", "none", "-i", access["key"], *options])


def _ours(ground: Ground) -> list[str]:
    return [str(Path(sys.executable).parent / "pyinfra"), "inventory.py", "deliver.py", "-y"]


def _loop(ground: Ground, together: bool) -> list[str]:
    rate = f"--bwlimit={int(ground.rate_mib_s * 1024)} " if ground.rate_mib_s else ""
    lines = [
        f"rsync -a {rate}-e {shlex.quote(ground.ssh)} {ground.source}/ root@{node.address}:{TARGET}/"
        + (" &" if together else " || exit 1")
        for node in ground.site.lab.nodes
    ]
    return ["bash", "-c", "\n".join([*lines, "wait"])]


def _ansible(ground: Ground, module: str) -> list[str]:
    folder = ground.fleet.parent / "peers"
    return [str(peers.VENV / "bin" / "ansible-playbook"), str(folder / f"{module}.yml")]


CONTESTANTS: dict[str, Callable[[Ground], list[str]]] = {
    "deliver.py": _ours,
    "rsync, one after the other": lambda ground: _loop(ground, together=False),
    "rsync, all at once": lambda ground: _loop(ground, together=True),
    "ansible copy": lambda ground: _ansible(ground, "copy"),
    "ansible synchronize": lambda ground: _ansible(ground, "synchronize"),
}


def write(ground: Ground) -> None:
    """The declared fleet for us, and the playbooks for Ansible."""
    manifest = ground.fleet.parent / "bench.manifest"
    manifest.write_text(measure(ground.source).text)
    ground.site.write()
    ground.site.lab.write_inventory(ground.fleet)
    shutil.copytree(ground.site.fleet("bare") / "group_data", ground.fleet / "group_data", dirs_exist_ok=True)
    data = ground.fleet / "group_data/all.yaml"
    declared: dict[str, Any] = yaml.safe_load(data.read_text())
    (service,) = declared["services"].values()
    service |= {"model": TARGET, "checkpoint": {"manifest": str(manifest), "folder": str(ground.source)}}
    declared["delivery"] = {"bundle_mib": 64, **({"rate_mib_s": ground.rate_mib_s} if ground.rate_mib_s else {})}
    data.write_text(yaml.safe_dump(declared))
    folder = ground.fleet.parent / "peers"
    peers.write_inventory(ground.site, folder)
    copy = {"ansible.builtin.copy": {"src": f"{ground.source}/", "dest": f"{TARGET}/"}}
    command = f"rsync -a -e {shlex.quote(ground.ssh)} {ground.source}/ root@{{{{ ansible_host }}}}:{TARGET}/"
    synchronize = {"ansible.builtin.command": command, "delegate_to": "localhost"}
    for name, task in (("copy", copy), ("synchronize", synchronize)):
        play = {"hosts": "all", "gather_facts": False, "tasks": [task]}
        (folder / f"{name}.yml").write_text(yaml.safe_dump([play]))


def environment(ground: Ground, name: str) -> dict[str, str]:
    """FLEET for us, ansible.cfg for Ansible."""
    env = {"NO_COLOR": "1", "FLEET": str(ground.fleet), "XDG_CACHE_HOME": str(ground.fleet.parent)}
    return env | ({"ANSIBLE_CONFIG": str(ground.fleet.parent / "peers/ansible.cfg")} if "ansible" in name else {})


def whole(ground: Ground) -> None:
    """Every host must have every file, and the content of one shard. RuntimeError where one has not."""
    sample = next(ground.source.glob("*-3.safetensors"))
    digest = subprocess.run(["sha256sum", sample], check=True, capture_output=True, text=True).stdout[:64]
    sizes = sorted(f"{path.name} {path.stat().st_size}" for path in ground.source.iterdir())
    for node in ground.site.lab.nodes:
        done = ground.site.lab.ssh(node.name, f"cd {TARGET} && stat -c '%n %s' * && sha256sum {sample.name}")
        *found, told = done.stdout.splitlines() or [""]
        if (sorted(found), told[:64]) != (sizes, digest):
            raise RuntimeError(f"{node.name}: want {sizes}, {digest}, found {done.stdout}{done.stderr}")


def floor(ground: Ground) -> list[str]:
    """What deliver.py asks each host, word for word."""
    from declare.invocation import for_command
    from operations.delivery.look import request_for

    fleet = for_command(str(ground.fleet)).fleet
    nodes = {
        node.name: {
            "address": node.address,
            "script": sections_script(SECTIONS, request_for(fleet.placement(node.name), [])).text,
        }
        for node in ground.site.lab.nodes
    }
    path = ground.fleet.parent / "floor.json"
    write_json(path, {**ground.site.access(), "hosts": nodes})
    return [str(peers.VENV / "bin" / "python"), str(PROJECT / "bench/floor.py"), str(path)]


def nothing_to_do(ground: Ground, turns: int, logs: Path) -> list[Row]:
    """A delivery that has nothing to do and its floor, in turn; the median of each, printed with the ratio."""
    rows: dict[str, list[Row]] = {"second run": [], "floor": []}
    commands = {"second run": _ours(ground), "floor": floor(ground)}
    for _ in range(turns):
        for name, command in commands.items():
            rows[name].append(run(ground, name, command, logs))
    medians = [
        Row(name, *(statistics.median(row[at] for row in taken) for at in (1, 2, 3))) for name, taken in rows.items()
    ]
    ours, least = medians
    print(
        f"nothing to do: {ours.wall_s:.2f} s, floor {least.wall_s:.2f} s: {ours.wall_s / least.wall_s:.2f} x; "
        f"CPU {ours.cpu_s:.2f} s, {least.cpu_s:.2f} s; hosts' CPU {ours.hosts_cpu_s:.2f} s, {least.hosts_cpu_s:.2f} s; "
        f"medians of {turns} turns",
        flush=True,
    )
    return medians


def run(ground: Ground, name: str, command: list[str], logs: Path) -> Row:
    """One contestant, measured."""
    wait_until_idle()
    log = logs / f"deliver-{name.replace(' ', '-').replace(',', '')}.log"
    sample = measured(command, environment(ground, name), log, PROJECT, cgroup.root() / ground.site.lab.name)
    if sample.code:
        raise RuntimeError(f"{name}: exit {sample.code}; see {log}\n{sample.out[-2000:]}")
    return Row(name, sample.wall_s, sample.cpu_s, sample.hosts_cpu_s)


def main(words: list[str] | None = None) -> int:
    """Measure, print, keep. 1 where this machine cannot run a lab."""
    asked = arguments(words)
    try:
        host.require_fit()
        disks = disks_for(asked.hosts, asked.mib, PROJECT)
    except host.LabError as error:
        print(f"the bench needs the lab: {error}")
        return 1
    peers.ensure_venv()
    logs = RESULTS / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    lab = Lab(asked.lab, asked.hosts, disks=disks)
    rows: list[Row] = []
    try:
        lab.down()
        lab.up()
        folder = lab.folder / "bench-deliver"
        shutil.rmtree(folder, ignore_errors=True)  # a lab of another size may have left its inventory
        site = BenchSite(lab, folder / "site")
        ground = Ground(site, checkpoint(folder / "source", asked.mib), folder / "fleet", asked.rate)
        write(ground)
        compile_modules()
        print(
            f"{asked.mib} MiB to {asked.hosts} hosts, whose disks are {'files' if disks else 'in memory'}", flush=True
        )
        for name in asked.only:
            rows.append(run(ground, name, CONTESTANTS[name](ground), logs))
            whole(ground)
            print(_line(rows[-1], rows[0]), flush=True)
            if name == "deliver.py":
                rows += nothing_to_do(ground, asked.turns, logs)
            for node in lab.nodes:
                lab.ssh(node.name, f"rm -rf {TARGET} /var/lib/vllm-fleet/.delivery")
    finally:
        lab.down()
        shutil.rmtree(lab.folder / "bench-deliver" / "source", ignore_errors=True)
        if disks is not None:
            shutil.rmtree(disks, ignore_errors=True)
    file = RESULTS / f"deliver-{time.strftime('%Y%m%dT%H%M%S')}.json"
    write_json(file, {"cores": os.cpu_count(), "hosts": asked.hosts, "mib": asked.mib, "rate_mib_s": asked.rate,
                      "rows": [row._asdict() for row in rows]})  # fmt: skip
    print(json.dumps([row._asdict() for row in rows], indent=1))
    return 0


def disks_for(hosts: int, mib: int, beside: Path) -> Path | None:
    """A folder for the hosts' disks; None where memory is large enough. LabError where the disk is not either."""
    wanted = hosts * mib * MIB
    words = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    if mib <= MOST_IN_MEMORY_MIB and wanted * 3 <= int(words["MemAvailable"].split()[0]) << 10:
        return None
    folder = beside / ".lab" / "bench-disks"
    free = shutil.disk_usage(beside).free
    if free < wanted * 1.1 + mib * MIB:
        raise host.LabError(
            f"want {wanted / 2**30 * 1.1:.0f} GiB on the disk for {hosts} hosts, found {free / 2**30:.0f}"
        )
    return folder


def _line(row: Row, first: Row) -> str:
    return (
        f"{row.name}: wall {row.wall_s:.1f} s ({row.wall_s / first.wall_s:.2f} x), CPU {row.cpu_s:.1f} s, "
        f"hosts' CPU {row.hosts_cpu_s:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
