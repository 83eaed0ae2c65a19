"""One A/B and the folder that keeps it: what was done is a file there, so that one that was interrupted goes on."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname
from typing import Any

import typer

from cli.machine import fail
from operations.holder import holder

BIN = Path(sys.executable).parent
PROJECT = Path(__file__).resolve().parent.parent
WANTED = {
    "about.json": ("service", "node", "fleet", "data"),
    "control.json": ("release",),
    "arm.json": ("release",),
    "booting.json": ("control",),
    "booted.json": ("control", "release"),
    "running.json": ("holder", "pid", "host"),
}
"""Fields without which a document of an A/B says nothing."""


def runs(pid: object) -> bool:
    """Is this process a pyinfra that runs? Its number may be another's by now."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return any(word.endswith(b"/pyinfra") for word in words) if words != [b""] else False
    except OSError:
        return False


@dataclass(frozen=True)
class Outcome:
    """What came of a step."""

    code: int = 0
    said: str | None = None
    """Why the code is not 0, or why nothing was to be done."""
    files: tuple[str, ...] = ()
    """Documents of the folder that tell more."""
    verdict: dict[str, Any] | None = None
    """That of a step which ends with one."""


@dataclass
class Trial:
    """One A/B and the folder that keeps it."""

    service: str
    node: str
    folder: Path
    fleet: str | None
    data: list[str] = field(default_factory=list)

    def pyinfra(self, verb: str, *words: str, arm: bool = False) -> int:
        """Run a verb of the fleet on this node and service; its exit code. `arm`: with what makes the arm."""
        command = [str(BIN / "pyinfra"), "inventory.py", verb, "--limit", self.node]
        for word in (f"service={self.service}", *(self.data if arm else ()), *words):
            command += ["--data", word] if not word.startswith("-") else [word]
        typer.echo(f"+ {' '.join(command[1:])}", err=True)
        self._unlock_after_a_dead_one()
        with self._started(command) as running:
            self.write("running.json", {"holder": holder(running.pid), "pid": running.pid, "host": gethostname()})
            code = running.wait()
        self.path("running.json").unlink()
        return code

    def _started(self, command: list[str]) -> "subprocess.Popen[bytes]":
        environ = {**os.environ, **({"FLEET": self.fleet} if self.fleet else {})}
        return subprocess.Popen(command, cwd=PROJECT, env=environ, stdin=subprocess.DEVNULL, stdout=sys.stderr)

    def _unlock_after_a_dead_one(self) -> None:
        """Give the node's lock back that a verb of this A/B held when it was killed; its lease would last on.

        Exits 1 where that verb runs still, or ran on another machine, which cannot be asked.
        """
        last = self.read("running.json")
        if last is None:
            return
        if last["host"] != gethostname():
            fail(
                f"{self.folder}: a verb of this A/B was begun as {last['holder']} and did not end; see whether it runs "
                f"there still, then remove {self.path('running.json')}"
            )
        if runs(last["pid"]):
            fail(f"{self.folder}: a verb of this A/B runs still, as {last['holder']}; wait for it, or end it")
        # It says who holds the node, and leaves the lock of anybody else alone; then the verb itself is refused.
        self._started([str(BIN / "fleet"), "unlock", self.node, "--yes", "--holder", last["holder"]]).wait()
        self.path("running.json").unlink()

    def path(self, name: str) -> Path:
        return (self.folder / name).absolute()

    def read(self, name: str) -> Any:
        """A document of this A/B; None where that step was not done."""
        try:
            document = json.loads(self.path(name).read_text())
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):
            document = None
        wanted = WANTED.get(name, ())
        if not isinstance(document, dict) or not all(field in document for field in wanted):
            fail(f"{self.path(name)}: want JSON as it was written, found other text; remove it and do that step again")
        return document

    def write(self, name: str, document: Any) -> None:
        """Appears by rename: a step that was interrupted is not done."""
        new = self.path(f".{name}.new")
        new.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        new.rename(self.path(name))


def trial_of(service: str, node: str, folder: Path | None, fleet: str | None, data: list[str] | None) -> Trial:
    """The A/B in its folder. Exits 1 where the folder has another one."""
    trial = Trial(service, node, folder or Path("ab") / f"{service}-{node}", fleet, sorted(data or []))
    about = {"service": service, "node": node, "fleet": fleet, "data": trial.data}
    there = trial.read("about.json")
    if there is None:
        if not data:
            fail(f"{trial.folder}: want --data NAME=VALUE, what makes the arm, or an A/B that was begun; found neither")
        trial.folder.mkdir(parents=True, exist_ok=True)
        trial.write("about.json", about)
    elif data and there != about:
        fail(f"{trial.folder}: want an A/B of {about}, found one of {there}; use another --folder, or remove that one")
    elif there is not None:
        trial.data = [str(word) for word in there["data"]]
        if (there["service"], there["node"]) != (service, node):
            fail(f"{trial.folder}: want an A/B of {service} on {node}, found {there['service']} on {there['node']}")
    return trial
