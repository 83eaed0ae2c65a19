"""The real vLLM that engine tests run on."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import host
from lab.engine import venv
from lab.engine.interpreter import Interpreter

pytestmark = pytest.mark.engine
ASK = "import vllm; from importlib.metadata import version; print(vllm.__version__, version('vllm'), vllm.__file__)"


def _told(python: Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run([python, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_installed_engine_is_the_version_that_was_asked_for(engine_of: Callable[[str], Interpreter]) -> None:
    found = engine_of(venv.DEFAULT)
    version, distribution, file = _told(found.python, found.environment)
    assert (version, distribution) == (venv.DEFAULT, f"{venv.DEFAULT}+cpu")
    assert Path(file).is_relative_to(found.python.parent.parent)


def test_the_source_of_another_version_comes_before_the_installed_one(engine_of: Callable[[str], Interpreter]) -> None:
    found = engine_of("0.33.0")
    version, distribution, file = _told(found.python, found.environment)
    assert (version, distribution) == ("0.33.0", "0.33.0+cpu")
    assert not Path(file).is_relative_to(found.python.parent.parent)


def test_scripts_of_the_environment_run_from_where_it_lies(engine_python: Path) -> None:
    done = subprocess.run([engine_python.parent / "vllm", "--version"], capture_output=True, text=True, check=True)
    assert venv.DEFAULT in done.stdout


def test_the_libraries_that_do_not_fit_its_torch_are_gone(engine_python: Path) -> None:
    asked = [engine_python, "-m", "pip", "list", "--format", "freeze"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert "vllm==" in listed and not any(f"{name}==" in listed for name in venv.REMOVED)


def test_a_version_that_does_not_exist_is_told_with_pips_words(engine_fit: None, tmp_path: Path) -> None:
    with pytest.raises(host.LabError, match="want a full one such as"):
        venv.ensure("0.30", print)
