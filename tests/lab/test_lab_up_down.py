"""Booting, growing, healing and ending a lab."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from declare.load import load_fleet
from declare.site import find_site
from lab import cgroup, host, naming, network, node, state
from lab.lab import Lab

pytestmark = pytest.mark.lab
Maker = Callable[[int], Lab]
PROJECT = Path(__file__).resolve().parents[2]


def machine_traces(lab: Lab) -> list[str]:
    """Everything of a lab that can be seen on this machine."""
    bridge = naming.bridge_name(lab.name)
    ports = {naming.port_name(lab.name, found.name) for found in lab.nodes}
    seen = [link for link in network.links() if link == bridge or link in ports]
    seen += network.namespaces(lab.name)
    seen += [line for line in Path("/proc/self/mounts").read_text().splitlines() if f"/{lab.name}/" in line]
    seen += [str(point) for _, point in cgroup.hierarchies() if (point / cgroup.BASE / lab.name).exists()]
    seen += processes(str(host.RUN / lab.name))
    return seen + ([str(host.RUN / lab.name)] if (host.RUN / lab.name).exists() else [])


def processes(word: str) -> list[str]:
    """Processes of this machine with this word in their arguments or in their view of the file system."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_text() + (folder / "mounts").read_text()
        except (OSError, UnicodeDecodeError):
            continue
        if f"{word}/" in text:
            found.append(folder.name)
    return found


def test_the_hosts_are_real_systemd_hosts(lab: Lab) -> None:
    assert [found.name for found in lab.nodes] == ["a1", "h1", "l1"]
    for found in lab.nodes:
        told = lab.ssh(
            found.name, "systemctl is-system-running --wait; cat /proc/1/comm; hostname; systemctl --failed -q"
        )
        assert told.stdout.split() == ["running", "systemd", found.name]


def test_every_host_has_an_identity_of_its_own(lab: Lab) -> None:
    told = [lab.ssh(found.name, "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key").stdout for found in lab.nodes]
    assert len(set(told)) == 3
    assert all(len(text.splitlines()[0]) == 32 for text in told)


def test_a_second_up_changes_nothing(lab: Lab) -> None:
    boot = "cat /proc/sys/kernel/random/boot_id; touch /var/tmp/mark"
    before = [lab.ssh(found.name, boot).stdout for found in lab.nodes]
    files = {path: path.read_bytes() for path in lab.folder.rglob("*") if path.is_file()}
    report = Lab(lab.name, 3).up()
    assert (report.started, report.kept) == ((), ("a1", "h1", "l1"))
    assert before == [lab.ssh(found.name, boot).stdout for found in lab.nodes]
    assert files == {path: path.read_bytes() for path in lab.folder.rglob("*") if path.is_file()}


def test_an_unknown_or_changed_host_key_is_refused(lab: Lab, tmp_path: Path) -> None:
    words = lab.ssh_command("a1")
    for known in ("", (lab.folder / "known_hosts").read_text().replace("10.231", "10.99")):
        (tmp_path / "known_hosts").write_text(known)
        strange = [word.replace(str(lab.folder / "known_hosts"), str(tmp_path / "known_hosts")) for word in words]
        told = subprocess.run([*strange, "true"], capture_output=True, text=True)
        assert told.returncode == 255
        assert "verification failed" in told.stderr
    swapped = (lab.folder / "known_hosts").read_text().splitlines()
    address = lab.node("a1").address
    key_of_h1 = swapped[1].split(maxsplit=1)[1]
    (tmp_path / "known_hosts").write_text(f"{address} {key_of_h1}\n")
    told = subprocess.run([*strange, "true"], capture_output=True, text=True)
    assert told.returncode == 255
    assert "verification failed" in told.stderr


