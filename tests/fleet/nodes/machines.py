"""A machine that lacks nothing, and what is decided of one."""

import hashlib
from typing import Any

from fleet.declaration import NodeDeclaration
from fleet.nodes.bare import Entry, MachineFacts
from fleet.nodes.bootstrap import decide, wanted_files
from fleet.nodes.driver import CDI_UNIT
from fleet.nodes.host import AptSource, HostDeclaration
from fleet.nodes.step import Bootstrap

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"
SUPPORT = {"/usr/local/lib/vllm-fleet/node": ("755", "#!/bin/bash\n")}
UNITS = {CDI_UNIT: "[Unit]\n"}
APT = AptSource(url="https://apt.example/deb", suite="./", key="/k.asc", pin={"nvidia-container-toolkit": "1.17.*"})
DECLARED = HostDeclaration(apt={"nvidia": APT}, sysctl={"vm.max_map_count": 1048576}, user="vllm", folders=("/srv/m",))


def node(gpus: int = 8, runtime: str = "podman") -> NodeDeclaration:
    return NodeDeclaration.model_validate(
        {
            "name": "n1",
            "address": "192.0.2.1",
            "gpus": {"count": gpus, "model": "A100", "memory_mib": 81920},
            "runtime": runtime,
        }
    )


def entry(text: str, mode: str = "644") -> Entry:
    return Entry(mode, "root:root", "regular file", hashlib.sha256(text.encode()).hexdigest())


def conforming(host: HostDeclaration = DECLARED, **other: Any) -> MachineFacts:
    """A machine that lacks nothing."""
    files = wanted_files(host, {name: KEY for name in host.apt}, SUPPORT)
    entries = {path: entry(text, "755" if path in SUPPORT else "644") for path, text in files.items()}
    entries |= {CDI_UNIT: entry(UNITS[CDI_UNIT]), "/srv/m": Entry("755", "vllm:vllm", "directory", None)}
    facts: dict[str, Any] = {
        "os_id": "debian",
        "os_version": "13",
        "systemd": True,
        "programs": frozenset({"podman", "nvidia-smi", "nvidia-ctk", "rsync", "curl"}),
        "units": {"chrony": "active"},
        "enabled": {"vllm-fleet-boot": "enabled", "vllm-fleet-cdi": "enabled"},
        "driver": "570.124.06",
        "persistence": True,
        "cdi": "/etc/cdi/nvidia.yaml",
        "cdi_driver": "570.124.06",
        "podman": "5.4.2",
        "sysctl": {"vm.max_map_count": "1048576"},
        "users": {"vllm": "vllm"},
        "architecture": "amd64",
        "entries": entries,
    }
    return MachineFacts.model_validate(facts | other)


def needs(facts: MachineFacts, host: HostDeclaration = DECLARED, one: NodeDeclaration | None = None) -> Bootstrap:
    return decide(one or node(), host, facts, {name: KEY for name in host.apt}, SUPPORT, UNITS)


def names(found: Bootstrap) -> list[str]:
    return [step.name for step in found.steps]
