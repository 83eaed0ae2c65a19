"""Runs the stand-in engine as a process of this machine, on 127.0.0.1 only, without a container."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
READY = "Application startup complete."
LISTENING = "Starting vLLM server on "


class NotReady(Exception):
    """The engine ended, or was not ready in time; the text has its output."""


class Engine:
    """An engine that was started. It is killed at the end of its `with`."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def output(self) -> str:
        """What it printed so far, stdout and stderr in order."""
        return self._output.read_text(errors="replace")

    @property
    def url(self) -> str:
        """http://127.0.0.1:PORT, once it listens."""
        return self.output.split(LISTENING)[1].split()[0]

    def wait_ready(self, within_s: float = 20.0) -> None:
        end = time.monotonic() + within_s
        while READY not in self.output:
            if self.process.poll() is not None:
                raise NotReady(f"the engine exited with {self.process.returncode}:\n{self.output}")
            if time.monotonic() > end:
                raise NotReady(f"the engine is not ready after {within_s:g} s:\n{self.output}")
            time.sleep(0.01)


@contextmanager
def started(model: Path, *flags: str, environ: Mapping[str, str] | None = None) -> Iterator[Engine]:
    """`vllm serve MODEL FLAGS` of the stand-in, on a free port; it may still load when this gives it."""
    command = [sys.executable, "-m", "lab.standin", "serve", str(model), "--host", "127.0.0.1", "--port", "0"]
    env = {key: value for key, value in os.environ.items() if not key.startswith("VLLM_")} | dict(environ or {})
    with tempfile.TemporaryDirectory(prefix="vllm-standin-") as folder:
        output = Path(folder) / "output"
        with output.open("wb") as out:
            process = subprocess.Popen([*command, *flags], cwd=PROJECT, env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield Engine(process, output)
        finally:
            process.kill()
            process.wait()


@contextmanager
def running(model: Path, *flags: str, environ: Mapping[str, str] | None = None) -> Iterator[Engine]:
    """The same, once it serves. Raises NotReady."""
    with started(model, *flags, environ=environ) as engine:
        engine.wait_ready()
        yield engine
