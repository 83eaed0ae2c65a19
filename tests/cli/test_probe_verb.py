import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from lab.standin.process import running


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 4, "num_attention_heads": 8}))
    return folder


def run(*words: str, key: str = "") -> Result:
    return CliRunner().invoke(app, ["probe", *words], env={"VLLM_API_KEY": key})


def test_the_exit_code_tells_passed_degraded_and_failed(model: Path) -> None:
    for fault, code in (("", 0), ("loop:p=0.5", 2), ("completion-500", 1)):
        environ = {"VLLM_STANDIN_FAULT": fault, "VLLM_STANDIN_SEED": "1"}
        with running(model, "--served-model-name", "m", environ=environ) as engine:
            done = run("degeneration", "--url", engine.url, "--model", "m", "--max-tokens", "200", "--json")
        assert done.exit_code == code, done.output
        assert json.loads(done.stdout)["probe"] == "degeneration"
        assert code == 1 or "40 of 40 answers" in done.stderr


def test_a_run_of_a_good_engine_is_the_baseline_of_the_next(model: Path, tmp_path: Path) -> None:
    with running(model, "--served-model-name", "m", "--api-key", "hush") as engine:
        words = ("degeneration", "--url", engine.url, "--model", "m")
        first = run(*words, "--trials", "35", "--json", key="hush")
        (tmp_path / "good.json").write_text(first.stdout)
        second = run(*words, "--baseline", str(tmp_path / "good.json"), key="hush")
        refused = run(*words)
    assert (first.exit_code, second.exit_code, refused.exit_code) == (0, 0, 1)
    assert "beside 0 of 35 before" in second.stdout
    assert "HTTP 401" in refused.stdout
    assert "hush" not in first.output + second.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("absent",), "wanted absent.py"),
        (("smoke", "--trials", "0"), "trials: "),
        (("smoke", "--seconds", "nan"), "total_s: "),
        (("smoke", "--concurrency", "4,x"), "--concurrency: want whole numbers"),
        (("smoke", "--baseline", "/absent"), "--baseline: want JSON"),
    ],
)
def test_a_wrong_call_is_told(words: tuple[str, ...], says: str) -> None:
    done = run(*words, "--url", "http://127.0.0.1:1", "--model", "m")
    assert done.exit_code == 1
    assert says in done.stderr


def test_a_wrong_url_is_told() -> None:
    done = run("smoke", "--url", "127.0.0.1:1", "--model", "m")
    assert done.exit_code == 1
    assert done.stderr == "url: wanted http://HOST:PORT or https://HOST:PORT, found '127.0.0.1:1'\n"
