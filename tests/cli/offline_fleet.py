"""`fleet` as an operator types it, on files alone: nothing is contacted."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cli.main import app

PROJECT = Path(__file__).resolve().parents[2]
MODELS = PROJECT / "lab" / "models"
NODES = PROJECT / "inventory" / "recorded"


@dataclass(frozen=True)
class Said:
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output as one document."""
        return json.loads(self.out)


def fleet(*words: str | Path) -> Said:
    """One run of `fleet` on files, in this process. What it raises is a traceback to an operator, so it is raised."""
    ran = CliRunner().invoke(app, [*map(str, words)])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return Said(ran.exit_code, ran.stdout, ran.stderr)


def recorded_fleet(*words: str | Path) -> Said:
    """One run on the recorded fleet, in a process of its own, whose sockets it patches."""
    program = Path(sys.executable).with_name("fleet")
    env = {**os.environ, "FLEET": "recorded"}
    ran = subprocess.run([program, *words], cwd=PROJECT, env=env, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in ran.stderr, ran.stderr
    return Said(ran.returncode, ran.stdout, ran.stderr)
