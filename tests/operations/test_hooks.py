"""A hook of the owner on the controller: what it said, and that it cannot keep a rollout waiting."""

import os
import time
from pathlib import Path

import pytest

from operations import drain


def call(script: str) -> str | None:
    return drain._on_controller(("sh", "-c", script))


def test_a_hook_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "HOOK_TIMEOUT_S", 1)
    assert call(f"sleep 600 & echo $! >{tmp_path}/child; wait") == "it did not end within 1 s"
    child = int((tmp_path / "child").read_text())
    for _ in range(100):  # init takes it over and reaps it
        try:
            state = Path(f"/proc/{child}/stat").read_text().split()[2]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"the hook's child {child} still runs")


def test_what_a_hook_leaves_running_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "HOOK_TIMEOUT_S", 5)
    assert call(f"sleep 600 & echo $! >{tmp_path}/child") is None
    os.kill(int((tmp_path / "child").read_text()), 9)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo out; echo err >&2; exit 3", "exit 3: out\nerr"),
        ("kill -9 $$", "exit -9: "),
        ("printf '\\377' ; exit 1", "exit 1: \N{REPLACEMENT CHARACTER}"),
        ("cat; echo done", None),
    ],
)
def test_a_hook_that_fails_is_told_with_what_it_said(script: str, told: str | None) -> None:
    assert call(script) == told


def test_of_a_long_story_the_end_is_told() -> None:
    told = call("seq 100000; echo last >&2; exit 1")
    assert told is not None and told.endswith("100000\nlast") and len(told) < 600
