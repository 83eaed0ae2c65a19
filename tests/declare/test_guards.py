"""Options of pyinfra that a rollout cannot obey, and patterns that match nobody."""

import pytest

from declare.guard import refused_data, refused_options, selected

NAMES = ["a1", "a2", "h1"]
GROUPS = {"a100": ["a1", "a2"], "h100": ["h1"], "inventory": NAMES}


@pytest.mark.parametrize(
    ("limit", "exclude", "left"),
    [
        ([], [], ["a1", "a2", "h1"]),
        (["a100"], [], ["a1", "a2"]),
        (["a*"], ["a2"], ["a1"]),
        (["h1", "a1"], [], ["a1", "h1"]),
        ([], ["h100"], ["a1", "a2"]),
        (["inventory"], ["[ah]1"], ["a2"]),
    ],
)
def test_names_groups_and_patterns_select(limit: list[str], exclude: list[str], left: list[str]) -> None:
    assert selected(NAMES, GROUPS, limit, exclude) == (left, [])


@pytest.mark.parametrize(
    ("limit", "exclude", "said"),
    [
        (["a11"], [], '--limit: matches nobody: want a known host, group or pattern, found "a11"; did you mean "a1"?'),
        (["a1", "x*"], [], "--limit: matches nobody: want one of a100, h100, inventory, a1, a2, h1, found"),
        (["all"], [], "--limit: matches nobody"),
        ([], ["h200"], '--exclude: matches nobody: want a known host, group or pattern, found "h200"'),
        ([], ["*"], "--exclude: want at least one host left, found none of a1, a2, h1"),
        (["a1"], ["a100"], "--exclude: want at least one host left"),
    ],
)
def test_a_pattern_that_matches_nobody_is_refused(limit: list[str], exclude: list[str], said: str) -> None:
    _, problems = selected(NAMES, GROUPS, limit, exclude)
    assert len(problems) == 1 and problems[0].startswith(said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"serial": True}, "--serial: want rollout.batches to decide the order"),
        ({"no_wait": True}, "--no-wait: want every batch to wait for its proof"),
        ({"fail_percent": 0}, "--fail-percent: want rollout.on_failed_gate"),
        ({"group_data": ("/tmp",)}, "--group-data: want group data of the fleet"),
    ],
)
def test_an_option_that_a_rollout_cannot_obey_is_refused(options: dict[str, object], said: str) -> None:
    (line,) = refused_options({"operations": ("deploy.py",), "yes": True, **options}, terminal=True)
    assert line.startswith(said)


@pytest.mark.parametrize(
    ("options", "terminal", "asks"),
    [
        ({"operations": ("deploy.py",)}, False, True),
        ({"operations": ("server.shell", "true")}, False, True),
        ({"operations": ("deploy.py",)}, True, False),
        ({"operations": ("deploy.py",), "yes": True}, False, False),
        ({"operations": ("deploy.py",), "dry": True}, False, False),
        ({"operations": ("deploy.py",), "json_output": True}, False, False),
        ({"operations": ("debug-inventory",)}, False, False),
        ({"operations": ("fact", "server.Hostname")}, False, False),
    ],
)
def test_a_run_that_nobody_could_confirm_is_refused(options: dict[str, object], terminal: bool, asks: bool) -> None:
    assert [line[:2] for line in refused_options(options, terminal)] == (["-y"] if asks else [])


def test_data_says_one_thing_about_each_name() -> None:
    assert refused_data(["tp=8", "pp=1", "hf_overrides={}", "model=/a=b"]) == []
    assert refused_data(["tp"]) == ["--data tp: want NAME=VALUE, found no ="]
    assert refused_data(["tp=4", "tp=8"]) == ["--data tp: want one value, found 2"]
