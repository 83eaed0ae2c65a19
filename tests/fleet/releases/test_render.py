"""The unit file, from its template."""

import pytest
from builders import fleet_with

from templates.render import render_unit


def unit(**changes: object) -> list[str]:
    (plan,) = fleet_with(**changes).plans
    return render_unit(plan).splitlines()


def test_the_unit_carries_what_operators_forget() -> None:
    lines = unit(policy={"start_budget_s": 900, "stop_grace_s": 45, "restart_limit": 3})
    for line in (
        "TimeoutStartSec=900",
        "TimeoutStopSec=75",
        "StartLimitBurst=4",
        "Restart=always",
        "RestartSteps=5",
        "LimitNOFILE=1048576",
        "LimitMEMLOCK=infinity",
        "KillMode=mixed",
        "EnvironmentFile=/var/lib/vllm-fleet/glm/current/env",
    ):
        assert line in lines
    assert any(line.strip(" \\").startswith("--shm-size 16g") for line in lines)
    assert any(line.strip(" \\") == "--pull never" for line in lines)


def test_the_default_start_budget_is_half_an_hour() -> None:
    assert "TimeoutStartSec=1800" in unit()


def test_secrets_come_from_a_file_of_their_own_and_only_where_there_are_any() -> None:
    line = "EnvironmentFile=/var/lib/vllm-fleet/glm/current/secrets.env"
    assert line in unit(secrets={"HF_TOKEN": {"env": "X"}})
    assert line not in unit()


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("0.0.0.0", "8000"),
        ("127.0.0.1", "8000"),
        ("10.0.0.5", "8000 10.0.0.5"),
        ("fe80::1%eth0", '8000 "fe80::1%%eth0"'),
    ],
)
def test_health_is_asked_where_the_engine_listens(host: str, asked: str) -> None:
    assert f"ExecStartPost=/usr/local/lib/vllm-fleet/node wait-health {asked}" in unit(host=host)


def test_a_difference_shows_the_one_flag_that_changed() -> None:
    before, after = set(unit(max_model_len=1000)), set(unit(max_model_len=2000))
    assert [line.strip() for line in before - after] == ["--max-model-len 1000 \\"]
