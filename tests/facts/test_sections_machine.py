"""The probe's own bash on this machine and on CDI specifications of every form."""

import json
import os
import shutil
from pathlib import Path

import pytest

from facts.parse.cdi import parse_cdi
from facts.parse.frames import parse_frames
from facts.parse.probe import read_mounts
from facts.parse.system import parse_system
from facts.parse.versions import parse_names, parse_versions
from fleet.nodes.machine import Cdi
from fleet.nodes.request import ProbeRequest, ServiceRequest
from tests.facts.fake_node import FakeNode

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="runs the probe's bash")

YAML = """---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/null
  - path: /dev/not-there
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05
  hooks:
  - args:
    - nvidia-cdi-hook
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/null
  name: "0"
- name: GPU-0000
- name: all
kind: nvidia.com/gpu
"""


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


@pytest.mark.skipif(not Path("/proc/1/limits").exists(), reason="reads /proc and /sys of Linux")
def test_this_machine_is_understood_whole(node: FakeNode) -> None:
    answer, script = node.ask(ProbeRequest(), "system")
    machine = parse_system(parse_frames(answer, script.nonce)["system"])
    assert machine.error is None
    assert machine.nr_open == int(Path("/proc/sys/fs/nr_open").read_text())
    assert machine.open_files and machine.capabilities is not None and machine.memory_available
    assert machine.running_modules == Path(f"/lib/modules/{os.uname().release}").is_dir()


def specifications(node: FakeNode, **files: str) -> Cdi:
    """What is read of specifications, whose names have `_` for a dot."""
    folder = node.root / "cdi"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    answer, script = node.ask(ProbeRequest(), "cdi")
    return parse_cdi(parse_frames(answer, script.nonce)["cdi"])


def test_a_specification_as_nvidia_ctk_writes_it_is_read(node: FakeNode) -> None:
    told = specifications(node, nvidia_yaml=YAML)
    assert told.error is None
    (spec,) = told.specs
    assert spec.file == "/etc/cdi/nvidia.yaml" and spec.names == ("0", "GPU-0000", "all")
    assert (spec.library, spec.missing) == ("580.95.05", ("/dev/not-there",))


@pytest.mark.parametrize("indent", [None, 1])
def test_a_specification_in_json_is_read_on_one_line_and_on_many(node: FakeNode, indent: int | None) -> None:
    devices = [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/null"}, {"path": "/dev/not-there"}]}},
        {"name": "all"},
    ]
    text = json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}, indent=indent)
    (spec,) = specifications(node, nvidia_json=text).specs
    assert (spec.names, spec.library, spec.missing) == (("0", "all"), None, ("/dev/not-there",))


def test_specifications_of_other_devices_and_none_at_all_are_no_error(node: FakeNode) -> None:
    assert specifications(node) == Cdi()
    assert specifications(node, vendor_yaml="kind: vendor.com/device\ndevices:\n- name: x\n") == Cdi()


def test_docker_is_not_asked_for_specifications(node: FakeNode) -> None:
    (node.root / "cdi").mkdir()
    (node.root / "cdi" / "nvidia.yaml").write_text(YAML)
    answer, script = node.ask(ProbeRequest(runtime="docker"), "cdi")
    assert parse_cdi(parse_frames(answer, script.nonce)["cdi"]) == Cdi()


def test_sources_of_mounts_are_looked_at_whatever_their_name(node: FakeNode) -> None:
    there = str(node.root / """a b$(touch pwned)'ü""")
    Path(there).mkdir()
    absent = str(node.root / "absent")
    wanted = ServiceRequest(name="chat", model="/m", image="x", port=1, mounts=(there, absent))
    answer, script = node.ask(ProbeRequest(services=(wanted,)), "mounts")
    assert read_mounts(parse_frames(answer, script.nonce)["mounts"]) == {there: True, absent: False}
    assert not Path("pwned").exists()


def test_versions_are_what_each_program_says_first_and_a_program_that_fails_is_told(node: FakeNode) -> None:
    node.runtime("echo podman version 5.4.2")
    node.program("nvidia-ctk", "echo 'NVIDIA Container Toolkit CLI version 1.17.8'; echo 'commit: abc'")
    answer, script = node.ask(ProbeRequest(), "versions")
    told, error = parse_versions(parse_frames(answer, script.nonce)["versions"])
    assert error is None
    assert told == {"podman": "podman version 5.4.2", "nvidia-ctk": "NVIDIA Container Toolkit CLI version 1.17.8"}
    node.program("nvidia-ctk", "echo libc is too old >&2; exit 1")
    answer, script = node.ask(ProbeRequest(), "versions")
    told, error = parse_versions(parse_frames(answer, script.nonce)["versions"])
    assert list(told) == ["podman"] and "nvidia-ctk: libc is too old; exit 1" in (error or "")


def test_a_program_that_is_not_there_is_not_told_of(node: FakeNode) -> None:
    answer, script = node.ask(ProbeRequest(), "versions")
    assert parse_versions(parse_frames(answer, script.nonce)["versions"]) == ({}, None)


def test_names_of_other_machines_are_resolved_or_not(node: FakeNode) -> None:
    wanted = ("localhost", "no-such-machine.invalid", "$(touch pwned)")
    answer, script = node.ask(ProbeRequest(names=wanted), "names")
    told = parse_names(parse_frames(answer, script.nonce)["names"], wanted)
    assert told == ({"localhost": True, "no-such-machine.invalid": False, "$(touch pwned)": False}, None)
    assert not Path("pwned").exists()


def test_labels_are_told_only_where_selinux_is_enforced(node: FakeNode) -> None:
    """A kernel without SELinux tells `?` for a label, which is no readable one."""
    model = node.root / "models"
    model.mkdir()
    asked = ProbeRequest(services=(ServiceRequest(name="chat", model=str(model), image="x", port=1),))
    folder = node.root / "selinux"
    (folder / "booleans").mkdir(parents=True)
    (folder / "booleans" / "container_use_devices").write_text("1 1")
    for enforced in ("0", "1"):
        (folder / "enforce").write_text(enforced)
        answer, script = node.ask(asked, "system")
        machine = parse_system(parse_frames(answer, script.nonce)["system"])
        assert machine.selinux_enforced is (enforced == "1")
        assert list(machine.labels) == ([str(model)] if enforced == "1" else [])
        assert machine.selinux_devices is (True if enforced == "1" else None)
