"""`python -m bench.rollout [--hosts 3 20 60] [--runs N] [--only ROW ...]`: the same rollout by this project and others.

Needs root on Linux, as the lab does. See docs/bench.md for what is compared and what the figures mean.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console

from bench import peers
from bench.contestants import PHASES, Contestant, Ground, Phase, contestants
from bench.measure import measured, wait_until_idle
from bench.report import Record, goals, table
from bench.site import PROJECT, SERVICE, BenchSite, write_json
from fleet.releases.command import NODE_SCRIPT
from lab import cgroup, host
from lab.lab import Lab
from operations.node_script import node_script

RESULTS = Path(__file__).parent / "results"
SOCKETS = Path("/run/vllm-fleet-bench")
NOTE = (
    "The hosts share the controller's {cores} cores: wall time holds the hosts' work too, and a tool that does much\n"
    "on the hosts waits for it. CPU is the controller's alone, of all processes of the tool. x: times this project."
)
LOOK = (
    f"sha256sum </etc/systemd/system/vllm-{SERVICE}.service; sha256sum </var/lib/vllm-fleet/{SERVICE}/current/env; "
    f"systemctl is-active vllm-{SERVICE}"
)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line. Exits 2 with the usage where it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.rollout", description=__doc__)
    parser.add_argument("--hosts", type=_count, nargs="+", default=[3, 20, 60], help="sizes of the lab, 1 to 100")
    parser.add_argument("--runs", type=_count, default=3, help="runs of each, of which the median is told")
    parser.add_argument("--only", nargs="+", choices=list(contestants()), help="only these rows")
    parser.add_argument("--lab", default="bench", help="name of the lab that is made and ended")
    parser.add_argument("--keep", action="store_true", help="leave the lab and the logs there at the end")
    return parser.parse_args(words)


def _count(word: str) -> int:
    number = int(word)
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError(f"want 1 to 100, found {word}")
    return number


def everywhere(lab: Lab, command: str, input: str | None = None) -> dict[str, str]:
    """Run a command on every host, a few at a time; RuntimeError with what was said where one fails."""

    def one(name: str) -> tuple[str, str]:
        done = lab.ssh(name, command, input=input)
        if done.returncode:
            raise RuntimeError(f"{name}: {command}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return name, done.stdout

    with ThreadPoolExecutor(4) as pool:
        return dict(pool.map(one, [node.name for node in lab.nodes]))


def fresh(lab: Lab, row: Contestant) -> None:
    """Boot all hosts anew. For the others the unit's health waiter is put there, unmeasured; ours brings it itself."""
    lab.down()
    lab.up()
    if not row.ours:
        place = NODE_SCRIPT.rpartition("/")[0]
        everywhere(lab, f"mkdir -p {place} && cat >{NODE_SCRIPT} && chmod 755 {NODE_SCRIPT}", input=node_script())


def verify(site: BenchSite, row: Contestant) -> None:
    """Every host must run the very unit and env that the product renders. RuntimeError where one does not."""
    for name, said in everywhere(site.lab, LOOK).items():
        texts = [(site.rendered("now") / name / file).read_bytes() for file in ("unit", "env")]
        want = [*(hashlib.sha256(text).hexdigest() for text in texts), "active"]
        found = [line.split()[0] for line in said.splitlines()]
        if found != want:
            raise RuntimeError(f"{row.title}: {name}: want unit, env and state {want}, found {found}")


def one_turn(ground: Ground, row: Contestant, run: int, logs: Path, say: Callable[[str], None]) -> list[Record]:
    """All phases of one contestant on hosts that were just booted."""
    fresh(ground.site.lab, row)
    records = []
    phase: Phase
    for phase in PHASES:
        busy = wait_until_idle()
        shutil.rmtree(SOCKETS, ignore_errors=True)  # every run begins without connections
        SOCKETS.mkdir(mode=0o700)
        log = logs / f"{ground.hosts}-{row.name}-{phase}-{run}.log"
        env = {"NO_COLOR": "1", **row.env(ground)}
        sample = measured(row.command(ground, phase), env, log, PROJECT, cgroup.root() / ground.site.lab.name)
        wrong = row.wrong(ground, phase, sample.out) if sample.code == 0 else f"exit code {sample.code}"
        if wrong:
            raise RuntimeError(f"{row.title}, {PHASES[phase]}: {wrong}; see {log}")
        wall, cpu, hosts_cpu = sample.wall_s, sample.cpu_s, sample.hosts_cpu_s
        records.append(Record(ground.hosts, row.name, phase, run, wall, cpu, hosts_cpu, busy))
        who = f"{ground.hosts} hosts, {row.title}, {PHASES[phase]}"
        say(f"{who}: wall {wall:.2f} s, CPU {cpu:.2f} s, hosts' CPU {hosts_cpu:.2f} s; busy before: {busy:.0%}")
        if phase == "first":
            verify(ground.site, row)
    return records


def prepared(lab: Lab, count: int, folder: Path) -> Ground:
    """The site on a lab of this size, rendered, with all that the peers read."""
    lab.down()
    lab.up()
    site = BenchSite(lab, folder)
    shutil.rmtree(folder, ignore_errors=True)
    site.write()
    site.render()
    peers.write(site, folder / "peers")
    return Ground(site, folder / "peers", count)


def compile_modules() -> None:
    """As pip has done for the others: a changed checkout would be compiled anew in every run."""
    folders = sorted({path.parent.name for path in PROJECT.glob("*/__init__.py")} - {"bench", "tests"})
    subprocess.run([sys.executable, "-m", "compileall", "-q", *folders], cwd=PROJECT, check=True)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, keep. 1 where this machine cannot run a lab."""
    asked = arguments(words)
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    rows = {name: row for name, row in contestants().items() if not asked.only or name in asked.only}
    try:
        host.require_fit()
    except host.LabError as error:
        out.print(f"the bench needs the lab: {error}")
        return 1
    peers.ensure_venv()
    compile_modules()
    records: list[Record] = []
    logs = RESULTS / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    lab = Lab(asked.lab)
    try:
        for count in asked.hosts:
            lab = Lab(asked.lab, count)
            ground = prepared(lab, count, lab.folder / "bench")
            for run in range(1, asked.runs + 1):
                for row in rows.values():
                    records += one_turn(ground, row, run, logs, out.print)
                    write_json(file, {"cores": os.cpu_count(), "records": [record._asdict() for record in records]})
            show(out, records, count, rows)
    finally:
        shutil.rmtree(SOCKETS, ignore_errors=True)
        if not asked.keep:
            lab.down()
    out.print(f"\nfor machines: {file.relative_to(PROJECT)}")
    return 0


def show(out: Console, records: list[Record], count: int, rows: dict[str, Contestant]) -> None:
    """The table of one lab size, and what was to be reached."""
    out.print()
    for phase in PHASES:
        out.print(table(records, count, phase, rows))
        out.print()
    out.print(NOTE.format(cores=os.cpu_count()))
    for text, reached in goals(records, count) if count >= 60 else ():
        out.print(f"  {'reached' if reached else '[bold red]missed[/] '}  {text}")
    out.print()


if __name__ == "__main__":
    sys.exit(main())
