import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app


def lines(*answers: object) -> str:
    return "".join(json.dumps(answer) + "\n" for answer in answers)


GOOD = {"text": "It is 4.", "finish_reason": "stop", "max_tokens": 64}
LOOP = {"text": "It is 4." + " So it is 4 again." * 30, "finish_reason": "length", "max_tokens": 200}


def run(path: Path, text: str, *flags: str) -> tuple[int, list[dict[str, object]], str]:
    path.write_text(text)
    done = CliRunner().invoke(app, ["degenerate", str(path), *flags])
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_each_answer_gets_a_line(tmp_path: Path) -> None:
    code, said, _ = run(tmp_path / "a.jsonl", lines(GOOD, LOOP) + "\n")
    assert code == 0
    assert [line["degenerate"] for line in said] == [False, True]
    assert all(set(line) == {"degenerate", "why"} and line["why"] for line in said)


def test_a_gate_exits_with_2_where_an_answer_is_degenerate(tmp_path: Path) -> None:
    assert run(tmp_path / "a.jsonl", lines(GOOD, LOOP), "--gate")[0] == 2
    assert run(tmp_path / "a.jsonl", lines(GOOD, GOOD), "--gate")[0] == 0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "want JSON"),
        ("[1]", "want an object"),
        ("{}", "text: want a string"),
        ('{"text": 4}', "text: want a string, found 4"),
        ('{"text": "a", "finish_reason": 1}', "finish_reason: want"),
        ('{"text": "a", "max_tokens": 0}', "max_tokens: want"),
        ('{"text": "a", "max_tokens": true}', "max_tokens: want"),
    ],
)
def test_a_line_that_is_no_answer_is_told_and_the_others_are_judged(tmp_path: Path, line: str, says: str) -> None:
    code, said, errors = run(tmp_path / "a.jsonl", lines(GOOD) + line + "\n" + lines(LOOP))
    assert code == 1
    assert [each["degenerate"] for each in said] == [False, None, True]
    assert f"a.jsonl:2: {says}" in errors


def test_no_file_and_no_answer_are_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["degenerate", str(tmp_path / "absent")])
    assert done.exit_code == 1
    assert "absent: want a file" in done.stderr
    assert run(tmp_path / "a.jsonl", "\n")[0] == 1


def test_bytes_that_are_no_utf_8_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "\xff"}\n')
    done = CliRunner().invoke(app, ["degenerate", str(tmp_path / "a.jsonl")])
    assert done.exit_code == 1
    assert "a.jsonl:1: want JSON" in done.stderr
