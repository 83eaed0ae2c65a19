"""What tests of several rooms share."""

import os
from collections.abc import Iterator

import pytest
from elsewhere import Elsewhere

from lab import host


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
