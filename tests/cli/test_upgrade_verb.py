"""`fleet upgrade` on recorded nodes: everything is told, nothing is written unless asked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

FLEET = Path(sys.executable).parent / "fleet"
PROJECT = Path(__file__).resolve().parents[2]
IMAGE = f"registry.example/vllm@sha256:{'c' * 64}"


def upgrade(*words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "FLEET": "recorded"}
    command = [FLEET, "upgrade", *words]
    return subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=120)


def test_an_upgrade_is_told_for_people_and_machines_and_writes_nothing() -> None:
    before = subprocess.run(["git", "status", "--short"], cwd=PROJECT, capture_output=True, text=True).stdout
    done = upgrade("glm", "--to", "0.33")
    assert done.returncode == 0, done
    assert "glm on a1: vllm 0.30.0 -> 0.33.0" in done.stdout and "--allowed-origins: ['*'] -> []" in done.stdout
    assert "KV tokens, predicted" in done.stdout
    told = json.loads(upgrade("glm", "a1", "--to", "0.33.0", "--json").stdout)
    assert (told["old"], told["new"], told["stops"]) == ("0.30.0", "0.33.0", False)
    assert told["memory"]["before"] > 0 and {"flags", "patches", "gates"} <= told.keys()
    after = subprocess.run(["git", "status", "--short"], cwd=PROJECT, capture_output=True, text=True).stdout
    assert after == before


def test_what_must_be_decided_first_exits_1() -> None:
    done = upgrade("glm", "--to", "0.29")
    assert done.returncode == 1 and "speculation-pp: pass -> fail" in done.stdout, done


def test_what_to_declare_is_written_to_a_new_file_when_asked(tmp_path: Path) -> None:
    file = tmp_path / "glm-0.33.yaml"
    done = upgrade("glm", "--to", "0.33", "--image", IMAGE, "--write", str(file))
    assert done.returncode == 0, done
    image = yaml.safe_load(file.read_text())["services"]["glm"]["image"]
    assert image == {"name": "registry.example/vllm", "digest": f"sha256:{'c' * 64}", "engine": "0.33.0"}
    again = upgrade("glm", "--to", "0.33", "--image", IMAGE, "--write", str(file))
    assert again.returncode == 1 and "not there yet" in again.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("glm", "--to", "0.34"), "fleet engine dump 0.34"),
        (("glm", "--to", "newest"), "want an engine version with a catalog"),
        (("nothing", "--to", "0.33"), "want one of glm"),
        (("glm", "a9", "--to", "0.33"), "want one of a1"),
        (("glm", "--to", "0.33", "--image", "x@sha256:1"), "64 hex digits"),
        (("glm", "--to", "0.33", "--write", "/tmp/x.yaml"), "want --image"),
        (("glm", "--to", "0.33", "--image", IMAGE, "--write", "/no/such/folder/x.yaml"), "No such file"),
        (("glm",), "Missing option"),
    ],
)
def test_a_wrong_call_exits_1_with_the_remedy(words: tuple[str, ...], told: str) -> None:
    done = upgrade(*words)
    assert done.returncode == 1 and told in done.stderr, done
    assert "Traceback" not in done.stderr
