import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import app


def ab(*words: str) -> Result:
    return CliRunner().invoke(app, ["ab", *words])


def arm(pool: int, bad: int) -> dict[str, object]:
    def probe(name: str, **details: object) -> dict[str, object]:
        return {"probe": name, "passed": bad < 2, "degraded": bad >= 2, "details": details}

    level = {"concurrency": 4, "rate": None, "output_tokens_per_s": 90.0}
    level |= {"ttft_s": {"p50": 0.1, "p99": 0.2}, "tpot_s": {"p50": 0.01, "p99": 0.02}}
    return {
        "node": "a1",
        "service": "glm",
        "release": f"{pool:016x}",
        "measured": {"kv_cache_size_tokens": str(pool)},
        "evidence": [probe("degeneration", bad=bad, trials=40), probe("speed", levels=[level])],
    }


def asked(folder: Path, control: dict[str, object], other: dict[str, object]) -> Path:
    folder.mkdir()
    about = {"service": "glm", "node": "a1", "fleet": None, "data": ["partition=41,37"]}
    for name, document in (("about", about), ("control", control), ("arm", other)):
        (folder / f"{name}.json").write_text(json.dumps(document))
    return folder


def test_a_verdict_is_told_as_a_table_and_written_in_three_forms(tmp_path: Path) -> None:
    folder = asked(tmp_path / "ab", arm(1000, 0), arm(1300, 0))
    done = ab("verdict", "glm", "a1", "--folder", str(folder), "--pool-gain", "20")
    assert done.exit_code == 0, done.output
    assert "verdict: adopt" in done.stdout
    assert json.loads((folder / "verdict.json").read_text())["adopt"] is True
    markdown, page = ((folder / f"verdict.{kind}").read_text() for kind in ("md", "html"))
    assert "| KV pool (tokens) | 1,000 | 1,300 | +30.0 % | - | yes | at least +20 % |" in markdown
    assert page.count("<svg") == 3 and "http" not in page, "plots, and nothing from elsewhere"


def test_a_worse_arm_exits_with_2(tmp_path: Path) -> None:
    folder = asked(tmp_path / "ab", arm(1000, 0), arm(1300, 9))
    done = ab("verdict", "glm", "a1", "--folder", str(folder), "--json")
    assert done.exit_code == 2
    told = json.loads(done.stdout)
    assert told["decision"].startswith("go back: probe degeneration, probe speed, degenerate answers")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("verdict", "glm", "a1"), "want --data NAME=VALUE"),
        (("verdict", "glm", "a1", "--data", "tp=2"), "want control and arm asked"),
        (("boot", "glm", "a1", "--data", "tp=2"), "want a control to compare with"),
        (("verify", "glm", "a1", "--data", "tp=2"), "want a booted arm"),
        (("verdict", "glm", "a1", "--data", "tp=2", "--tpot-loss", "-1"), "--tpot-loss: "),
    ],
)
def test_a_step_that_has_nothing_to_stand_on_says_which_comes_first(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    done = ab(*words, "--folder", str(tmp_path / "ab"))
    assert done.exit_code == 1
    assert says in done.stderr
    assert (tmp_path / "ab").exists() == ("--data" in words), "nothing is begun that cannot be"


def begun(folder: Path, **fields: object) -> Path:
    """An A/B of which a verb was begun and did not end."""
    asked(folder, arm(1, 0), arm(2, 0))
    running = {"holder": "me@here pid 7", "pid": 7, "host": socket.gethostname(), **fields}
    (folder / "running.json").write_text(json.dumps(running))
    return folder


def test_a_verb_that_runs_still_is_not_run_beside_itself(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()", "/bin/pyinfra"], stdin=subprocess.PIPE) as other:
        folder = begun(tmp_path / "ab", pid=other.pid)
        done = ab("boot", "glm", "a1", "--folder", str(folder))
        other.communicate(b"\n")
    assert done.exit_code == 1 and "runs still, as me@here pid 7; wait for it" in done.stderr
    assert (folder / "running.json").exists()


def test_a_verb_that_was_begun_on_another_machine_is_told(tmp_path: Path) -> None:
    folder = begun(tmp_path / "ab", host="elsewhere")
    done = ab("control", "glm", "a1", "--folder", str(folder))
    assert done.exit_code == 1 and "see whether it runs there still" in done.stderr


def test_a_folder_keeps_one_a_b(tmp_path: Path) -> None:
    folder = asked(tmp_path / "ab", arm(1, 0), arm(2, 0))
    other = ab("verdict", "glm", "a1", "--folder", str(folder), "--data", "partition=40,38")
    elsewhere = ab("verdict", "glm", "h1", "--folder", str(folder))
    assert (other.exit_code, elsewhere.exit_code) == (1, 1)
    assert "use another --folder" in other.stderr
    assert "found glm on a1" in elsewhere.stderr


@pytest.mark.parametrize("verb", ["preflight", "control", "boot", "verify", "verdict", "restore", "run"])
def test_every_step_is_told_which_a_b_by_the_same_words(verb: str) -> None:
    done = ab(verb, "--help")
    assert done.exit_code == 0
    for option in ("--data", "--folder", "--fleet"):
        assert option in done.stdout
    assert ("--trials" in done.stdout) == (verb in ("control", "verify", "run"))
    assert ("--tpot-loss" in done.stdout) == (verb in ("verdict", "run"))


@pytest.mark.parametrize(
    "fields", [{"evidence": 3}, {"evidence": [{"probe": "speed", "details": {"levels": 4}}]}, {"gpus": 1.5}]
)
def test_a_row_that_is_none_of_verify_is_told(tmp_path: Path, fields: dict[str, object]) -> None:
    folder = asked(tmp_path / "ab", arm(1, 0), {**arm(2, 0), **fields})
    done = ab("verdict", "glm", "a1", "--folder", str(folder))
    assert done.exit_code == 1
    assert "want control.json and arm.json of" in done.stderr and "ask again" in done.stderr


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"node": "a1"}', "[" * 100_000])
def test_a_document_that_was_damaged_is_told(tmp_path: Path, text: str) -> None:
    folder = asked(tmp_path / "ab", arm(1, 0), arm(2, 0))
    (folder / "arm.json").write_text(text)
    done = ab("verdict", "glm", "a1", "--folder", str(folder))
    assert done.exit_code == 1
    assert "arm.json: want JSON as it was written" in done.stderr
