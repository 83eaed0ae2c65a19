"""The way of the data is the way of the imports: no room knows the rooms that come after it."""

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "fleet": {"fleet"},
    "facts": {"facts", "fleet"},
    "declare": {"declare", "fleet"},
    "templates": {"templates", "fleet"},
    "probes": {"probes", "fleet"},
    "operations": {"operations", "declare", "facts", "fleet", "probes", "templates"},
    "lab": {"lab", "fleet", "facts"},
}
ROOMS = {*MAY_IMPORT, "cli", "bench"}
IMPURE = {"os", "io", "pathlib", "shutil", "subprocess", "socket", "time", "datetime", "random", "secrets", "logging"}
"""What reads or changes the world; `fleet/` has none of it, nor pyinfra, nor a network library."""


def imported(path: Path) -> set[str]:
    """Top-level names of everything that a file imports, also within its functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_comes_before_it(room: str) -> None:
    for path in (PROJECT / room).rglob("*.py"):
        forbidden = imported(path) & ROOMS - MAY_IMPORT[room]
        assert not forbidden, f"{path.relative_to(PROJECT)} imports {', '.join(sorted(forbidden))}"


def test_the_core_reads_no_clock_no_file_and_no_network() -> None:
    for path in (PROJECT / "fleet").rglob("*.py"):
        found = imported(path) & {*IMPURE, "pyinfra", "gevent", "httpx", "paramiko", "yaml", "jinja2"}
        assert not found, f"{path.relative_to(PROJECT)} imports {', '.join(sorted(found))}"


@pytest.mark.parametrize(
    "verb", ["deploy.py", "rollback.py", "verify.py", "deliver.py", "bootstrap.py", "inventory.py", "config.py"]
)
def test_the_verbs_need_no_lab(verb: str) -> None:
    assert not imported(PROJECT / verb) & {"lab", "cli"}
