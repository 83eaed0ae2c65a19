"""The recordings in the repository are whole, tell what was asked, and name nothing of the machine that recorded."""

import re
from pathlib import Path

import pytest

from cli.record import RECORDED
from facts.parse.frames import parse_frames
from facts.scrub import NONCE, read_recording, recorded

RECORDINGS = sorted(RECORDED.glob("*.probe"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_is_whole_and_scrubbed(path: Path) -> None:
    text = path.read_text()
    recording = read_recording(text)
    assert {section.code for section in parse_frames(recording.text, NONCE).values()} <= {0, None}
    assert recorded(recording.text, recording.request) == text
    assert not re.search(r"GPU-[0-9a-f]{8}-|serial|^kernel=|^boot_id=", text, re.IGNORECASE | re.MULTILINE)


def test_every_recorded_node_has_a_recording() -> None:
    assert [path.stem for path in RECORDINGS] == sorted(path.stem for path in RECORDED.glob("*.yaml"))
