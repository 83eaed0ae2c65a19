"""Our answer about a command line is the real parser's, for every version that has a catalog."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from generated_argv import Generator
from typer.testing import CliRunner

from cli.check_argv import read_config
from cli.engine import app, text_of
from fleet.argv.catalog import Catalog
from fleet.argv.check import check_argv
from fleet.engines.catalogs import catalog_of, versions
from lab.engine.interpreter import Interpreter
from tests.facts.captures import SHARED

pytestmark = pytest.mark.engine
PROJECT = Path(__file__).resolve().parents[2]
GENERATED = 600
"""Command lines a version; the real parser takes 4 ms for one."""
EVERY = pytest.mark.parametrize("parser", versions(), indirect=True)
ONE = pytest.mark.parametrize("parser", ["0.30.0"], indirect=True)


class Parser:
    """A version's own parser, in a process that stays up: importing vLLM takes 10 s of CPU."""

    def __init__(self, found: Interpreter) -> None:
        self.version, self.source = found.version, found.source
        pipe = subprocess.PIPE
        words = [found.python, PROJECT / "lab" / "engine" / "ask.py"]
        self._process = subprocess.Popen(
            words, env=found.environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, what: object) -> dict[str, Any]:
        """The verdict on a command line, or its description for "dump"."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the parser of {self.version} ended with {self._process.wait()}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def accepts(self, argv: list[str]) -> bool:
        """Does it take the command line?"""
        return bool(self.ask(argv)["accepts"])

    def end(self) -> None:
        """Let it go."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="module")
def parser(request: pytest.FixtureRequest, engine_of: Callable[[str], Interpreter]) -> Iterator[Parser]:
    started = Parser(engine_of(request.param))
    yield started
    started.end()


def catalog(version: str) -> Catalog:
    found = catalog_of(version)
    assert found is not None
    return found


def kept(version: str) -> Path:
    return PROJECT / "fleet" / "engines" / f"{version}.json"


@EVERY
def test_generated_command_lines_get_the_answer_of_the_real_parser(parser: Parser) -> None:
    known = catalog(parser.version)
    generator = Generator(known, seed=30)
    verdicts = {True: 0, False: 0}
    differ = []
    for _ in range(GENERATED):
        argv = generator.argv()
        real, ours = parser.ask(argv), check_argv(known, argv)
        verdicts[real["accepts"]] += 1
        if ours.accepts is not real["accepts"]:
            differ.append((argv, real, [str(finding) for finding in ours.findings]))
    assert not differ, f"{len(differ)} of {GENERATED}: {differ[:3]}"
    assert min(verdicts.values()) > GENERATED / 3, f"want about half of them wrong: {verdicts}"


@EVERY
def test_a_catalog_is_what_the_real_parser_tells(parser: Parser) -> None:
    made, there = parser.ask("dump"), json.loads(kept(parser.version).read_text())
    assert there["source"] == f"the real parser of {parser.source}"
    differ = [key for key in made if there[key] != made[key]]
    assert not differ, {key: _first_difference(there[key], made[key]) for key in differ}
    whole = {"version": made.pop("version"), "source": there["source"], **made}
    assert kept(parser.version).read_text() == text_of(whole)


def _first_difference(old: Any, new: Any) -> Any:
    pairs = zip(old, new, strict=False) if isinstance(old, list) else [(old[k], new.get(k)) for k in old] if old else []
    return next(((a, b) for a, b in pairs if a != b), (len(old), len(new)))


def test_the_command_makes_the_file_that_is_kept(tmp_path: Path, engine_python: Path) -> None:
    made = tmp_path / "0.30.0.json"
    ran = CliRunner().invoke(app, ["dump", "0.30.0", "--out", str(made), "--json"])
    assert ran.exit_code == 0, ran.output
    told, known = json.loads(ran.stdout), catalog("0.30.0")
    assert (told["file"], told["flags"], told["unknown_checks"]) == (str(made), len(known.flags), [])
    assert made.read_text() == kept("0.30.0").read_text()


@ONE
def test_posted_command_lines_get_the_answer_that_was_recorded(parser: Parser) -> None:
    file = SHARED / "engine" / "argv" / "cases-0.30.0.jsonl"
    if not file.exists():
        pytest.skip(f"no {file}; point VLLM_FLEET_SHARED at it")
    cases = [json.loads(line) for line in file.read_text().splitlines()]
    assert cases and [case for case in cases if parser.accepts(case["argv"]) is not case["accepts"]] == []


CONFIG_FILES = [
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
]


@ONE
@pytest.mark.parametrize("text", CONFIG_FILES)
def test_a_config_file_gets_the_answer_of_the_real_parser(parser: Parser, text: str, tmp_path: Path) -> None:
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
        ours, real = check_argv(catalog("0.30.0"), argv, read_config), parser.ask(argv)
        assert ours.accepts is real["accepts"], (form, real, [str(one) for one in ours.findings])
