"""The bench's own arithmetic and texts. Nothing is measured here, and no other tool is run."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from bench import peers
from bench.contestants import Ground, contestants, wrong_recap
from bench.render import write_releases
from bench.replay import figures_of, recorded_fleet, replay, replays
from bench.report import Record, goals, medians, ratio
from bench.rollout import arguments
from fleet.declaration import NodeDeclaration, Placement, ServiceDeclaration
from fleet.plan import decide
from fleet.releases.release import Release
from templates.render import render_release

IMAGE = {"name": "localhost/vllm-standin", "digest": "sha256:" + "a" * 64, "engine": "0.30.0"}


def release() -> Release:
    """What the product renders for a node and a service with quotes, percent signs and dollars in it."""
    node = NodeDeclaration.model_validate(
        {"name": "a1", "address": "192.0.2.1", "gpus": {"count": 8, "model": "A100", "memory_mib": 81920}}
    )
    service = ServiceDeclaration.model_validate(
        {
            "name": "standin",
            "model": "/srv/models/llama-70b",
            "image": IMAGE,
            "layout": {"tp": 1},
            "max_model_len": 4096,
            "env": {"NOTE": 'it\'s 100% of $HOME "quoted" \\ {{ not jinja }}'},
        }
    )
    return render_release(decide(Placement(node=node, services=(service,)), service, None, ()))


def ground(hosts: int) -> Ground:
    return Ground(site=None, peers=Path("/nowhere"), hosts=hosts)  # type: ignore[arg-type]


def record(contestant: str, phase: str, run: int, wall_s: float, cpu_s: float) -> Record:
    return Record(60, contestant, phase, run, wall_s, cpu_s, 1.0, 0.0)  # type: ignore[arg-type]


def test_without_arguments_three_sizes_and_every_row_are_measured() -> None:
    asked = arguments([])
    assert (asked.hosts, asked.runs, asked.only) == ([3, 20, 60], 3, None)
    assert list(contestants()) == ["ours", "policy", "floor", "lean", "ansible", "mitogen", "raw"]


@pytest.mark.parametrize("words", [["--hosts", "0"], ["--hosts", "many"], ["--runs", "-1"], ["--only", "chef"]])
def test_a_wrong_argument_ends_with_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments(words)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_medians_are_told_and_ratios_are_other_by_ours() -> None:
    records = [record("ours", "same", run, wall, wall / 2) for run, wall in enumerate((9.0, 2.0, 4.0), 1)]
    records += [record("ansible", "same", run, wall, 40.0) for run, wall in enumerate((100.0, 120.0, 140.0), 1)]
    figures = medians(records)
    assert figures[60, "ours", "same"] == (4.0, 2.0, 1.0, 3)
    assert ratio(figures, 60, "ansible", "same", "wall_s") == 30.0
    assert ratio(figures, 60, "ansible", "same", "cpu_s") == 20.0


def test_a_goal_is_reached_at_its_bound_and_missed_beyond_it() -> None:
    records = [record("ours", "same", 1, 4.0, 2.0), record("ansible", "same", 1, 120.0, 59.0)]
    records += [record("floor", "same", 1, 4.0 / 1.31, 1.0)]
    told = dict(goals(records, 60))
    assert [(reached, text.split(":")[0]) for text, reached in told.items()] == [
        (True, "no change, wall, ansible / ours"),
        (False, "no change, cpu, ansible / ours"),
        (False, "no change, wall, ours / floor"),
    ]


def test_goals_of_what_was_not_measured_are_not_told() -> None:
    assert goals([record("ours", "same", 1, 4.0, 2.0)], 60) == []


def test_the_playbook_places_the_unit_and_env_that_the_product_renders(tmp_path: Path) -> None:
    made = release()
    write_releases([made], tmp_path)
    tasks = yaml.safe_load((peers.HERE / "playbook.yml").read_text())[0]["tasks"]
    copies = [task["ansible.builtin.copy"] for task in tasks if "ansible.builtin.copy" in task]
    values = {"files": str(tmp_path), "inventory_hostname": "a1"}
    sources = [Path(re.sub(r"\{\{ (\w+) \}\}", lambda m: values[m[1]], copy["src"])) for copy in copies]
    assert [path.read_text() for path in sources] == [made.files["env"], made.files["unit"]]


@pytest.mark.parametrize("same_facts", [True, False])
def test_the_one_script_carries_the_unit_and_env_that_the_product_renders(same_facts: bool) -> None:
    made = release()
    text = peers.script(made.files["unit"], made.files["env"], IMAGE, dry=False, same_facts=same_facts)
    head = text[: text.index("# Beginning of the one script")]
    shown = subprocess.run(
        ["bash", "-c", head + 'printf \'%s\\0%s\' "$unit_text" "$env_text"'], capture_output=True, text=True, check=True
    ).stdout
    assert shown.split("\0") == [made.files["unit"], made.files["env"]]
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0


def test_ansible_counts_only_where_every_host_is_as_the_phase_wants_it() -> None:
    line = "a1 : ok=13   changed={} unreachable=0    failed={} skipped=0\n"
    assert wrong_recap(ground(1), "same", line.format(0, 0)) is None
    assert wrong_recap(ground(1), "first", line.format(4, 0)) is None
    assert wrong_recap(ground(1), "same", line.format(1, 0))
    assert wrong_recap(ground(1), "dry", line.format(0, 0))
    assert wrong_recap(ground(1), "first", line.format(4, 1))
    assert wrong_recap(ground(2), "first", line.format(4, 0))


def test_every_peer_is_pinned() -> None:
    lines = [line for line in (peers.HERE / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), shlex.join(lines)
    assert {line.partition("==")[0] for line in lines} >= {"ansible-core", "mitogen", "asyncssh"}


def test_a_replay_asks_every_gate_of_so_many_recorded_nodes_once(tmp_path: Path) -> None:
    (told,) = replays(4, 1, tmp_path)
    assert told.cpu_s > 0 and "replay of 4 recorded nodes with all gates: " in figures_of(4, [told])
    with pytest.raises(RuntimeError, match="want 9 nodes judged"):
        replay(recorded_fleet(2, tmp_path), 9)
