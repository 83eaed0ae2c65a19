"""A real vLLM for tests, installed by the first that asks. Skipped, or failed on CI, where this machine cannot."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import host
from lab.engine import venv
from lab.engine.interpreter import Interpreter, interpreter


def _progress(text: str) -> None:
    print(text, file=sys.stderr)


@pytest.fixture(scope="session")
def engine_fit() -> None:
    """Skip, or fail on CI, where this machine cannot run the CPU build."""
    reason = venv.unfit()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def engine_python(engine_fit: None) -> Path:
    """The Python interpreter of the installed vLLM (`venv.DEFAULT`), with which an engine can be started."""
    return venv.ensure(venv.DEFAULT, _progress)


@pytest.fixture(scope="session")
def engine_of(engine_fit: None) -> Iterator[Callable[[str], Interpreter]]:
    """`engine_of("0.33.0")`: how to run Python with that version's code (parser, configs, model classes)."""

    def find(version: str) -> Interpreter:
        try:
            return interpreter(version, _progress)
        except host.LabError as error:
            if os.environ.get("CI") == "true":
                pytest.fail(str(error))
            pytest.skip(str(error))

    yield find
