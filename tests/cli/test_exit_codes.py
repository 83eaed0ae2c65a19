"""Exit codes are an interface: 2 means drift or degraded, so a wrong call is 1."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

FLEET = Path(sys.executable).parent / "fleet"
PROJECT = Path(__file__).resolve().parents[2]


def fleet(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "FLEET": "recorded", **env}
    return subprocess.run([FLEET, *words], cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("cmd", "glm", "a1", "--chekc", "x"), "No such option"),
        (("stop",), "Missing argument"),
        (("nothing",), "No such command"),
        (("status", "--limit", "a1"), "No such option"),
        (("topology", "/nonexistent"), "/nonexistent"),
        (("cmd", "glm", "a9"), "want one of a1, h1, l1"),
        (("unlock", "a9"), "want one of a1, h1, l1"),
    ],
)
def test_a_wrong_call_exits_1_and_says_what_is_wrong(words: tuple[str, ...], told: str) -> None:
    done = fleet(*words)
    assert done.returncode == 1 and told in done.stderr, done
    assert "Traceback" not in done.stderr


def test_an_empty_fleet_variable_is_refused_and_not_another_fleet() -> None:
    done = fleet("status", FLEET="")
    assert done.returncode == 1 and "FLEET: want a folder" in done.stderr, done


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_the_terminal_cannot_show_does_not_end_a_run(tmp_path: Path, encoding: str) -> None:
    nodes = tmp_path / "inventory" / "prod"
    shutil.copytree(PROJECT / "inventory" / "recorded", nodes)
    shutil.copy(nodes / "standin.digest", nodes.parent)
    group = nodes / "group_data" / "a100.yaml"
    group.write_text(group.read_text().replace("VLLM_LOGGING_LEVEL: INFO", 'NOTE: "Grüße \U0001f600"'))
    command = [FLEET.parent / "pyinfra", "inventory.py", "deploy.py", "--dry", "--diff", "--limit", "a1"]
    environment = {**os.environ, "FLEET": str(nodes), "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done
    shown = "Grüße" if encoding == "latin-1" else r"Gr\xfc\xdfe"
    assert rf'+NOTE="{shown} \U0001f600"' in done.stdout.decode(encoding)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_an_answer_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    environment = {**os.environ, "FLEET": "recorded"}
    with open("/dev/full", "w") as full:
        command = [FLEET, "topology", "lab/recordings/a100/topo.txt", "--json"]
        done = subprocess.run(command, cwd=PROJECT, env=environment, stdout=full, stderr=-1, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "the answer cannot be written: No space left on device\n"), done


def test_help_exits_0() -> None:
    assert fleet("--help").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_left_while_it_still_connects_exits_1(tmp_path: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        node = f"address: 127.0.0.1\nssh: {{port: {silent.getsockname()[1]}}}\n"
        node += "gpus: {count: 1, model: NVIDIA L40S, memory_mib: 46068}\n"
        (tmp_path / "n1.yaml").write_text(node)
        command = [FLEET.parent / "pyinfra", "inventory.py", "deploy.py", "-y"]
        environment = {**os.environ, "FLEET": str(tmp_path)}
        with subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=-1, stderr=-2, text=True) as run:
            silent.settimeout(60)
            with silent.accept()[0]:
                run.send_signal(number)
                out, _ = run.communicate(timeout=30)
    assert run.returncode == 1 and f"{number.name}: left before anything was looked at" in out, out


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[" * 100_000, "want a JSON object, found JSON that is nested too deep"),
        ('{"argv": [], "argv": [], "env": {}}', "argv: want each key once, found it twice"),
        ('{"argv": [' + "9" * 5000 + '], "env": {}}', "want integers of at most 1000 digits, found one of 5000"),
        ('{"argv": "vllm serve", "env": {}}', "want an object with argv (a list) and env (an object), found"),
        ('{"argv": ["vllm", 8000], "env": {}}', "argv[1]: want text, found a number"),
        ('{"argv": [], "env": {"A": null}}', "env.A: want text, found null"),
    ],
    ids=["deep", "twice", "endless", "text", "number", "null"],
)
def test_a_recorded_command_that_is_none_is_refused_with_its_place(tmp_path: Path, content: str, told: str) -> None:
    golden = tmp_path / "golden.json"
    golden.write_text(content)
    done = fleet("cmd", "glm", "a1", "--check", str(golden))
    assert done.returncode == 1 and done.stderr.startswith(f"{golden}: {told}"), done


def test_a_secret_that_somebody_recorded_is_not_shown(tmp_path: Path) -> None:
    nodes = tmp_path / "inventory" / "prod"
    shutil.copytree(PROJECT / "inventory" / "recorded", nodes)
    shutil.copy(nodes / "standin.digest", tmp_path)
    (nodes / "group_data").rename(tmp_path / "group_data")
    with (tmp_path / "group_data" / "a100.yaml").open("a") as file:
        file.write("    secrets: {VLLM_API_KEY: {env: KEY_OF_GLM}}\n")
    golden = tmp_path / "golden.json"
    recorded = json.loads(fleet("cmd", "glm", "a1", "--json", FLEET=str(nodes)).stdout)
    assert recorded["env"]["VLLM_API_KEY"] == "***"
    golden.write_text(json.dumps({**recorded, "env": {**recorded["env"], "VLLM_API_KEY": "hunter2"}}))
    done = fleet("cmd", "glm", "a1", "--check", str(golden), FLEET=str(nodes))
    assert done.returncode == 2 and "env VLLM_API_KEY: want a value that is not shown, found '***'" in done.stdout, done
    assert "hunter2" not in done.stdout + done.stderr


def test_a_recorded_command_may_come_from_a_pipe() -> None:
    script = f'"{FLEET}" cmd glm a1 --check <("{FLEET}" cmd glm a1 --json)'
    environment = {**os.environ, "FLEET": "recorded"}
    done = subprocess.run(["bash", "-c", script], cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("glm on a1: 38 words of argv"), done


def test_drift_from_a_recorded_command_is_json_where_a_machine_asks(tmp_path: Path) -> None:
    golden = tmp_path / "golden.json"
    golden.write_text(fleet("cmd", "glm", "a1", "--json").stdout)
    same = fleet("cmd", "glm", "a1", "--check", str(golden), "--json")
    assert same.returncode == 0 and json.loads(same.stdout) == {"service": "glm", "node": "a1", "drift": []}, same
    other = fleet("cmd", "glm", "a1", "--check", str(golden), "--json", "--data", "max_model_len=4096")
    told = json.loads(other.stdout)["drift"]
    assert other.returncode == 2 and [line.partition(": ")[2] for line in told] == ["want '524288', found '4096'"], told


def test_a_recorded_command_with_a_pattern_of_the_checkpoints_is_not_called_drift(tmp_path: Path) -> None:
    """The pattern that repairs a boundary follows from the tensor names on the node, which --check does not ask."""
    golden = tmp_path / "golden.json"
    words = ["vllm", "serve", "/m", "--hf-overrides", '{"index_topk_pattern":"FFS"}']
    golden.write_text(json.dumps({"argv": words, "env": {}}))
    done = fleet("cmd", "glm", "a1", "--check", str(golden))
    assert done.returncode == 1 and "follows from the checkpoint there: declare it in hf_overrides" in done.stderr, done
    golden.write_text(json.dumps({"argv": words[:3], "env": {}}))
    assert fleet("cmd", "glm", "a1", "--check", str(golden)).returncode == 2


def pyinfra(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [FLEET.with_name("pyinfra"), "inventory.py", "deploy.py", *words]
    environment = {**os.environ, "FLEET": "recorded"}
    return subprocess.run(
        command, cwd=PROJECT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def test_a_rollout_that_stopped_says_why_and_leaves_no_lines_that_say_less_above_it() -> None:
    done = pyinfra("-y")
    assert done.returncode == 1 and "stopped: lock: want a1 to take a lock" in done.stdout, done
    assert "executed 0 commands" not in done.stderr and "No hosts remaining" not in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ("--dry", "--data", "max_model_len=99999999"),
            "refused by ",
        ),
        (("--dry", "--data", "tp=x"), "refused, nothing was changed"),
        (("--dry", "--data", "tp"), "refused, nothing was changed"),
    ],
)
def test_a_refusal_names_its_reason_and_no_line_of_code(words: tuple[str, ...], reason: str) -> None:
    done = pyinfra(*words)
    assert done.returncode == 1 and f"--> pyinfra error: {reason}" in done.stderr, done
    assert ".py line" not in done.stderr
