"""Modules that are loaded while hosts answer: those of the verb, and not before pyinfra has begun to connect."""

import ast
import sys
from pathlib import Path

import gevent
import pytest

from declare import meanwhile

PROJECT = Path(__file__).resolve().parents[2]
VERBS = {
    file.name: file
    for file in PROJECT.glob("*.py")
    if any(isinstance(node, ast.ImportFrom) and node.module == "pyinfra" for node in ast.parse(file.read_text()).body)
}


def imported(file: Path) -> set[str]:
    """Names that a file's imports may load, as modules."""
    statements = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ImportFrom)]
    return {f"{node.module}.{name.name}" for node in statements for name in node.names}


def test_every_verb_has_its_work() -> None:
    assert set(meanwhile.WORK) == set(VERBS)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_the_work_is_what_the_verb_imports(verb: str) -> None:
    assert meanwhile.WORK[verb] in imported(VERBS[verb])


def test_it_is_loaded_once_others_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "work_of_a_verb.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(meanwhile.WORK, "deploy.py", "work_of_a_verb")
    meanwhile.load_while_hosts_answer(["/elsewhere/deploy.py"])
    assert "work_of_a_verb" not in sys.modules, "before pyinfra has begun to connect"
    gevent.sleep(meanwhile.HOSTS_HAVE_BEGUN_S * 4)
    assert sys.modules.pop("work_of_a_verb")


@pytest.mark.parametrize("operations", [[], ["fact", "x"], ["debug-inventory"]])
def test_what_is_no_verb_loads_nothing(operations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(meanwhile.gevent, "spawn_later", lambda *what: asked.append(what))
    meanwhile.load_while_hosts_answer(operations)
    assert asked == []
