"""What is kept of a node's answer, and that the recordings in the repository are such."""

import re
from pathlib import Path

import pytest

from cli.record import NONCE, RECORDED, scrubbed
from facts.parse.frames import parse_frames

RECORDINGS = sorted(RECORDED.glob("*.probe"))


def test_what_names_the_recording_machine_is_left_out() -> None:
    answer = "==00112233445566aa host begin\nnow=1\nhostname=a1\nboot_id=x-y\nkernel=6.1\n\n==00112233445566aa done\n\n"
    assert scrubbed(answer) == f"=={NONCE} host begin\nnow=1\nhostname=a1\n\n=={NONCE} done\n"


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_is_whole_and_scrubbed(path: Path) -> None:
    text = path.read_text()
    assert {section.code for section in parse_frames(text, NONCE).values()} <= {0, None}
    assert scrubbed(text) == text
    assert not re.search(r"GPU-[0-9a-f]{8}-|serial", text, re.IGNORECASE), "no UUID, no serial number"


def test_every_recorded_node_has_a_recording() -> None:
    assert [path.stem for path in RECORDINGS] == sorted(path.stem for path in RECORDED.glob("*.yaml"))
