"""Parsers of what a machine tells of itself: GPUs, links, kernel, NUMA, runtime, room."""

import re

from facts.parse.bare import read_bare
from facts.parse.cdi import parse_cdi
from facts.parse.cgroups import unit_of
from facts.parse.frames import ProbeError
from facts.parse.gpus import parse_gpus
from facts.parse.host import read_host
from facts.parse.kernel import parse_kernel
from facts.parse.numa import CpuListError, parse_cpu_list, parse_numa
from facts.parse.nvlinks import parse_nvlinks
from facts.parse.p2p import parse_p2p
from facts.parse.probe import read_models, read_mounts
from facts.parse.runtime import parse_disks, parse_ports, parse_runtime
from facts.parse.span import parse_span
from facts.parse.system import parse_system
from facts.parse.topology import TopologyError, parse_topology
from facts.parse.versions import parse_names, parse_versions
from fleet.nodes.request import PeerRequest
from tests.fuzz.frame import MODEL, section, target, told


@target("gpus")
def gpus(text: str) -> None:
    """Every line that is no GPU row is an error, word for word."""
    nvidia = parse_gpus(text)
    nvidia.model_dump_json()
    assert nvidia.error or nvidia.gpus
    again = any(line.startswith("fields ") for line in text.splitlines())
    for line in text.splitlines():
        if "device handle" in line and not line.startswith(("process ", "cgroup ")) and not again:
            assert line.strip() in (nvidia.error or "")


@target("topology")
def topology(text: str) -> None:
    """A matrix is understood whole or refused; cut or damaged rows never give fewer GPUs without a word."""
    try:
        found = parse_topology(text)
    except TopologyError:
        return
    assert found.gpus == len(found.links) >= 1
    rows = {line.split()[0] for line in text.splitlines() if re.match(r"\s*GPU[0-9]+\s+.*\bX\b", line)}
    assert found.gpus >= len({row for row in rows if re.fullmatch(r"GPU[0-9]+", row)})
    found.summary()


@target("kernel")
def kernel(text: str) -> None:
    """No line with an Xid is passed over."""
    log = parse_kernel(section(text))
    for line in section(text).text.splitlines():
        if "NVRM: Xid (" in line:
            assert log.error or log.xids


@target("nvlinks")
def nvlinks(text: str) -> None:
    """GPUs with their ports, or the reason."""
    links, error = parse_nvlinks(section(text))
    told(error, text, links)
    assert not (error and links)


@target("peers")
def peers(text: str) -> None:
    """A whole square of known words, or the reason."""
    rows, error = parse_p2p(section(text))
    told(error, text, rows)
    assert {len(row) for row in rows} <= {len(rows)}


@target("host")
def span(text: str) -> None:
    """Of every peer that was asked for, what was told or why nothing is known."""
    asked = (PeerRequest(name="a2", address="a2.example", port=29501),)
    way = "route 192.0.2.2 dev ens1 src 192.0.2.1 uid 0"
    for whole in (text, f"peer a2 29501\nresolved {text}\n{way}", f"peer a2 29501\nresolved 192.0.2.2\nroute {text}"):
        found, error = parse_span(section(whole), asked)
        told(error, whole, found)
        for peer in found:
            assert peer.error or (peer.resolved and peer.interface and peer.source)


@target("system")
def system(text: str) -> None:
    """Without an error the limits of PID 1 are known."""
    machine = parse_system(section(text))
    machine.model_dump_json()
    assert machine.error or machine.open_files or machine.locked_memory


@target("cdi")
def cdi(text: str) -> None:
    """Each line is a part of a specification, or an error."""
    found = parse_cdi(section(text))
    words = {"spec", "name", "library", "missing"}
    odd = [line for line in section(text).text.splitlines() if line.strip() and line.partition(" ")[0] not in words]
    assert found.error or not odd


@target("numa")
def numa(text: str) -> None:
    """NUMA nodes that share no CPU, or the reason."""
    nodes, error = parse_numa(text)
    assert bool(nodes) != bool(error)
    cpus = [cpu for node in nodes for cpu in parse_cpu_list(node.cpus)]
    assert len(cpus) == len(set(cpus))


@target("numa")
def cpu_list(text: str) -> None:
    """Rising numbers, or CpuListError."""
    try:
        cpus = parse_cpu_list(text)
    except CpuListError:
        return
    assert list(cpus) == sorted(set(cpus))


@target("runtime")
def runtime(text: str) -> None:
    """Images and the reason for each that could not be looked at."""
    parse_runtime(section(text), "podman").model_dump_json()


@target("ports")
def ports(text: str) -> None:
    """Listeners, or the reason and none."""
    found, error = parse_ports(section(text))
    assert not (found and error)


@target("disks")
def disks(text: str) -> None:
    """Each wanted path has its room, or says why not."""
    assert all(disk.free_bytes is not None or disk.error for disk in parse_disks(section(text)))


@target("host")
def host(text: str) -> None:
    """Name and clock, or ProbeError."""
    try:
        assert read_host(section(text))["hostname"]
    except ProbeError:
        return


@target("models")
def models(text: str) -> None:
    """Each wanted folder has its config.json, or says why not."""
    assert all(folder.config is not None or folder.error for folder in read_models(section(text), [MODEL]))


@target("mounts", texts=("there /srv/models\nabsent /srv/hf cache\n",))
def mounts(text: str) -> None:
    """What is there, absent, or not told of."""
    assert all(isinstance(there, bool) for there in read_mounts(section(text)).values())


@target("versions")
def versions(text: str) -> None:
    """Each program that is there has its version, or the reason is told."""
    found, error = parse_versions(section(text))
    asked = {line.partition(" ")[2] for line in section(text).text.splitlines() if line.startswith("program ")}
    assert error or asked == set(found)


@target(texts=("yes mirror.example\nno a2.example\n",))
def names(text: str) -> None:
    """Only names that were asked about are told of."""
    found, _ = parse_names(section(text), ("mirror.example", "a2.example"))
    assert set(found) <= {"mirror.example", "a2.example"}


BARE = """os ID debian\nos VERSION_ID 13\nsystemd yes\npackage ii |podman|5.4.2\nheld nvidia-driver-580\nprogram podman
unit chrony.service active\nunitfile chrony.service enabled\nsmi 580.95.05, Enabled\ncdi /etc/cdi/nvidia.yaml 580.95.05
sysctl vm.swappiness 10\nentry 644_root:root_regular_file /etc/a b\ncontent abc  /etc/a b\nuser vllm\nreboot due
packaging apt-get\ncudaapp 4711, python3
archives ZGViIGh0dHA6Ly9oIHMgYwo= /etc/apt/a.list
stuck none\t/srv/a\t/srv/a/b\nstuck read\t/etc\t/etc/b\n"""


@target(texts=(BARE,))
def bare(text: str) -> None:
    """What a bootstrap must know of a machine; a line in another form tells nothing, an archive that is cut is told."""
    try:
        read_bare(section(text)).model_dump_json()
    except ProbeError as error:
        assert "archives" in text and str(error)


CGROUPS = "/system.slice/vllm-glm.service/libpod-payload-cc\n/user.slice/user-0.slice/session-1.scope"


@target(texts=(CGROUPS,))
def cgroups(text: str) -> None:
    """A unit is a part of the path, and nothing else."""
    unit = unit_of(text, {})
    assert unit is None or unit in text.split("/")
