"""Python looks for cycles seldom: from the first module on where make venv made it, from the inventory on elsewhere."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from declare.garbage import SEARCH_AFTER, search_seldom

PROJECT = Path(__file__).resolve().parents[2]
ASK = "import gc; print(gc.get_threshold()[0])"


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_it_is_set_for_what_is_loaded_from_now_on() -> None:
    gc.set_threshold(700)
    search_seldom()
    assert gc.get_threshold()[0] == SEARCH_AFTER


def test_the_environment_that_make_venv_makes_begins_with_the_same() -> None:
    assert f"gc.set_threshold({SEARCH_AFTER:_})" in (PROJECT / "lab/make-venv.sh").read_text()
    if Path(sys.prefix) == PROJECT / ".venv":
        assert subprocess.check_output([sys.executable, "-c", ASK], text=True).strip() == str(SEARCH_AFTER)
