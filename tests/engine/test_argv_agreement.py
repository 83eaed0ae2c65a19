"""Our answer about a command line is the real parser's, for every version that has a catalog."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from generated_argv import Generator

from cli.check_argv import read_config
from cli.engine import described, text_of
from fleet.argv.catalog import Catalog
from fleet.argv.check import check_argv
from fleet.catalogs import catalog_of, versions
from lab.engine.interpreter import Interpreter
from tests.facts.captures import SHARED

pytestmark = pytest.mark.engine
ASK = Path(__file__).resolve().parents[2] / "lab" / "engine" / "ask.py"
GENERATED = 600
"""Command lines a version; the real parser takes 4 ms for one."""
Ask = Callable[[list[str]], dict[str, Any]]


@contextmanager
def real_parser(found: Interpreter) -> Iterator[Ask]:
    """The version's own parser, in a process that stays up."""
    words = [found.python, ASK]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=found.environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:

        def ask(argv: list[str]) -> dict[str, Any]:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            process.stdin.write(json.dumps(argv) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, process.stderr.read()[-2000:]
            verdict: dict[str, Any] = json.loads(line)
            return verdict

        yield ask
        assert process.stdin is not None
        process.stdin.close()


def catalog(version: str) -> Catalog:
    found = catalog_of(version)
    assert found is not None
    return found


@pytest.mark.parametrize("version", versions())
def test_generated_command_lines_get_the_answer_of_the_real_parser(
    version: str, engine_of: Callable[[str], Interpreter]
) -> None:
    known = catalog(version)
    generator = Generator(known, seed=30)
    verdicts = {True: 0, False: 0}
    differ = []
    with real_parser(engine_of(version)) as ask:
        for _ in range(GENERATED):
            argv = generator.argv()
            real, ours = ask(argv), check_argv(known, argv)
            verdicts[real["accepts"]] += 1
            if ours.accepts is not real["accepts"]:
                differ.append((argv, real, [str(finding) for finding in ours.findings]))
    assert not differ, f"{len(differ)} of {GENERATED}: {differ[:3]}"
    assert min(verdicts.values()) > GENERATED / 3, f"want about half of them wrong: {verdicts}"


def test_posted_command_lines_get_the_answer_that_was_recorded(engine_of: Callable[[str], Interpreter]) -> None:
    file = SHARED / "engine" / "argv" / "cases-0.30.0.jsonl"
    if not file.exists():
        pytest.skip(f"no {file}; point VLLM_FLEET_SHARED at it")
    with real_parser(engine_of("0.30.0")) as ask:
        for line in file.read_text().splitlines():
            case = json.loads(line)
            assert ask(case["argv"])["accepts"] is case["accepts"], case


@pytest.mark.parametrize(
    "text",
    [
        "port: 8001\n",
        "model: org/m\ntensor-parallel-size: 2\n",
        "enable-prefix-caching: false\n",
        "enable_prefix_caching: true\nserved-model-name: [a, b]\n",
        "speculative-config: {method: mtp, num_speculative_tokens: 3}\n",
        "compilation-config:\n  mod: 3\n",
        "port: many\n",
        "no-such-flag: 1\n",
        "api-key: []\n",
        "hf-token:\n",
        "- a\n",
        "",
        "a: [\n",
    ],
)
def test_a_config_file_gets_the_answer_of_the_real_parser(
    text: str, tmp_path: Path, parser_0_30: Ask, engine_of: Callable[[str], Interpreter]
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(text)
    forms = (
        ["m", "--config", str(file)],
        ["--config", str(file)],
        ["m", "--port", "1", "--config", str(file), "-tp", "2"],
        ["m", f"--config={file}"],
        ["--port", "1", "--config", str(file), "--host", "x"],
        ["m", "--config", str(file), "--config", str(file)],
    )
    for form in forms:
        argv = ["vllm", "serve", *form]
        ours, real = check_argv(catalog("0.30.0"), argv, read_config), parser_0_30(argv)
        assert ours.accepts is real["accepts"], (form, real, [str(one) for one in ours.findings])


@pytest.fixture(scope="module")
def parser_0_30(engine_of: Callable[[str], Interpreter]) -> Iterator[Ask]:
    with real_parser(engine_of("0.30.0")) as ask:
        yield ask


@pytest.mark.parametrize("version", versions())
def test_a_catalog_is_what_the_command_makes_of_the_real_parser(
    version: str, engine_of: Callable[[str], Interpreter]
) -> None:
    found = engine_of(version)
    made = described(found.python, found.environment)
    kept = json.loads(catalog_file(version).read_text())
    assert kept["source"] == f"the real parser of {found.source}"
    differ = [key for key in made if kept[key] != json.loads(json.dumps(made[key]))]
    assert not differ, {key: _first_difference(kept[key], made[key]) for key in differ}
    assert catalog_file(version).read_text() == text_of({"version": version, "source": kept["source"], **made})


def catalog_file(version: str) -> Path:
    return Path(__file__).resolve().parents[2] / "fleet" / "engines" / f"{version}.json"


def _first_difference(old: Any, new: Any) -> Any:
    pairs = zip(old, new, strict=False) if isinstance(old, list) else [(old[k], new.get(k)) for k in old] if old else []
    return next(((a, b) for a, b in pairs if a != b), (len(old), len(new)))
