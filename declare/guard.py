"""Options of pyinfra that a rollout cannot obey, or whose mistakes pyinfra takes lightly: refused, with the reason."""

import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from typing import Any

from declare.problem import choice

READ_ONLY = ("debug-inventory", "fact", "exec")
"""Operations of pyinfra's command that do not ask for a confirmation."""
LOOKING = ("gates.py", "audit.py", "verify.py")
"""Verbs of ours that change nothing, and end before pyinfra could ask."""


def refused_options(options: Mapping[str, Any], terminal: bool) -> list[str]:
    """What is wrong with pyinfra's options (click's names). `terminal`: somebody can answer a question on stdin."""
    lines = []
    if options.get("serial"):
        lines.append("--serial: want rollout.batches to decide the order, found --serial, whose order is random")
    if options.get("no_wait"):
        lines.append("--no-wait: want every batch to wait for its proof, found --no-wait")
    if options.get("fail_percent") is not None:
        lines.append("--fail-percent: want rollout.on_failed_gate and on_unreachable to decide, found --fail-percent")
    if options.get("group_data"):
        lines.append(
            "--group-data: want group data of the fleet (FLEET), found another folder, which would not be read"
        )
    if _would_ask(options) and not terminal:
        lines.append("-y: want -y (or --dry to only look), found neither, and no terminal to ask for a confirmation")
    return [*lines, *refused_data(options.get("data") or ())]


def refused_data(data: Iterable[str]) -> list[str]:
    """`--data` that is no NAME=VALUE, or says two things about one name."""
    words = list(data)
    lines = [f"--data {word}: want NAME=VALUE, found no =" for word in words if "=" not in word]
    names = [word.partition("=")[0] for word in words if "=" in word]
    twice = sorted({name for name in names if names.count(name) > 1})
    return lines + [f"--data {name}: want one value, found {names.count(name)}" for name in twice]


def _would_ask(options: Mapping[str, Any]) -> bool:
    operations = options.get("operations") or ("",)
    asks = operations[0] not in READ_ONLY and operations[0].rpartition("/")[2] not in LOOKING
    return asks and not (options.get("yes") or options.get("dry") or options.get("json_output"))


def selected(
    names: list[str], groups: Mapping[str, list[str]], limit: Iterable[str], exclude: Iterable[str]
) -> tuple[list[str], list[str]]:
    """The hosts that `--limit` and `--exclude` leave, by pyinfra's own rules, and what is wrong with the patterns.

    pyinfra warns of a pattern that matches nobody and goes on: with a smaller set than was meant, or exits 0 with none.
    """
    problems: list[str] = []
    limit, exclude = list(limit), list(exclude)
    kept = _matched(names, groups, limit, "--limit", problems) if limit else set(names)
    left = kept - _matched(names, groups, exclude, "--exclude", problems)
    if not left and not problems:
        problems.append(f"--exclude: want at least one host left, found none of {', '.join(names)}")
    return [name for name in names if name in left], problems


def _matched(
    names: list[str], groups: Mapping[str, list[str]], patterns: list[str], option: str, problems: list[str]
) -> set[str]:
    matched: set[str] = set()
    for pattern in patterns:
        hit = groups[pattern] if pattern in groups else [name for name in names if fnmatch(name, pattern)]
        if not hit:
            want, got = choice(pattern, [*groups, *names], "host, group or pattern")
            problems.append(f"{option}: matches nobody: want {want}, found {got}")
        matched.update(hit)
    return matched


def has_terminal() -> bool:
    """Can somebody answer a question on stdin?"""
    return sys.stdin is not None and sys.stdin.isatty()
