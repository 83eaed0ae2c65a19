"""Who is compared, how each is called in each phase, and what its output must say to count."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.peers import HERE, VENV
from bench.site import CHANGED, BenchSite

Phase = Literal["first", "same", "dry"]
PHASES: dict[Phase, str] = {"first": "first roll", "same": "no change", "dry": "dry run with diff"}


@dataclass(frozen=True)
class Ground:
    """What a contestant is called with: the site, the folder of the peers' files, the number of hosts."""

    site: BenchSite
    peers: Path
    hosts: int


@dataclass(frozen=True)
class Contestant:
    """One row. `wrong` gives the reason why an output is not that of a job well done, or None."""

    name: str
    title: str
    command: Callable[[Ground, Phase], list[str]]
    wrong: Callable[[Ground, Phase, str], str | None]
    env: Callable[[Ground], dict[str, str]] = field(default=lambda ground: {})
    ours: bool = False


def contestants() -> dict[str, Contestant]:
    """Every row by name, this project first."""
    rows = [
        _ours("ours", "vllm-fleet", "bare"),
        _ours("policy", "vllm-fleet, default policy", "default"),
        _floor("floor", "floor: one script, same facts"),
        _floor("lean", "floor: one script, few facts"),
        _ansible("ansible", "ansible-core", "playbook.yml", "ansible.cfg"),
        _ansible("mitogen", "ansible-core with mitogen", "playbook.yml", "mitogen.cfg"),
        _ansible("raw", "ansible-core, one raw task", "raw.yml", "ansible.cfg"),
    ]
    return {row.name: row for row in rows}


def _ours(name: str, title: str, policy: str) -> Contestant:
    def command(ground: Ground, phase: Phase) -> list[str]:
        words = [str(Path(sys.executable).parent / "pyinfra"), "inventory.py", "deploy.py"]
        if phase == "dry":
            return [*words, "--dry", "--diff", *(w for k, v in CHANGED.items() for w in ("--data", f"{k}={v}"))]
        return [*words, "-y"]

    def wrong(ground: Ground, phase: Phase, out: str) -> str | None:
        plan = f"Plan: {0 if phase == 'same' else ground.hosts} to change"
        end = {"first": "Result", "same": "Nothing to change", "dry": "nothing was changed, no lock was taken"}[phase]
        for text in (plan, end):
            if text not in out:
                return f"want {text!r}"
        proven = len(re.findall(r"\bproven\b", out))
        if phase == "first" and proven != ground.hosts:
            return f"want {ground.hosts} proven, found {proven}"
        return "want a difference" if phase == "dry" and not re.search(r"^\+\S", out, re.MULTILINE) else None

    return Contestant(name, title, command, wrong, lambda ground: {"FLEET": str(ground.site.fleet(policy))}, ours=True)


def _floor(name: str, title: str) -> Contestant:
    def command(ground: Ground, phase: Phase) -> list[str]:
        which = "next" if phase == "dry" else "now"
        return [str(VENV / "bin/python"), str(HERE / "floor.py"), str(ground.peers / f"{name}-{which}.json")]

    return Contestant(name, title, command, _wrong_floor)


def _wrong_floor(ground: Ground, phase: Phase, out: str) -> str | None:
    changed = 0 if phase == "same" else ground.hosts
    want = f"hosts={ground.hosts} changed={changed} failed=0"
    return None if want in out else f"want {want}"


def _ansible(name: str, title: str, playbook: str, settings: str) -> Contestant:
    def command(ground: Ground, phase: Phase) -> list[str]:
        which = "next" if phase == "dry" else "now"
        words = [str(VENV / "bin/ansible-playbook"), str(HERE / playbook)]
        words += ["-e", f"files={ground.site.rendered(which)}", "-e", f"scripts={ground.peers / which}"]
        # One raw task has no difference to show but what its script printed, which -v shows.
        return words if phase != "dry" else [*words, "--check", "--diff", *(["-v"] if playbook == "raw.yml" else [])]

    return Contestant(
        name, title, command, wrong_recap, lambda ground: {"ANSIBLE_CONFIG": str(ground.peers / settings)}
    )


def wrong_recap(ground: Ground, phase: Phase, out: str) -> str | None:
    """Ansible's recap: every host, none failed, and changed where something is to change, nowhere else."""
    rows = re.findall(r"^\S+\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", out, re.MULTILINE)
    if len(rows) != ground.hosts:
        return f"want a recap of {ground.hosts} hosts, found {len(rows)}"
    bad = [row for row in rows if row[1:] != ("0", "0") or (row[0] == "0") != (phase == "same")]
    return f"want changed{'=0' if phase == 'same' else '>0'} on every host, found {bad[0]}" if bad else None
