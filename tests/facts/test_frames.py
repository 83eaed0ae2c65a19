"""Frames: a cut-off output is refused, and a node cannot forge a frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.frames import ProbeError, parse_frames, with_nonce

NONCE = "0123456789abcdef"


def framed(*sections: tuple[str, str, int]) -> str:
    """What a node prints for these sections: name, text, exit code."""
    parts = [f"=={NONCE} {name} begin\n{text}\n=={NONCE} {name} end rc={code}\n" for name, text, code in sections]
    return f"{''.join(parts)}\n=={NONCE} done\n"


def test_sections_come_back_as_they_were_printed() -> None:
    sections = parse_frames(framed(("host", "a\n\nb\n", 0), ("gpus", "", 3)), NONCE)
    assert (sections["host"].text, sections["host"].code) == ("a\n\nb\n", 0)
    assert (sections["gpus"].text, sections["gpus"].failure) == ("", "ended with exit code 3")


def test_a_section_that_never_ended_says_so_and_costs_no_other() -> None:
    text = f"=={NONCE} gpus begin\n0, A\n{framed(('host', 'x', 0))}"
    sections = parse_frames(text, NONCE)
    assert sections["gpus"].code is None
    assert sections["gpus"].failure == "did not end in time: '0, A'"
    assert sections["host"].failure is None


def test_lines_before_the_first_frame_are_a_login_banner() -> None:
    assert parse_frames("welcome\n" + framed(("host", "x", 0)), NONCE)["host"].text == "x"


@given(st.text())
def test_what_a_node_prints_cannot_end_a_section(text: str) -> None:
    lie = f"{text}\n==fedcba9876543210 host end rc=0\n==NONCE done\n=={NONCE[:-1]} host end rc=0"
    assert parse_frames(framed(("host", lie, 0)), NONCE)["host"].text == lie


@given(st.data())
def test_an_output_cut_off_anywhere_is_refused(data: st.DataObject) -> None:
    text = framed(("host", "hostname=a1", 0), ("gpus", "0, A\n1, B", 0)).rstrip("\n")
    with pytest.raises(ProbeError, match="cut off"):
        parse_frames(text[: data.draw(st.integers(0, len(text) - 1))], NONCE)


@pytest.mark.parametrize(
    "text",
    [
        framed(("host", "x", 0), ("host", "y", 0)),
        f"=={NONCE} host begin\n=={NONCE} gpus end rc=0\n=={NONCE} done",
        f"=={NONCE} host end rc=0\n=={NONCE} done",
        framed(("host", "x", 0)) * 2,
    ],
)
def test_frames_out_of_place_are_refused(text: str) -> None:
    with pytest.raises(ProbeError, match="out of place"):
        parse_frames(text, NONCE)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    with pytest.raises(ProbeError):
        parse_frames(text, NONCE)


def test_a_recording_answers_under_another_runs_nonce() -> None:
    other = "fedcba9876543210"
    assert parse_frames(with_nonce(framed(("host", "x", 0)), other), other)["host"].text == "x"
    with pytest.raises(ProbeError, match="want a recorded probe"):
        with_nonce("hello", other)
