"""The one command of a rollout, on real hosts: what it finds, what faults do to it, and that it changes nothing."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from facts.parse.probe import parse_probe
from facts.script import DEADLINE_S, probe_script
from fleet.nodes.node import NodeFacts
from fleet.nodes.request import ProbeRequest, ServiceRequest
from lab.lab import Lab

pytestmark = pytest.mark.lab

CHECKOUT = Path(__file__).parents[2]
# Everything that a node keeps, with sizes, modes and times of change; not what runs or is logged.
CONTENT = (
    "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/log \\) -prune"
    " -o -printf '%p %s %m %U:%G %T@ %C@\\n' | sort | sha256sum"
)


@pytest.fixture(autouse=True)
def healthy(lab: Lab) -> Iterator[None]:
    """No faults after each test."""
    yield
    for found in lab.nodes:
        lab.set(found.name, clear=True)


def digest(lab: Lab) -> str:
    return (lab.folder / "image-0.30.0.digest").read_text().strip().rpartition("@")[2]


def probe(lab: Lab, name: str, image: str | None = None) -> NodeFacts:
    """The facts of a host, for one declared service that is not there yet."""
    wanted = ServiceRequest(
        name="probed",
        model="/srv/models/llama-70b",
        image=image or f"localhost/vllm-standin@{digest(lab)}",
        port=8000,
    )
    script = probe_script(ProbeRequest(services=(wanted,), secret_key="key"))
    answer = lab.ssh(name, "bash -s", input=script.text)
    assert (answer.returncode, answer.stderr) == (0, "")
    return parse_probe(answer.stdout, script)


@pytest.mark.parametrize(
    ("name", "islands"),
    [("a1", ((0, 1), (2, 3), (4, 5), (6, 7))), ("h1", (tuple(range(8)),)), ("l1", ())],
)
def test_a_host_tells_what_it_is(lab: Lab, name: str, islands: tuple[tuple[int, ...], ...]) -> None:
    facts = probe(lab, name)
    assert facts.hostname == name
    assert facts.nvidia.error is None and all(gpu.problem is None for gpu in facts.nvidia.gpus)
    assert facts.topology and facts.topology.gpus == len(facts.nvidia.gpus)
    assert facts.topology.islands == islands
    assert facts.runtime.error is None and facts.runtime.images[0].engine == "0.30.0"
    assert facts.numa_error is None and facts.ports_error is None and facts.services_error is None
    assert ("ssh.service", 22) in {(port.unit, port.port) for port in facts.ports}
    assert facts.models[0].config and facts.models[0].error is None
    assert all(disk.free_bytes for disk in facts.disks)


def test_an_image_that_is_not_there_is_absent_and_not_an_error(lab: Lab) -> None:
    wanted = f"localhost/vllm-standin@sha256:{'0' * 64}"
    runtime = probe(lab, "a1", image=wanted).runtime
    assert runtime.error is None
    assert wanted not in {image.reference for image in runtime.images}


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("gpu-lost:3", "GPU is lost"),
        ("driver-mismatch", "Driver/library version mismatch"),
        ("driver-gone", "couldn't communicate with the NVIDIA driver"),
    ],
)
def test_a_driver_or_gpu_in_trouble_leaves_no_topology_and_keeps_the_text(lab: Lab, fault: str, text: str) -> None:
    lab.set("a1", faults=[fault])
    facts = probe(lab, "a1")
    assert facts.nvidia.error and text in facts.nvidia.error
    assert facts.topology is None and text in (facts.topology_error or "")


@pytest.mark.parametrize(
    ("fault", "gpu", "problem"),
    [("gpu-reset:2", 2, "[GPU requires reset]"), ("ecc:1", 1, "uncorrected"), ("gpu-lost:3", 3, "lost")],
)
def test_a_gpu_that_is_not_well_is_named(lab: Lab, fault: str, gpu: int, problem: str) -> None:
    lab.set("a1", faults=[fault])
    ill = [found for found in probe(lab, "a1").nvidia.gpus if found.problem]
    assert [found.index for found in ill] == [gpu]
    assert problem in (ill[0].problem or "")


def test_a_missing_nvlink_shows_in_the_islands(lab: Lab) -> None:
    lab.set("a1", faults=["nvlink-missing:0-1"])
    topology = probe(lab, "a1").topology
    assert topology and topology.islands == ((2, 3), (4, 5), (6, 7))


def test_an_nvidia_smi_that_hangs_costs_its_own_part_only_and_leaves_no_process(lab: Lab) -> None:
    lab.set("a1", faults=["hang"])
    began = time.monotonic()
    facts = probe(lab, "a1")
    assert DEADLINE_S <= time.monotonic() - began < DEADLINE_S + 10
    assert "did not end" in (facts.nvidia.error or "")
    assert facts.topology is None and facts.topology_error
    assert facts.runtime.error is None and facts.services_error is None
    assert lab.ssh("a1", "pgrep -x -a 'sleep|nvidia-smi'").stdout == ""


def test_the_probe_changes_nothing_on_a_host(lab: Lab) -> None:
    before = lab.ssh("l1", CONTENT).stdout
    assert before
    probe(lab, "l1")
    assert lab.ssh("l1", CONTENT).stdout == before


def test_each_part_is_a_fact_on_the_command_line(lab: Lab, tmp_path: Path) -> None:
    node = lab.node("a1")
    ssh = {
        "ssh_user": "root",
        "ssh_key": str(lab.folder / "id_ed25519"),
        "ssh_known_hosts_file": str(lab.folder / "known_hosts"),
        "ssh_strict_host_key_checking": "yes",
    }
    inventory = tmp_path / "hosts.py"
    inventory.write_text(f"hosts = [({node.address!r}, {ssh!r})]\n")
    for fact, told in [
        ("topology.Topology", '"components": 4'),
        ("gpus.Gpus", '"NVIDIA A100-SXM4-80GB"'),
        ("numa.Numa", '"cpus"'),
        ("machine.Machine", '"hostname": "a1"'),
        ("ports.Ports", '"ssh.service"'),
        ("disks.Disks", '"free_bytes"'),
        ("services.Services", '"error": null'),
        ("probe.Probe", json.dumps("boot_id")),
    ]:
        pyinfra = Path(sys.executable).with_name("pyinfra")
        command = [str(pyinfra), "-y", str(inventory), "fact", f"facts.{fact}"]
        ran = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0 and told in ran.stdout + ran.stderr, ran.stderr
