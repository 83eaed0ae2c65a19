"""pyinfra numbers operations by lines of code; that it reads no source text for it must change nothing."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from pyinfra.api import arguments, util

from declare.operation_order import read_no_source_lines


@pytest.fixture
def as_pyinfra_has_it() -> Iterator[None]:
    before = util.stack, util.getframeinfo  # AttributeError: pyinfra asks in another way now
    types = arguments.all_global_arguments
    util.stack, util.getframeinfo = inspect.stack, inspect.getframeinfo
    yield
    util.stack, util.getframeinfo = before
    arguments.all_global_arguments = types


def frames() -> list[tuple[str, int]]:
    """Where this is called from, as pyinfra asks for it."""
    return [(frame.filename, frame.lineno) for frame in (util.getframeinfo(item[0]) for item in util.stack())]


def test_frames_keep_their_files_and_line_numbers(as_pyinfra_has_it: Any) -> None:
    found = []
    for skip in (False, True):
        if skip:
            read_no_source_lines()
        found.append(frames())
    assert found[0] == found[1] and found[0][0][0] == __file__


def test_the_types_of_pyinfras_arguments_are_read_once_and_stay_the_same(as_pyinfra_has_it: Any) -> None:
    before = arguments.all_global_arguments()
    read_no_source_lines()
    after = arguments.all_global_arguments()
    assert after == before and arguments.all_global_arguments() is after
