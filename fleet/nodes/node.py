"""What a node is now, as its one probe told it. Every part that could not be read says so in `error`.

`None` always means "the node did not tell". It is never a stand-in for zero or for "ok".
"""

from typing import Any

from fleet.frozen import Frozen
from fleet.model.checkpoint import Checkpoint
from fleet.nodes.machine import Cdi, Machine
from fleet.nodes.nvidia import KernelLog, Nvidia, Nvlinks
from fleet.nodes.running import Running
from fleet.nodes.topology import Topology

BUSY_MIB = 1024
"""Memory of a GPU in use beyond which somebody must be holding it: the driver alone takes less."""

NOT_IN_TIME = "did not end in time"
"""What stands in the place of a part that hung, or that was never begun because one before it did."""


class NumaNode(Frozen):
    """One NUMA node of the kernel, with its CPU list as the kernel prints it (`0-31,64-95`; empty: no CPU)."""

    id: int
    cpus: str


class Image(Frozen):
    """An image that the container runtime holds. `digest` is `sha256:...`."""

    reference: str
    digest: str | None = None
    engine: str | None = None
    """The label `org.vllm-fleet.engine`, where the image carries it."""
    cuda: str | None = None
    """CUDA_VERSION of its environment, such as `12.9.1`; None where the image does not set it."""


class Runtime(Frozen):
    """The container runtime, and which of the wanted images it holds."""

    name: str
    version: str | None = None
    images: tuple[Image, ...] = ()
    error: str | None = None


class OwnFile(Frozen):
    """A file of ours on the node: what it is, and for the small text files what it says."""

    path: str
    sha256: str
    mode: str
    """Octal, as `stat -c %a` prints it: `600`."""
    owner: str
    """`user:group`."""
    text: str | None = None
    """None where the content is secret or larger than 64 KiB."""


class Unit(Frozen):
    """A systemd unit's state, from `systemctl show`."""

    name: str
    load: str
    active: str
    sub: str
    enabled: str
    main_pid: int | None = None
    restarts: int | None = None
    active_since: str | None = None
    invocation: str | None = None
    """systemd's name of this start of the unit; another start has another."""
    drop_ins: tuple[str, ...] = ()
    """Files that change the unit beside its own."""
    fragment: str | None = None
    """The file that systemd took the unit from."""
    stale: bool | None = None
    """Has the file changed since systemd read it?"""


class Pending(Frozen):
    """A release that was activated and has not proven itself. Times in seconds since the epoch of the NODE's clock."""

    release: str
    since: int
    deadline: int
    run: str


class Installed(Frozen):
    """One service as it lies on the node (declared or not), under /var/lib/vllm-fleet/NAME."""

    name: str
    current: str | None = None
    proven: str | None = None
    previous: str | None = None
    pending: Pending | None = None
    started: str | None = None
    """The invocation of the unit that was proven, or started with `fleet start`."""
    mounted: dict[str, str] = {}
    """Files that its container was given at that start, by their path on the node -> sha256."""
    releases: tuple[str, ...] = ()
    """Release ids whose folders are complete."""
    files: tuple[OwnFile, ...] = ()
    """The installed unit, and unit, env, secrets.env, plan.json of the current release."""
    secrets: dict[str, str] = {}
    """Name -> sha256(secret_key + value), of the current release."""
    unit: Unit | None = None
    proof: str | None = None
    """proof.json of the current release, word for word."""
    verified: str | None = None
    """verify.json of the current release, word for word: what verify.py found last."""
    error: str | None = None


class Port(Frozen):
    """A listening TCP port, and who listens. `unit`: the listening process's systemd unit, where it could be read."""

    port: int
    process: str | None = None
    pid: int | None = None
    unit: str | None = None


class Peer(Frozen):
    """What a node knows of another one, of which it was asked: by `getent`, `ip route get`, and a connection."""

    name: str
    port: int
    resolved: str | None = None
    """The IP address that the declared one stands for on this node."""
    interface: str | None = None
    """The network interface by which this node reaches it."""
    source: str | None = None
    """This node's own address on that way."""
    answer: str | None = None
    """`accepted` or `refused`: something at the other end answered; else what stood in the answer's place."""
    error: str | None = None
    """What was said where a name or a way was wanted."""


