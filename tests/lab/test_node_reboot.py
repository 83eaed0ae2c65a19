"""A node that goes down between activation and proof comes up with what was proven, without any controller."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest
from tiny_service import TinyHost, TinyRelease

from fleet.releases.command import NODE_SCRIPT, STATE

pytestmark = pytest.mark.lab
numbers = count(1)

HOW = pytest.mark.parametrize("hard", [False, True], ids=["reboot", "power-cut"])
WHEN = pytest.mark.parametrize("load_s", ["60", "0"], ids=["during-load", "before-proof"])


@pytest.fixture
def release(host: TinyHost) -> Iterator[TinyRelease]:
    """A release of a service that no other test uses, not staged."""
    number = next(numbers)
    made = TinyRelease(f"reboot-{number}", 9100 + number, budget=100)
    yield made
    host.call("drop", made.name)


def activate_in_background(host: TinyHost, release: TinyRelease, load_s: str) -> None:
    """Up to the middle of its load, or up to health."""
    assert host.stage(release).error is None
    verb = f"{NODE_SCRIPT} activate {release.name} {release.id} 600 run1"
    host.run(f"systemd-run --quiet --collect --unit=activation-{release.name} {verb}")
    active = "activating" if load_s != "0" else "active"
    host.wait_state(release, current=f"releases/{release.id}", active=active)


@HOW
@WHEN
def test_the_proven_release_runs_after_a_restart(host: TinyHost, release: TinyRelease, hard: bool, load_s: str) -> None:
    host.prove(release)
    second = replace(release, env={"LOAD_S": load_s}, extra="Environment=SECOND=1\n")
    activate_in_background(host, second, load_s)
    host.lab.reboot(host.name, hard=hard)
    host.wait_answer(release, release, limit_s=40)
    host.settled_on(release)
    log = host.out(f"cat {STATE}/{release.name}/undo.log").split("\t")
    assert "restarted" in log[1] and log[2:] == [second.id, release.id]
    shown = host.out(f"systemctl show -p Environment -p NRestarts -p NeedDaemonReload vllm-{release.name}")
    assert set(shown.splitlines()) == {"Environment=", "NRestarts=0", "NeedDaemonReload=no"}, "only the old unit ran"
    journal = host.out(f"journalctl --no-pager -b -o cat -u vllm-fleet-boot -u vllm-{release.name}")
    assert f"undone_{release.name}={release.id}" in journal
    process = host.out(f"tr '\\0' '\\n' </proc/$(systemctl show --value -p MainPID vllm-{release.name})/environ")
    assert "RELEASE=" in process and "SECOND=" not in process


@HOW
@WHEN
def test_a_first_release_does_not_come_up_unproven(
    host: TinyHost, release: TinyRelease, hard: bool, load_s: str
) -> None:
    activate_in_background(host, replace(release, env={"LOAD_S": load_s}), load_s)
    host.lab.reboot(host.name, hard=hard)
    host.wait_state(release, pending="", current="", active="inactive")
    assert host.run(f"test -e /etc/systemd/system/vllm-{release.name}.service").returncode == 1
    assert host.answer(release) == ""
    assert host.out("systemctl is-system-running --wait") == "running", host.told(release)


@HOW
def test_a_proven_release_comes_up_by_itself(host: TinyHost, release: TinyRelease, hard: bool) -> None:
    host.prove(release)
    host.lab.reboot(host.name, hard=hard)
    host.wait_answer(release, release, limit_s=40)
    host.settled_on(release)


def test_starting_the_boot_unit_during_an_activation_undoes_nothing(host: TinyHost, release: TinyRelease) -> None:
    host.prove(release)
    second = replace(release, env={"CHANGE": "1"})
    host.activate(second)
    host.run("systemctl restart vllm-fleet-boot.service")
    assert host.answer(release) == second.id and host.state(release)["pending"]


def test_an_undo_after_a_restart_waits_for_what_the_boot_started(host: TinyHost, release: TinyRelease) -> None:
    loading = replace(release, env={"LOAD_S": "4"})
    host.prove(loading)
    host.lab.reboot(host.name, hard=True)
    reply = host.call("undo", release.name)
    assert reply.code == 0 and reply.values == {"undone": loading.id, "changed": "no", "active": loading.id}, reply
    assert host.answer(loading) == loading.id
