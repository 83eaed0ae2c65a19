"""What tests of several rooms share: no deadlines on shared machines, no quiet skips on CI, a machine of one's own."""

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from elsewhere import Elsewhere
from hypothesis import settings

from lab import host

settings.register_profile("here", deadline=None)
settings.load_profile("here")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A lab or engine test that is skipped on CI has not shown what it is there to show: it fails with the reason."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and _must_run(item):
        report.outcome = "failed"
        report.longrepr = f"skipped on CI: {report.longrepr}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that need hosts come first: they take minutes each, and none should be left to one worker at the end."""
    slow = {item.path for item in items if item.get_closest_marker("lab")}
    items.sort(key=lambda item: item.path not in slow)


def _must_run(item: pytest.Item) -> bool:
    return bool(item.get_closest_marker("lab") or item.get_closest_marker("engine"))


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    """A machine of the module's own with a fresh clone. Skipped, or failed on CI, where this one cannot boot hosts."""
    reason = host.unfit()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    machine = Elsewhere(tmp_path_factory.mktemp("elsewhere") / "vllm-fleet")
    yield machine
    machine.end()
