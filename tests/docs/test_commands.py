"""Every command of README.md and docs/ is run in the order of its page, in a fresh clone with the demo's lab.

What is shown as its output is compared with what it prints. A page must leave the lab as it found it.
"""

import re
import subprocess
from pathlib import Path

import pytest
from elsewhere import Elsewhere, clone
from pages import PAGES, PROJECT, Block, Command, blocks, commands, links, missing, named_commands, prose

from cli.lab import app as lab
from cli.main import app

ENGINE = "tests/engine/test_engine_rollout.py::test_a_lab_with_the_engine_serves_its_model"
# Commands that run in another test: beginning of the command -> that test.
RUN_ELSEWHERE = {
    "make demo": "tests/cli/test_demo_lab.py::test_the_first_demo_boots_rolls_out_asks_and_shows",
    "make clean": "tests/cli/test_demo_lab.py::test_clean_leaves_no_trace",
    "make test": "tests/docs/test_commands.py::test_make_knows_what_is_documented",
    "make venv": "tests/docs/test_commands.py::test_make_knows_what_is_documented",
    "make bench": "tests/docs/test_commands.py::test_make_knows_what_is_documented",
    "make recorded": "tests/docs/test_commands.py::test_make_knows_what_is_documented",
    ".venv/bin/fleet lab up --engine": ENGINE,
    "FLEET=.lab/real/fleet": ENGINE,
    ".venv/bin/fleet lab ssh --name real": ENGINE,
    ".venv/bin/fleet lab down --name real": ENGINE,
}
OFFLINE = (
    "FLEET=recorded ",
    ".venv/bin/fleet topology lab/recordings/a100/",
    ".venv/bin/fleet pool ",
    ".venv/bin/fleet plan --config lab/",
    ".venv/bin/fleet compare tp4/",
    ".venv/bin/fleet engine ",
    ".venv/bin/fleet check-argv ",
)
"""Beginnings of commands that contact nothing: they run wherever Python does."""

COMMANDS = [
    command for page in PAGES for block in blocks(page) if block.language == "sh" for command in commands(block)
]
WITH_COMMANDS = [page for page in PAGES if any(block.language == "sh" for block in blocks(page))]


def elsewhere_run(command: Command) -> str | None:
    """The test that runs it instead of this one."""
    return next((test for start, test in RUN_ELSEWHERE.items() if command.text.startswith(start)), None)


@pytest.fixture(scope="module")
def demo(elsewhere: Elsewhere) -> Elsewhere:
    """The machine as `make demo` leaves it."""
    ran = elsewhere.run("make --assume-old=.venv/.complete demo")
    assert ran.code == 0, ran.out
    return elsewhere


def write(block: Block, folder: Path) -> None:
    """The file that a block is."""
    if block.file is not None:
        path = folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)


def act(machine: Elsewhere, block: Block) -> str:
    """Run the commands of a block; what they printed."""
    said = ""
    for command in commands(block):
        if elsewhere_run(command) is None:
            ran = machine.run(command.text, HOME=str(machine.clone.parent))
            assert ran.code == command.code, f"{command.place}: {command.text}\nended with {ran.code}\n{ran.out}"
            said += ran.out
    return said


@pytest.mark.lab
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_what_a_page_says_is_so(demo: Elsewhere, page: Path) -> None:
    said = ""
    try:
        for block in blocks(page):
            write(block, demo.clone)
            if block.language == "sh":
                said = act(demo, block)
            elif block.language == "text":
                absent = missing(block.text, said)
                assert not absent, f"{block.page}:{block.line}: not printed: {absent}\n{said}"
    finally:
        for block in blocks(page):
            if block.file is not None:
                (demo.clone / block.file).unlink(missing_ok=True)


@pytest.mark.lab
def test_the_pages_leave_the_lab_as_they_found_it(demo: Elsewhere) -> None:
    ran = demo.run(".venv/bin/pyinfra inventory.py deploy.py --dry")
    assert "Plan: 0 to change, 3 as declared" in ran.out


def test_offline_commands_run_without_a_lab(tmp_path: Path) -> None:
    folder = clone(tmp_path / "vllm-fleet")
    for block in (block for page in PAGES for block in blocks(page)):
        write(block, folder)
        for command in commands(block) if block.language == "sh" else ():
            if not command.text.startswith(OFFLINE):
                continue
            ran = subprocess.run(
                ["bash", "-c", command.text],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder)},
            )
            assert ran.returncode == command.code, f"{command.place}: {ran.stdout}{ran.stderr}"


def test_make_knows_what_is_documented() -> None:
    """`make test` itself cannot be run by a test of it; what it would run is looked at."""
    for start in (command for command in RUN_ELSEWHERE if command.startswith("make ")):
        would = subprocess.run(["make", "-n", *start.split()[1:]], cwd=PROJECT, capture_output=True, text=True)
        assert would.returncode == 0, would.stderr
        if start == "make test":
            words = ("ruff check", "ruff format --check", "mypy --strict fleet", "-m pytest")
            assert all(word in would.stdout for word in words)


@pytest.mark.parametrize("test", sorted(set(RUN_ELSEWHERE.values())))
def test_a_test_that_runs_commands_is_there(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (PROJECT / path).read_text()


def test_commands_stand_in_sh_blocks_only() -> None:
    """Else they would not be run by a test."""
    looks_like = re.compile(
        r"^\s*(?:\$ )?(?:sudo |FLEET=\S+ )?(?:make [a-z]|fleet [a-z]|pyinfra |\.venv/bin/).*", re.MULTILINE
    )
    for page in PAGES:
        outside = [line[0].strip() for line in looks_like.finditer(prose(page))]
        assert not outside, f"{page.name}: {outside}"


def test_commands_that_the_text_names_are_there() -> None:
    verbs = {str(command.name or command.callback.__name__) for command in app.registered_commands if command.callback}
    lab_verbs = {str(each.name or each.callback.__name__) for each in lab.registered_commands if each.callback}
    groups = {str(group.name) for group in app.registered_groups}
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for program, verb, *rest in named_commands(page):
            known = targets if program == "make" else {*verbs, *groups}
            assert verb in known, f"{page.name}: {program} {verb}"
            if (program, verb) == ("fleet", "lab") and rest:
                assert rest[0] in lab_verbs, f"{page.name}: fleet lab {rest[0]}"


def test_links_lead_to_files() -> None:
    for page in PAGES:
        broken = [target for target in links(page) if not (page.parent / target).exists()]
        assert not broken, f"{page.name}: {broken}"
