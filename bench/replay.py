"""`python -m bench.replay`: every gate of a thousand recorded nodes, by the verb, without a lab."""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import yaml

from fleet.gate import catalogue

PROJECT = Path(__file__).resolve().parent.parent
RECORDED = PROJECT / "inventory" / "recorded"
REPLAY_S = 10.0
"""In so many seconds a thousand nodes are to be replayed, with all gates."""


class Replay(NamedTuple):
    """One run: seconds on the clock, and of the CPU."""

    wall_s: float
    cpu_s: float


def recorded_fleet(count: int, folder: Path) -> Path:
    """So many nodes, each with a recording of its own, made from the recorded ones of the project."""
    shutil.rmtree(folder, ignore_errors=True)
    fleet = folder / "inventory" / "many"
    shutil.copytree(RECORDED / "group_data", fleet / "group_data")
    shutil.copyfile(RECORDED / "standin.digest", fleet / "standin.digest")
    kinds = sorted(RECORDED.glob("*.yaml"))
    for number in range(count):
        kind = kinds[number % len(kinds)]
        name = f"{kind.stem}-{number}"
        declared = yaml.safe_load(kind.read_text())
        address = f"10.{number // 65000}.{number // 250 % 250}.{number % 250 + 1}"
        declared |= {"address": address, "recording": f"{name}.probe"}
        (fleet / f"{name}.yaml").write_text(yaml.safe_dump(declared))
        shutil.copyfile(kind.with_suffix(".probe"), fleet / f"{name}.probe")
    return fleet


def replay(fleet: Path, count: int) -> Replay:
    """`pyinfra inventory.py gates.py` once. RuntimeError where it did not judge so many nodes."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [
            str(Path(sys.executable).parent / "pyinfra"),
            "inventory.py",
            "gates.py",
            "--data",
            f"report={fleet}/told.json",
        ],
        cwd=PROJECT,
        env={**os.environ, "NO_COLOR": "1", "FLEET": str(fleet)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    passed = re.search(r"^(\d+) pass$", ran.stdout, re.MULTILINE)
    if ran.returncode != 0 or passed is None or int(passed[1]) < count * len(catalogue()) // 2:
        raise RuntimeError(f"want {count} nodes judged and exit 0, found exit {ran.returncode}: {ran.stdout[-600:]}")
    return Replay(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def replays(count: int, runs: int, folder: Path) -> list[Replay]:
    """So many runs on the same nodes. The nodes are written before the clock runs."""
    fleet = recorded_fleet(count, folder)
    return [replay(fleet, count) for _ in range(runs)]


def figures_of(count: int, told: Sequence[Replay]) -> str:
    """What was measured, in one line: medians."""
    wall, cpu = median(one.wall_s for one in told), median(one.cpu_s for one in told)
    return (
        f"replay of {count} recorded nodes with all gates: {wall:.2f} s, {count / wall:.0f} nodes/s, "
        f"{cpu:.2f} s of CPU (median of {len(told)})"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print. 1 where it took longer than it is to take."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__.partition("\n")[0])
    parser.add_argument("--recorded", type=int, default=1000, help="recorded nodes that are replayed")
    parser.add_argument("--runs", type=int, default=3, help="the median counts")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        told = replays(asked.recorded, asked.runs, Path(folder))
    print(figures_of(asked.recorded, told))
    limit = REPLAY_S * max(1.0, asked.recorded / 1000)
    reached = median(one.wall_s for one in told) < limit
    print(f"  {'reached' if reached else 'missed'}  under {limit:.0f} s")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