class Disk(Frozen):
    """Room of the file system that holds `path`, in bytes."""

    path: str
    total_bytes: int | None = None
    free_bytes: int | None = None
    error: str | None = None


class ModelFolder(Frozen):
    """A checkpoint folder on the node. `config` is config.json, parsed; `config_sha256` of its bytes."""

    path: str
    config: dict[str, Any] | None = None
    config_sha256: str | None = None
    verified: str | None = None
    """Digest of the manifest that all of the folder was compared with, where nothing in it was touched since."""
    held_bytes: int | None = None
    """What lies there of a declared checkpoint that is not verified, gathered parts included."""
    room_bytes: int | None = None
    """Free beside the folder, where a declared checkpoint is not verified there."""
    error: str | None = None
    indexer_layers: tuple[int, ...] | None = None
    """Layers with all weights of a sparse-attention indexer, by the tensor names; None where these were not read."""
    tensors_error: str | None = None
    """Why the tensor names are not known."""
    checkpoint: Checkpoint | None = None
    """What the headers of its safetensors files say."""
    checkpoint_error: str | None = None
    """Why these are not known."""


class Lock(Frozen):
    """Who changes this node now. Times in seconds of the node's clock."""

    holder: str
    since: int
    expires: int
    run: str


class Deep(Frozen):
    """What only a deep look reads. Each part says in its error why it could not be read."""

    nvlinks: tuple[Nvlinks, ...] = ()
    nvlinks_error: str | None = None
    p2p: tuple[tuple[str, ...], ...] = ()
    """Status of reading GPU j's memory from GPU i: `OK`, or why not (`CNS`, `NS`, ...); `X` on the diagonal."""
    p2p_error: str | None = None
    versions: dict[str, str] = {}
    """Program (podman, docker, nvidia-ctk, nv-fabricmanager) -> the line that it says of its version."""
    versions_error: str | None = None


class NodeFacts(Frozen):
    """Everything a rollout must know of a node, from one round trip."""

    hostname: str
    now: int
    """The node's clock, seconds since the epoch."""
    boot_id: str | None = None
    os: str | None = None
    kernel: str | None = None
    cpus_online: str | None = None
    memory_bytes: int | None = None
    clock_ahead_s: float | None = None
    """Seconds that the node's clock is ahead of the controller's; 0 within the time that the question took."""
    machine: Machine = Machine(error="the node told none")
    cdi: Cdi = Cdi(error="the node told none")
    sources: dict[str, bool] = {}
    """Path of each declared mount's source -> is it there?"""
    sources_error: str | None = None
    names: dict[str, bool] = {}
    """Name of another machine that was asked about -> does it resolve?"""
    names_error: str | None = None
    nvidia: Nvidia
    kernel_log: KernelLog = KernelLog(error="the node told none")
    topology: Topology | None = None
    topology_error: str | None = None
    numa: tuple[NumaNode, ...] = ()
    numa_error: str | None = None
    runtime: Runtime
    services: tuple[Installed, ...] = ()
    services_error: str | None = None
    ports: tuple[Port, ...] = ()
    ports_error: str | None = None
    disks: tuple[Disk, ...] = ()
    """Of /var/lib/vllm-fleet (or its nearest existing parent) and of the runtime's storage."""
    models: tuple[ModelFolder, ...] = ()
    peers: tuple[Peer, ...] = ()
    """Of the nodes with which this one shares an engine."""
    peers_error: str | None = None
    lock: Lock | None = None
    node_script_sha256: str | None = None
    """Of /usr/local/lib/vllm-fleet/node; None where it is not there."""
    support_files: tuple[OwnFile, ...] = ()
    """The undo units of ours under /etc/systemd/system (vllm-fleet-*), sha256 and mode."""
    deep: Deep | None = None
    """None: this look was none."""
    support_units: tuple[Unit, ...] = ()
    """The same units as systemd has them; only an audit asks."""
    running: Running | None = None
    """What runs; None where it was not asked for."""

    def installed(self, service: str) -> Installed | None:
        """The service of that name as it lies on the node, or None."""
        return next((s for s in self.services if s.name == service), None)
