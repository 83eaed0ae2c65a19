"""`python -m bench.audit`: an audit of rolled lab hosts beside its floor, and the replay of recorded nodes with gates.

The floor is the audit's own probe, word for word, over one asyncssh connection and one channel a host: what any audit
that reads as much must take. Its answers are not parsed and nothing is compared.
"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.console import Console

from bench.measure import Sample, measured, wait_until_idle
from bench.peers import HERE, VENV, ensure_venv
from bench.replay import REPLAY_S, figures_of, replays
from bench.rollout import RESULTS, compile_modules
from bench.site import MODEL, PROJECT, SERVICE, BenchSite, write_json
from facts.script import probe_script
from fleet.nodes.request import ProbeRequest, ServiceRequest
from lab import cgroup, host
from lab.lab import Lab

WITHIN_FLOOR = 2.0
"""What is to be reached: the audit in so many times the floor's wall time."""
PYINFRA = [str(Path(sys.executable).parent / "pyinfra"), "inventory.py"]


def floor_file(site: BenchSite, folder: Path) -> Path:
    """What floor.py carries out: the probe of an audit on every host."""
    image = site.image()
    asked = ServiceRequest(name=SERVICE, model=MODEL, image=f"{image['name']}@{image['digest']}", port=8000)
    text = probe_script(ProbeRequest(services=(asked,), secret_key="k", deep=True, audit=True)).text
    hosts = {node.name: {"address": str(node.address), "script": text} for node in site.lab.nodes}
    path = folder / "audit-floor.json"
    write_json(path, {**site.access(), "hosts": hosts})
    return path


def one(words: list[str], fleet: Path, log: Path, lab: Lab) -> Sample:
    """One measured run, on a machine that does nothing else."""
    busy = wait_until_idle()
    sample = measured(words, {"NO_COLOR": "1", "FLEET": str(fleet)}, log, PROJECT, cgroup.root() / lab.name)
    times = f"wall {sample.wall_s:.2f} s, CPU {sample.cpu_s:.2f} s, hosts' CPU {sample.hosts_cpu_s:.2f} s"
    print(f"  {log.stem}: {times}; busy before: {busy:.0%}", flush=True)
    return sample


def wanted(sample: Sample, text: str, what: str) -> Sample:
    """RuntimeError where the run did not do its work."""
    if sample.code != 0 or not re.search(text, sample.out):
        raise RuntimeError(f"{what}: want {text!r} and exit 0, found exit {sample.code}: {sample.out[-600:]}")
    return sample


def audits(lab: Lab, count: int, runs: int, logs: Path) -> dict[str, list[float]]:
    """Wall times of the floor and of the audit, in turns, on hosts that were rolled out once."""
    lab.down()
    lab.up()
    folder = lab.folder / "bench"
    site = BenchSite(lab, folder)
    shutil.rmtree(folder, ignore_errors=True)
    site.write()
    fleet = site.fleet("bare")
    wanted(one([*PYINFRA, "deploy.py", "-y"], fleet, logs / "roll.log", lab), "Result", "the rollout")
    floor = [str(VENV / "bin/python"), str(HERE / "floor.py"), str(floor_file(site, folder))]
    times: dict[str, list[float]] = {"floor": [], "audit": []}
    for run in range(runs):
        told = one(floor, fleet, logs / f"floor-{run}.log", lab)
        times["floor"].append(wanted(told, rf"hosts={count} .*failed=0", "the floor").wall_s)
        told = one([*PYINFRA, "audit.py"], fleet, logs / f"audit-{run}.log", lab)
        times["audit"].append(wanted(told, f"No drift on {count} nodes", "the audit").wall_s)
    return times


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, keep. 1 where this machine cannot run a lab or a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.audit", description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=60, help="lab hosts that are audited")
    parser.add_argument("--recorded", type=int, default=1000, help="recorded nodes that are replayed")
    parser.add_argument("--runs", type=int, default=5, help="of each; the median counts")
    parser.add_argument("--lab", default="bench", help="name of the lab that is booted")
    asked = parser.parse_args(words)
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    try:
        host.require_fit()
    except host.LabError as error:
        out.print(f"the bench needs the lab: {error}")
        return 1
    ensure_venv()
    compile_modules()
    logs = RESULTS / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    lab = Lab(asked.lab, asked.hosts)
    try:
        times = audits(lab, asked.hosts, asked.runs, logs)
        replay = replays(asked.recorded, asked.runs, lab.folder / "replay")
    finally:
        lab.down()
    floor, audit, again = (median(values) for values in (times["floor"], times["audit"], [r.wall_s for r in replay]))
    figures = {"cores": os.cpu_count(), "hosts": asked.hosts, "recorded": asked.recorded, **times, "replay": replay}
    write_json(RESULTS / "audit.json", figures)
    out.print(f"\naudit of {asked.hosts} hosts: {audit:.2f} s; floor {floor:.2f} s; ratio {audit / floor:.2f}")
    out.print(figures_of(asked.recorded, replay))
    goals = [(f"audit within {WITHIN_FLOOR} times the floor", audit <= WITHIN_FLOOR * floor)]
    goals.append((f"replay under {REPLAY_S:.0f} s", again < REPLAY_S))
    for text, reached in goals:
        out.print(f"  {'reached' if reached else '[bold red]missed[/] '}  {text}")
    return 0 if all(reached for _, reached in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
