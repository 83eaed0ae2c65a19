"""`fleet lab`, as an operator types it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.lab import app
from lab import host
from lab.lab import Lab

ROOT = Path(__file__).parents[2]


def fleet_lab(*words: str) -> tuple[int, str]:
    """Exit code and everything that was printed."""
    told = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    assert told.exception is None or isinstance(told.exception, SystemExit)
    return told.exit_code, told.output


@pytest.mark.lab
def test_a_second_up_says_that_nothing_was_changed(lab: Lab) -> None:
    code, text = fleet_lab("up", "--name", lab.name)
    assert (code, text) == (0, f"lab {lab.name}: 3 hosts run already; nothing was changed\n")


@pytest.mark.lab
def test_status_is_for_people_and_for_machines(lab: Lab) -> None:
    code, text = fleet_lab("status", "--name", lab.name)
    assert code == 0
    assert text.count("running") == 3
    code, text = fleet_lab("status", "--name", lab.name, "--json")
    told = json.loads(text)
    assert (code, told["name"]) == (0, lab.name)
    assert [(node["name"], node["state"], node["recording"], node["faults"]) for node in told["nodes"]] == [
        ("a1", "running", "a100", []),
        ("h1", "running", "h100", []),
        ("l1", "running", "l40s", []),
    ]
    assert told["nodes"][0]["address"] == lab.nodes[0].address


def machine(*words: str) -> Any:
    """The one document on stdout of a verb that ends well."""
    told = CliRunner().invoke(app, [*words, "--json"])
    assert told.exit_code == 0, told.output
    return json.loads(told.stdout)


@pytest.mark.lab
def test_what_changes_a_lab_tells_machines_how_it_is_now(lab: Lab) -> None:
    told = machine("up", "--name", lab.name)
    assert (told["name"], told["started"], told["kept"]) == (lab.name, [], ["a1", "h1", "l1"])
    assert Path(told["inventory"], "a1.yaml").is_file()
    assert machine("set", "l1", "--fault", "ecc:1", "--name", lab.name)["faults"] == ["ecc:1"]
    assert machine("set", "l1", "--clear", "--name", lab.name)["faults"] == []
    before = lab.status()[2]
    assert machine("reboot", "l1", "--name", lab.name) == {**before._asdict(), "faults": [], "boots": before.boots + 1}


@pytest.mark.lab
def test_a_lab_that_did_not_run_is_not_among_those_that_ended(lab: Lab) -> None:
    assert machine("down", "--name", "nowhere") == {"ended": []}
    assert [node.state for node in lab.status()] == ["running"] * 3


@pytest.mark.lab
def test_set_gives_and_clears_faults(lab: Lab) -> None:
    code, text = fleet_lab("set", "a1", "--fault", "gpu-lost:3", "--fault", "ecc:1", "--name", lab.name)
    assert (code, "gpu-lost:3, ecc:1" in text) == (0, True)
    assert lab.ssh("a1", "nvidia-smi -L").returncode == 15
    code, text = fleet_lab("set", "a1", "--clear", "--name", lab.name)
    assert (code, "gpu-lost" in text) == (0, False)
    assert lab.ssh("a1", "nvidia-smi -L").returncode == 0


@pytest.mark.lab
def test_a_disk_can_be_made_small_and_filled(lab: Lab) -> None:
    used = int(lab.ssh("l1", "df --output=used -B1M / | tail -1").stdout)  # other tests had this lab before
    code, text = fleet_lab("set", "l1", "--disk", f"{used + 16}M", "--name", lab.name)
    assert code == 0, text
    told = lab.ssh("l1", "head -c 32M /dev/zero > /root/fill; df --output=avail / | tail -1; rm /root/fill")
    assert "No space left on device" in told.stderr
    assert told.stdout.strip() == "0"
    assert lab.ssh("l1", "touch /root/again").returncode == 0
    assert fleet_lab("set", "l1", "--disk", "2G", "--name", lab.name)[0] == 0
    code, text = fleet_lab("set", "l1", "--disk", "lots", "--name", lab.name)
    assert (code, "wanted a size such as 64M or 2G, found 'lots'" in text) == (1, True)


@pytest.mark.lab
def test_reboot_waits_until_the_host_answers(lab: Lab) -> None:
    before = lab.status()[1].boots
    assert fleet_lab("reboot", "h1", "--name", lab.name)[0] == 0
    assert lab.status()[1].boots == before + 1
    assert lab.ssh("h1", "true").returncode == 0


@pytest.mark.lab
def test_ssh_passes_the_exit_code_on(lab: Lab) -> None:
    words = [sys.executable, "-m", "cli.lab", "ssh", "--name", lab.name, "a1", "--", "hostname; exit 7"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (told.returncode, told.stdout) == (7, "a1\n")


@pytest.mark.lab
@pytest.mark.parametrize(
    "words, message",
    [
        (("set", "a1", "--fault", "gremlin"), "fault: want one of these, found 'gremlin'\n  gpu-lost:3"),
        (("set", "a1", "--recording", "b200"), "recording: wanted one of a100"),
        (("set", "a1"), "nothing to set"),
        (("set", "z1", "--clear"), "has no node 'z1'; it has a1, h1, l1"),
        (("reboot", "z1"), "has no node 'z1'"),
        (("ssh", "z1"), "has no node 'z1'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_with_exit_1(lab: Lab, words: tuple[str, ...], message: str) -> None:
    code, text = fleet_lab(*words, "--name", lab.name)
    assert code == 1
    assert text.startswith("error: ")
    assert message in text


def test_a_lab_that_does_not_run_has_status_1() -> None:
    code, text = fleet_lab("status", "--name", "nowhere")
    assert code == 1
    assert "lab nowhere does not run" in text
    code, text = fleet_lab("reboot", "a1", "--name", "nowhere")
    assert (code, text.strip()) == (1, "error: a1 of lab nowhere is down; `fleet lab up` starts it")
    code, text = fleet_lab("status", "--name", "nowhere", "--json")
    assert (code, json.loads(text)) == (1, {"name": "nowhere", "nodes": []})


def test_a_name_that_would_leave_its_folder_is_refused() -> None:
    for name in ("../x", "A", "", "a b"):
        code, text = fleet_lab("status", "--name", name)
        assert (code, "lab name: wanted a letter" in text) == (1, True)


def test_too_many_hosts_are_refused() -> None:
    assert fleet_lab("up", "-n", "101")[0] == 2
    assert fleet_lab("up", "-n", "0")[0] == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="root has to step down for this")
def test_without_root_the_reason_is_given() -> None:
    script = "import os; from lab import host; os.setuid(65534); print(host.unfit())"
    told = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert "needs root; run it with sudo" in told.stdout


def test_elsewhere_than_on_linux_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert host.unfit() == "the lab boots systemd hosts and needs Linux; this is Darwin"
