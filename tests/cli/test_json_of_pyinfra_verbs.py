"""`pyinfra inventory.py VERB --json`: stdout has one document of ours, whatever way the run ends."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from offline_fleet import PROJECT

PYINFRA = Path(sys.executable).with_name("pyinfra")
VERBS = ("deploy", "rollback", "gates", "audit", "verify", "deliver", "bootstrap")


def environment(fleet: str | Path) -> dict[str, str]:
    return {**os.environ, "FLEET": str(fleet), "NO_COLOR": "1"}


def run(*words: str, fleet: str | Path = "recorded", code: int = 1) -> tuple[Any, str]:
    """The document on stdout, and what people read on stderr."""
    command = [PYINFRA, "inventory.py", *words, "--json"]
    done = subprocess.run(
        command, cwd=PROJECT, env=environment(fleet), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == code and "Traceback" not in done.stderr, done
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_value_is_a_document_of_every_verb(verb: str) -> None:
    told, read = run(f"{verb}.py", "--data", "tp=x", "--data", "pp=0")
    wrong = ['--data tp: want an integer >= 1, found "x"', "--data pp: want an integer >= 1, found 0"]
    assert told == {"verb": verb, "stopped": "refused, nothing was changed", "errors": wrong}
    assert all(line in read for line in wrong)


def test_what_is_refused_before_the_inventory_is_read_is_a_document_too() -> None:
    told, _ = run("deploy.py", "--data", "tp")
    assert told["errors"] == ["--data tp: want NAME=VALUE, found no ="]


def test_gates_that_refuse_a_rollout_are_in_the_document_as_in_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    told, read = run("deploy.py", "-y", "--data", "max_model_len=999999999", "--data", f"report={report}")
    assert told == json.loads(report.read_text())
    assert told["verb"] == "deploy" and told["stopped"].startswith("refused by ") and told["stopped"] in read
    failing = {(v["node"], v["want"]) for v in told["verdicts"] if v["gate"] == "max-model-len"}
    assert ("h1", "at most 131072 tokens") in failing
    assert "fail  max-model-len: want at most 131072 tokens" in read, "people read the table on stderr"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full disk is shown by /dev/full")
@pytest.mark.parametrize("words", [("deploy", "--dry"), ("gates",), ("audit",)])
def test_a_full_disk_takes_the_file_and_not_the_document_on_stdout(words: tuple[str, ...]) -> None:
    verb, *more = words
    told, read = run(f"{verb}.py", *more, "--data", "report=/dev/full")
    assert told["verb"] == verb and told.get("stopped") is None and len(told) > 3
    assert "could not be written: [Errno 28] No space left on device" in read


@pytest.mark.parametrize("how", [("--dry",), ()])
def test_a_look_is_a_document_of_its_plan_and_changes_nothing(how: tuple[str, ...]) -> None:
    """Without -y nobody could confirm, and pyinfra only looks."""
    told, read = run("deploy.py", *how, code=0)
    assert told["stopped"] is None and "Dry run: nothing was changed" in read
    assert {(c["node"], c["kind"]) for c in told["changes"]} == {(node, "create") for node in ("a1", "h1", "l1")}


def test_a_run_that_fails_while_it_changes_is_one_document() -> None:
    told, _ = run("deploy.py", "-y")
    assert "a recorded node can be planned, not changed" in told["stopped"]
    assert {row["status"] for row in told["results"]} == {"untouched"}


def test_every_other_verb_tells_its_own_document() -> None:
    assert run("gates.py", code=0)[0]["passed"] is True
    assert run("audit.py", code=2)[0]["exit"] == 2
    assert "want a release before the current one" in run("rollback.py")[0]["stopped"]
    assert {row["status"] for row in run("deliver.py")[0]["results"]} == {"unreachable"}
    assert [node["status"] for node in run("bootstrap.py")[0]["nodes"]] == ["unreachable"] * 3


def one_node(folder: Path, port: int) -> Path:
    node = f"address: 127.0.0.1\nssh: {{port: {port}}}\ngpus: {{count: 1, model: NVIDIA L40S, memory_mib: 46068}}\n"
    (folder / "n1.yaml").write_text(node)
    return folder


def test_a_fleet_of_which_nobody_answers_is_a_document_with_the_reason(tmp_path: Path) -> None:
    told, _ = run("deploy.py", "-y", fleet=one_node(tmp_path, 9))
    assert told["verb"] == "deploy" and told["stopped"] == "No hosts remaining!"
    assert any("[n1] Could not connect" in line for line in told["errors"]), told


def test_a_run_that_is_left_while_it_connects_is_a_document(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        fleet = one_node(tmp_path, silent.getsockname()[1])
        command = [PYINFRA, "inventory.py", "deploy.py", "-y", "--json"]
        with subprocess.Popen(command, cwd=PROJECT, env=environment(fleet), stdout=-1, stderr=-1, text=True) as left:
            silent.settimeout(60)
            with silent.accept()[0]:
                left.send_signal(signal.SIGTERM)
                out, _ = left.communicate(timeout=30)
    stopped = "SIGTERM: left before anything was looked at; nothing was changed"
    assert left.returncode == 1 and json.loads(out) == {"verb": "deploy", "stopped": stopped, "errors": []}
