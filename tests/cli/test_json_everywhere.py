"""Every verb of `fleet` speaks to machines: one JSON document on stdout, also where it refuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from offline_fleet import Said, fleet, recorded_fleet

from cli.main import app

WITHOUT = {"lab ssh": "it becomes ssh: what the host says is what comes"}
"""Verbs that have no --json, and why."""


def verbs(command: object, name: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Every verb with the options that it has; a group that is a verb itself counts as one."""
    inner = getattr(command, "commands", {})
    if not inner or getattr(command, "invoke_without_command", False):
        yield " ".join(name), {word for parameter in command.params for word in parameter.opts}  # type: ignore[attr-defined]
    for word, one in inner.items():
        yield from verbs(one, (*name, word))


def test_every_verb_has_json_or_a_reason_why_not() -> None:
    found = dict(verbs(typer.main.get_command(app)))
    assert len(found) > 30 and "capture" in found
    assert {name for name, options in found.items() if "--json" not in options} == set(WITHOUT)


def one_error(said: Said, told: str) -> None:
    """One document on stdout that says what people read on stderr; nothing else is there."""
    assert said.code == 1, said
    assert told in said.json["error"] and told in said.err, said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("topology /nonexistent", "/nonexistent: No such file"),
        ("manifest /nonexistent", "/nonexistent"),
        ("degenerate /nonexistent", "want a file with one answer a line"),
        ("degenerate /dev/null", "want at least one answer"),
        ("plan --config /nonexistent --node /nonexistent", "/nonexistent"),
        ("compare tp1 tp2 --config /nonexistent --node /nonexistent", "/nonexistent"),
        ("pool --config /nonexistent --engine 0.30", "/nonexistent"),
        ("capacity /nonexistent --load 1", "want JSON of a speed run"),
        ("check-argv --engine 0.1.0 vllm", "0.1.0"),
        ("engine show 0.1.0", "0.1.0"),
        ("engine show 0.30.0 no-such-word", "nothing with 'no-such-word'"),
        ("engine diff 0.30.0 0.1.0", "0.1.0"),
        ("engine dump 30", "want a full one such as 0.30.0, found '30'"),
        ("patch list --fleet /nonexistent", "/nonexistent"),
        ("patch check image --patch nobody", "found nobody"),
        ("probe nothing --url http://127.0.0.1:9 --model m", "nothing"),
        ("capture diff /nonexistent /nonexistent", "want a folder that `fleet capture` wrote"),
        ("ab verdict glm a1 --folder FOLDER", "want --data NAME=VALUE"),
        ("ab run glm a1 --folder FOLDER --data tp=2 --tpot-loss -1", "--tpot-loss: "),
        ("ab boot glm a1 --folder FOLDER --data tp=2", "want a control to compare with"),
        ("ab verify glm a1 --folder FOLDER --data tp=2", "want a booted arm"),
        ("lab up --name UP", "UP"),
        ("lab down --name UP", "UP"),
        ("lab status --name UP", "UP"),
        ("lab set a1", "nothing to set"),
        ("lab reboot z9 --name nowhere", "has no node 'z9'"),
    ],
)
def test_a_refusal_is_a_document_too(tmp_path: Path, words: str, told: str) -> None:
    verb, *more = words.replace("FOLDER", str(tmp_path / "ab")).split()
    nested = 1 if verb in ("engine", "patch", "ab", "lab") or more[:1] == ["diff"] else 0
    one_error(fleet(verb, *more[:nested], "--json", *more[nested:]), told)
    people = fleet(verb, *more)
    assert (people.code, people.out) == (1, "") and told in people.err, people


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("status --fleet /nonexistent", "/nonexistent"),
        ("capture --fleet /nonexistent", "/nonexistent"),
        ("start qwen", "want a release on h1, found none"),
        ("stop nothing", "want one that is declared or lies on"),
        ("wait nothing", "found 'nothing'"),
        ("unlock a9", "want one of a1, h1, l1"),
        ("facts nothing", "found 'nothing'"),
        ("upgrade nothing --to 0.33.0", "found 'nothing'"),
        ("upgrade glm --to 0.1.0", "0.1.0"),
        ("capture --node a9", "want one of a1, h1, l1"),
        ("status --chekc", "No such option"),
        ("stop", "Missing argument"),
    ],
)
def test_a_refusal_of_a_verb_that_connects_is_a_document_too(words: str, told: str) -> None:
    one_error(recorded_fleet(*words.split(), "--json"), told)


def test_gates_that_refuse_a_command_are_in_the_document() -> None:
    said = recorded_fleet("cmd", "qwen", "h1", "--json", "--data", "max_model_len=999999999")
    assert said.code == 1 and "fail  max-model-len: want at most 131072 tokens" in said.err, said
    assert said.json["error"].startswith("refused by ") and "max-model-len" in said.json["error"]
    statuses = {verdict["gate"]: verdict["status"] for verdict in said.json["verdicts"]}
    assert statuses["max-model-len"] == "fail" and statuses["own-name"] == "pass"
