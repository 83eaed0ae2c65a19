"""What the probe of a node must look at, for what is declared on it."""

from typing import Literal

from fleet.frozen import Frozen


class ServiceRequest(Frozen):
    """What the probe must look at for one declared service."""

    name: str
    model: str
    """Folder of the checkpoint on the node."""
    image: str
    """Reference by digest: `name@sha256:...`."""
    port: int
    mounts: tuple[str, ...] = ()
    """Folders and files of the node that its container sees."""


class PeerRequest(Frozen):
    """Another node of an engine that spans several: its declared address, and the port of the engine's head."""

    name: str
    address: str
    port: int


class CheckpointRequest(Frozen):
    """A folder that must hold a certain content: the manifest's digest, and the name of its record on the node."""

    path: str
    digest: str
    key: str


class ProbeRequest(Frozen):
    """Parameters of the one command that a node is asked."""

    services: tuple[ServiceRequest, ...] = ()
    runtime: Literal["podman", "docker"] = "podman"
    checkpoints: tuple[CheckpointRequest, ...] = ()
    names: tuple[str, ...] = ()
    """Of other machines, which the node must resolve."""
    peers: tuple[PeerRequest, ...] = ()
    sysctls: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    """Files and folders whose content, mode and owner a bootstrap must know."""
    secret_key: str = ""
    """Random text of this run; secrets come back only as HMAC-like digests keyed with it."""
    deep: bool = False
    """Also what takes seconds on a real node, or tells nothing that breaks a start: for `gates.py` and audits."""
    audit: bool = False
    """Also look at what runs: processes, their containers, and what the engines report of themselves."""