def test_only_the_key_of_the_lab_opens_a_host(lab: Lab, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    words = [word.replace(str(lab.folder / "id_ed25519"), str(tmp_path / "other")) for word in lab.ssh_command("a1")]
    told = subprocess.run([*words, "-o", "BatchMode=yes", "true"], capture_output=True, text=True)
    assert told.returncode == 255
    assert "Permission denied (publickey)" in told.stderr
    assert oct((lab.folder / "id_ed25519").stat().st_mode & 0o777) == "0o600"


def test_the_inventory_says_what_the_host_is(lab: Lab, tmp_path: Path) -> None:
    lab.write_inventory(tmp_path / "fleet")
    declared = {path.stem: yaml.safe_load(path.read_text()) for path in (tmp_path / "fleet").iterdir()}
    assert declared["a1"]["nvlink_islands"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert declared["h1"]["gpus"] == {"count": 8, "model": "NVIDIA H100 80GB HBM3", "memory_mib": 81559}
    assert declared["l1"]["numa"] == [0, 0, 1, 1]
    access = declared["l1"]["ssh"]
    assert (tmp_path / "fleet" / access["key"]).resolve() == (lab.folder / "id_ed25519").resolve()


def test_hosts_reach_each_other_and_nothing_beyond_the_lab(lab: Lab) -> None:
    ask = "curl -s -m 2 -o /dev/null telnet://{}:22 </dev/null; echo $?"
    beside = lab.ssh("a1", ask.format(lab.node("h1").address)).stdout
    assert beside.strip() in ("0", "28")  # connected: closed by us, or still open when the time was over
    beyond = lab.ssh("a1", ask.format("192.0.2.1")).stdout
    assert beyond.strip() == "7"  # no route


def test_more_nodes_are_added_to_a_lab_that_runs(own_lab: Maker) -> None:
    assert own_lab(1).up().started == ("a1",)
    report = own_lab(2).up()
    assert (report.started, report.kept) == (("h1",), ("a1",))
    assert own_lab(1).up().kept == ("a1", "h1")


def test_down_leaves_nothing(own_lab: Maker) -> None:
    lab = own_lab(2)
    lab.up()
    assert machine_traces(lab)
    assert lab.down()
    assert machine_traces(lab) == []
    assert not lab.down()
    assert lab.status() == []


def test_connections_to_a_lab_that_is_down_fail_at_once_and_stay_here(own_lab: Maker) -> None:
    lab = own_lab(1)
    lab.up()
    lab.down()
    with pytest.raises(OSError, match="No route to host"):
        network.ip("route", "get", lab.nodes[0].address)
    assert not node.answers(lab.nodes[0].address, timeout_s=30)


def test_host_keys_outlive_the_lab(own_lab: Maker) -> None:
    lab = own_lab(1)
    lab.up()
    known = (lab.folder / "known_hosts").read_text()
    lab.down()
    lab.up()
    assert (lab.folder / "known_hosts").read_text() == known
    assert lab.ssh("a1", "true").returncode == 0


def test_a_lab_whose_processes_died_is_cleaned_by_the_next_up(own_lab: Maker) -> None:
    lab = own_lab(2)
    lab.up()
    cgroup.kill(cgroup.root() / lab.name)
    assert [found.state for found in lab.status()] == ["down", "down"]
    assert lab.up().started == ("a1", "h1")
    assert lab.ssh("h1", "systemctl is-system-running --wait").stdout.strip() == "running"


def test_orphans_without_a_keeper_are_ended_by_the_next_up(own_lab: Maker) -> None:
    lab = own_lab(1)
    lab.up()
    group = cgroup.of_node(lab.name, "a1")
    for name in ("keeper", "host/supervisor"):
        for pid in (group / name / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    (host.RUN / lab.name / "lab.json").unlink()
    assert own_lab(1).up().started == ("a1",)
    assert lab.ssh("a1", "true").returncode == 0
    lab.down()
    assert machine_traces(lab) == []


def test_a_host_that_has_lost_its_keeper_is_replaced_by_the_next_up(own_lab: Maker) -> None:
    lab = own_lab(1)
    lab.up()
    for pid in (cgroup.of_node(lab.name, "a1") / "keeper/cgroup.procs").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    assert [found.state for found in lab.status()] == ["running"], "it serves on, but nobody would boot it again"
    assert lab.up().started == ("a1",)
    lab.reboot("a1")


def test_one_broken_host_is_replaced_and_the_others_are_left_alone(own_lab: Maker) -> None:
    lab = own_lab(2)
    lab.up()
    lab.ssh("a1", "touch /root/mark")
    cgroup.kill(cgroup.of_node(lab.name, "h1"))
    network.remove_nodes(lab.name, ["h1"])
    report = lab.up()
    assert (report.started, report.kept) == (("h1",), ("a1",))
    assert lab.ssh("a1", "ls /root/mark").returncode == 0
    assert lab.ssh("h1", "hostname").stdout.strip() == "h1"


def test_a_lab_of_another_checkout_is_not_touched(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_FLEET_LAB_STATE", str(tmp_path))
    with pytest.raises(host.LabError, match="runs already, started from"):
        Lab(lab.name).up()
    with pytest.raises(host.LabError, match="was started from"):
        Lab(lab.name).down()
    record = state.read(lab.name)
    assert record is not None
    assert json.loads((lab.folder / "lab.json").read_text())["state"] == str(record.state)


def test_the_fleet_of_a_lab_of_any_size_can_be_rolled_out(lab: Lab) -> None:
    fleet = load_fleet(find_site(str(lab.folder / "fleet"), PROJECT))
    assert {p.node.name: [s.name for s in p.services] for p in fleet.placements} == {
        "a1": ["glm"],
        "h1": ["qwen"],
        "l1": ["llama"],
    }
    digest = (lab.folder / "image-0.30.0.digest").read_text().strip()
    assert {s.image.digest for p in fleet.placements for s in p.services} == {digest}
