"""One A/B and the folder that keeps it: what was done is a file there, so that one that was interrupted goes on."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import typer

PROJECT = Path(__file__).resolve().parent.parent
WANTED = {
    "about.json": ("service", "node", "fleet", "data"),
    "control.json": ("release",),
    "arm.json": ("release",),
    "booting.json": ("control",),
    "booted.json": ("control", "release"),
}
"""Fields without which a document of an A/B says nothing."""


def fail(text: str) -> NoReturn:
    """Say why on stderr and leave with 1."""
    typer.echo(text, err=True)
    raise typer.Exit(1)


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
        command = [str(Path(sys.executable).parent / "pyinfra"), "inventory.py", verb, "--limit", self.node]
        for word in (f"service={self.service}", *(self.data if arm else ()), *words):
            command += ["--data", word] if not word.startswith("-") else [word]
        typer.echo(f"+ {' '.join(command[1:])}", err=True)
        environ = {**os.environ, **({"FLEET": self.fleet} if self.fleet else {})}
        return subprocess.run(
            command, cwd=PROJECT, env=environ, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
        ).returncode

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
