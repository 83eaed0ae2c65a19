"""What the node's own script takes for a token, against the stand-in. When it restarts is shown in tests/lab."""

import json
import subprocess
from pathlib import Path

import pytest

from lab.standin.process import PROJECT, Engine, running

NAME = 'a "named" one'


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 4, "num_attention_heads": 8}))
    return folder


def told(engine: Engine, function: str, *words: str, key: str = "") -> str:
    """The line that a function of the script gets within two seconds."""
    script = f'source {PROJECT}/operations/node/65-heartbeat.sh; within 2 "$@"; printf %s "$LINE"'
    host, port = engine.url.removeprefix("http://").split(":")
    done = subprocess.run(
        ["bash", "-c", script, "bash", function, host, port, *words],
        env={"PATH": "/usr/bin:/bin", "VLLM_API_KEY": key},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_token_is_one_with_the_key_and_the_name_as_it_stands_in_json(model: Path) -> None:
    name = json.dumps(NAME)[1:-1]
    with running(model, "--served-model-name", NAME, "--api-key", "hush") as engine:
        before = told(engine, "count_tokens")
        assert told(engine, "ask_token", name, key="hush") == "yes"
        assert told(engine, "count_tokens") != before, "what it generated is seen in its metrics"
        assert told(engine, "ask_token", name, key="other").startswith("HTTP/1.1 401")
        assert told(engine, "ask_token", "other", key="hush").startswith("HTTP/1.1 404")


@pytest.mark.parametrize(
    ("fault", "says"), [("hang", ""), ("completion-500", "HTTP/1.1 500"), ("busy", "HTTP/1.1 503")]
)
def test_what_is_no_token_is_told(model: Path, fault: str, says: str) -> None:
    with running(model, "--served-model-name", "m", environ={"VLLM_STANDIN_FAULT": fault}) as engine:
        answer = told(engine, "ask_token", "m")
    assert answer.startswith(says)
    assert says or answer == "", "nothing came in time"
