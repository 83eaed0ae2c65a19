"""Hosts that reboot, lose power, are switched off or cut from the network."""

import time

import pytest

from lab import host
from lab.lab import Lab

pytestmark = pytest.mark.lab


def boot_id(lab: Lab, name: str) -> str:
    return lab.ssh(name, "cat /proc/sys/kernel/random/boot_id").stdout


@pytest.mark.parametrize("hard", [False, True])
def test_a_reboot_keeps_the_disk_and_nothing_else(lab: Lab, hard: bool) -> None:
    before = boot_id(lab, "a1")
    lab.ssh("a1", "echo kept > /var/lib/mark; touch /run/mark /tmp/mark")
    lab.reboot("a1", hard=hard)
    assert boot_id(lab, "a1") != before
    assert lab.ssh("a1", "cat /var/lib/mark; ls /run/mark /tmp/mark").stdout == "kept\n"
    assert lab.ssh("a1", "systemctl is-system-running --wait").stdout == "running\n"


def test_a_soft_reboot_stops_services_in_order_and_a_power_cut_does_not(lab: Lab) -> None:
    unit = "[Service]\\nExecStart=/bin/sleep infinity\\nExecStop=/bin/touch /var/lib/stopped\\n"
    lab.ssh("h1", f"printf '{unit}' > /etc/systemd/system/long.service; systemctl start long; rm -f /var/lib/stopped")
    lab.reboot("h1", hard=True)
    assert lab.ssh("h1", "ls /var/lib/stopped").returncode == 2
    lab.ssh("h1", "systemctl start long")
    lab.reboot("h1", hard=False)
    assert lab.ssh("h1", "ls /var/lib/stopped").returncode == 0


def test_a_power_cut_takes_effect_at_once(lab: Lab) -> None:
    lab.ssh("l1", "nohup sh -c 'while :; do date +%s%N > /var/lib/beat; sleep 0.01; done' >/dev/null 2>&1 &")
    cut_at = time.time_ns()
    lab.reboot("l1")
    last = int(lab.ssh("l1", "cat /var/lib/beat").stdout or 0)
    assert last < cut_at + 300_000_000


def test_a_host_that_was_switched_off_is_down_until_the_next_up(lab: Lab) -> None:
    lab.ssh("l1", "systemctl poweroff")
    deadline = time.monotonic() + 20
    while lab.status()[2].state != "down":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert lab.ssh("l1", "true").returncode == 255
    assert lab.up().started == ("l1",)


def test_a_host_can_be_cut_off_and_goes_on_running(lab: Lab) -> None:
    before = boot_id(lab, "a1")
    lab.ssh("a1", "systemd-run --quiet --unit=beat sh -c 'while :; do echo x >> /run/beat; sleep 0.05; done'")
    lab.cut("a1")
    started = time.monotonic()
    assert lab.ssh("a1", "true").returncode == 255
    assert time.monotonic() - started < 6
    assert lab.status()[0].state == "unreachable"
    time.sleep(0.5)
    lab.join("a1")
    assert boot_id(lab, "a1") == before
    assert len(lab.ssh("a1", "cat /run/beat; systemctl stop beat").stdout.split()) > 8


def test_a_replaced_host_is_new_under_the_old_name_and_key(lab: Lab) -> None:
    lab.ssh("h1", "touch /root/mark")
    before = lab.ssh("h1", "cat /etc/machine-id").stdout
    lab.replace("h1")
    told = lab.ssh("h1", "cat /etc/machine-id; ls /root/mark")
    assert (told.returncode, told.stdout != before) == (2, True)


def test_a_node_that_the_lab_does_not_have_is_named(lab: Lab) -> None:
    with pytest.raises(host.LabError, match="has no node 'a9'"):
        lab.reboot("a9")
