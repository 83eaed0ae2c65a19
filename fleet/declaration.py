"""What the owner declares: nodes, services, rollout policy, waivers. Pure models; YAML is read in `declare/`."""

import re
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from fleet.delivery.source import ArchiveDeclaration, CheckpointDeclaration, DeliveryPolicy
from fleet.engines.patch import Patch
from fleet.frozen import Frozen
from fleet.layouts.objective import Objective, Positive, Target
from fleet.nodes.host import HostDeclaration
from fleet.policy import BoundaryPolicy, RolloutPolicy, ServicePolicy
from fleet.values import (
    AbsolutePath,
    Address,
    Count,
    Digest,
    EnvName,
    EnvValue,
    Flag,
    Integer,
    IntList,
    NodeList,
    NodeName,
    Number,
    PatchName,
    Port,
    ServiceName,
    Switch,
    UserName,
    Width,
    Word,
    _matching,
    at_most,
)


class Ssh(Frozen):
    """How a node is reached. Paths are absolute once loaded. Host keys are always checked strictly."""

    user: UserName = "root"
    port: Port = 22
    key: str | None = None
    known_hosts: str | None = None


MOST_GPUS = 1024
"""Of one node: more than any has, and few enough to be ordered one by one."""


class GpuDeclaration(Frozen):
    """The GPUs that the owner says are there. `memory_mib` is what nvidia-smi prints as memory.total."""

    count: Annotated[Integer, Field(ge=0), at_most(MOST_GPUS)]
    model: str
    memory_mib: Count


class NodeDeclaration(Frozen):
    """One node as its owner declares it, `inventory/FLEET/NODE.yaml`."""

    name: NodeName
    address: Address
    groups: tuple[str, ...] = ()
    ssh: Ssh = Ssh()
    gpus: GpuDeclaration
    nvlink_islands: tuple[tuple[Integer, ...], ...] = ()
    """Groups of two or more GPUs that are all joined to each other by NVLink."""
    nvlinks: Count | None = None
    """NVLinks between two GPUs of an island, N of the NVN that `nvidia-smi topo -m` prints; not declared: all alike."""
    numa: tuple[Integer | None, ...] = ()
    """NUMA node of each GPU; null where the platform does not tell."""
    runtime: Literal["podman", "docker"] = "podman"
    runtime_flags: tuple[Word, ...] = ()
    """Extra words for `podman run`, for what a site's container setup needs."""
    peermem: bool = False
    """GPUDirect RDMA is wanted: NICs read and write the GPUs' memory (nvidia-peermem)."""
    recording: str | None = None
    """A recorded probe of this node: it is planned offline from that file and never contacted."""

    @model_validator(mode="after")
    def _islands_and_numa_fit_the_gpus(self) -> Self:
        known = [gpu for island in self.nvlink_islands for gpu in island]
        if any(not 0 <= gpu < self.gpus.count for gpu in known) or len(set(known)) != len(known):
            raise ValueError(f"nvlink_islands: want each GPU 0..{self.gpus.count - 1} at most once, found {known}")
        if self.numa and len(self.numa) != self.gpus.count:
            raise ValueError(f"numa: want {self.gpus.count} entries, one a GPU, found {len(self.numa)}")
        return self


class ImageDeclaration(Frozen):
    """A container image by digest, and the engine version in it."""

    name: Annotated[str, _matching(re.compile(r"[a-z0-9][a-zA-Z0-9._/:-]*"), "an image name without a digest")]
    digest: Digest
    engine: Annotated[str, _matching(re.compile(r"\d+\.\d+(\.\d+)?([.+-]\w+)*"), "an engine version such as 0.30.0")]
    packages: AbsolutePath = "/usr/local/lib/python3.12/dist-packages"
    """The folder in the image that has the folder `vllm` of the engine: where patched files are laid over."""
    archive: ArchiveDeclaration | None = None
    """Where deliver.py has it from; without, a node must have it by itself."""
    backends: tuple[Word, ...] = ()
    """Attention backends that a patched image has beyond its version; on which GPUs they run is the owner's word."""

    @property
    def reference(self) -> str:
        """`name@sha256:...`, without a tag: the digest alone decides."""
        name, _, tag = self.name.rpartition(":")
        return f"{name if name and '/' not in tag else self.name}@{self.digest}"


class LayoutDeclaration(Frozen):
    """How the owner wants the model cut. Without `partition` the engine's own even split is used."""

    tp: Width = 1
    pp: Width = 1
    dp: Width = 1
    partition: IntList | None = None
    device_order: IntList | None = None
    """GPU index of each rank, rank 0 first; where several nodes run one engine, of each rank that a node has."""


MOST_DRAFTED = 128
"""Tokens a step that the engine's rejection sampler takes at most (vLLM, `MAX_SPEC_LEN`)."""


class Speculative(Frozen):
    """Speculative decoding: method (`mtp`, `ngram`, `eagle3`, ...) and tokens drafted a step."""

    method: str
    k: Annotated[Integer, Field(ge=1, le=MOST_DRAFTED)] = 3

    def __str__(self) -> str:
        return f"{self.method}:{self.k}"


def _speculative(value: object) -> object:
    """`mtp`, `mtp:3`, `none` and `auto` as short forms."""
    if not isinstance(value, str) or value in ("auto", "none"):
        return value
    short = re.fullmatch(r"([a-z][a-z0-9_]*)(?::([1-9][0-9]*))?", value)
    if short is None:
        raise ValueError(f"want auto, none, a method or METHOD:K such as mtp:3, found {value!r}")
    method, k = short.groups()
    if k and int(k) > MOST_DRAFTED:
        raise ValueError(f"want METHOD:K with K from 1 to {MOST_DRAFTED}, found {value!r}")
    return {"method": method, "k": int(k)} if k else {"method": method}


SpeculativeSetting = Annotated[Speculative | Literal["auto", "none"], BeforeValidator(_speculative)]


class SecretReference(Frozen):
    """Where the controller finds a secret's value. The value itself never enters a model that is printed."""

    env: EnvName | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("want exactly one of `env: NAME` and `file: PATH`")
        return self


class Mount(Frozen):
    """A folder or file of the node that the container sees."""

    source: AbsolutePath
    target: AbsolutePath
    read_only: bool = True


class ServiceDeclaration(Frozen):
    """One model served. Every setting of the engine that operators change has its place here."""

    name: ServiceName
    model: AbsolutePath
    checkpoint: CheckpointDeclaration | None = None
    """What the model's folder must hold, where deliver.py is to bring it."""
    served_model_name: Word | None = None
    image: ImageDeclaration
    layout: LayoutDeclaration | Literal["auto"] = "auto"
    objective: Objective = "latency"
    """What `layout: auto` is chosen for, and with a target what the plan is held against."""
    prefill_tokens_per_s: Positive | None = None
    """Measured on a node like this: prompt tokens a second of one instance, all requests together."""
    max_model_len: Count
    kv_cache_dtype: Word = "auto"
    speculative: SpeculativeSetting = "none"
    gpu_memory_utilization: Annotated[Number, Field(gt=0, le=1)] = 0.9
    disable_custom_all_reduce: Switch = "auto"
    """auto: off (the flag is set) where a TP group of two is an NVLink pair of a node that has only pairs."""
    v2_runner: Switch = "auto"
    """auto: pinned to 1 where speculation under pipeline parallelism needs it, else left to the engine."""
    numa_bind: Switch = "auto"
    hf_overrides: dict[str, Any] = {}
    boundary_repaired: bool = False
    """PP 2 on an index-sharing model: the image makes the first layers of each stage compute their own indices."""
    boundary: BoundaryPolicy = BoundaryPolicy()
    patches: tuple[PatchName, ...] = ()
    """Source changes to the engine, in this order; see `fleet.engines.patch`."""
    flags: dict[Flag, Word | int | float | bool | list[Word | int | float] | dict[str, Any]] = {}
    env: dict[EnvName, EnvValue] = {}
    secrets: dict[EnvName, SecretReference] = {}
    nodes: NodeList = None
    """Nodes that run one engine together, the head (which serves) first; None: each node runs one of its own."""
    master_port: Port = 29501
    """Where the head of such an engine listens for the other nodes."""
    gpus: IntList | None = None
    """GPU indices that this service may use; all of the node's where absent."""
    host: Address = "0.0.0.0"
    port: Port = 8000
    mounts: tuple[Mount, ...] = ()
    shm_gib: Count = 16
    target_concurrency: Count | None = None
    """Requests at once that all replicas together are meant for."""
    policy: ServicePolicy = ServicePolicy()

    @property
    def served_name(self) -> str:
        """The model name that clients send."""
        return self.served_model_name or self.name

    @model_validator(mode="after")
    def _target_is_one_that_the_engine_takes(self) -> Self:
        if isinstance(self.objective, Target) and self.objective.context > self.max_model_len:
            most, asked = self.max_model_len, self.objective.context
            raise ValueError(f"objective: want a context of at most {most}, the max_model_len, found {asked}")
        return self

    @model_validator(mode="after")
    def _stages_spread_over_the_nodes(self) -> Self:
        if self.nodes is None:
            return self
        count, layout = len(self.nodes), self.layout
        if layout == "auto":
            raise ValueError(f'layout: want tp and pp for {count} nodes (auto looks at one node alone), found "auto"')
        if layout.dp > 1:
            raise ValueError(f"layout: want dp 1 over several nodes (make each replica its own), found dp {layout.dp}")
        if layout.pp % count:
            want = f"pp a multiple of {count}, so that each of the nodes has whole stages"
            raise ValueError(f"layout: want {want}, found pp {layout.pp}")
        if self.port == self.master_port:
            raise ValueError(f"want a port and a master_port that differ, found {self.port} for both")
        return self

    @model_validator(mode="after")
    def _no_key_is_a_flag(self) -> Self:
        for flag in self.flags:
            if "--api-key".startswith(flag.partition(".")[0].replace("_", "-")) and len(flag) > len("--api-"):
                want = "the key as VLLM_API_KEY in secrets, for argv is for everybody on the node to read"
                raise ValueError(f"flags: want {want}, found {flag}")
        return self

    @model_validator(mode="after")
    def _values_fit_one_line_files(self) -> Self:
        both = sorted(set(self.env) & set(self.secrets))
        if both:
            raise ValueError(f"want each name in env or in secrets, found {both} in both")
        return self


class Waiver(Frozen):
    """One gate that the owner lets pass although it fails, and why. Printed as a warning every time."""

    gate: str
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=8)]
    nodes: tuple[str, ...] = ()
    """Empty: every node."""
    services: tuple[str, ...] = ()
    """Empty: every service."""


class Evidence(Frozen):
    """A stored degeneration run: what was asked how often, and how many answers were bad."""

    kind: Literal["degeneration"] = "degeneration"
    model: str
    """The service's model path, or its last component."""
    engine: str
    partition: IntList
    trials: Count
    bad: Annotated[Integer, Field(ge=0)]
    when: str | None = None
    note: str | None = None

    @model_validator(mode="after")
    def _no_more_bad_than_asked(self) -> Self:
        if self.bad > self.trials:
            raise ValueError(f"bad: want at most {self.trials}, the trials, found {self.bad}")
        return self


class Placement(Frozen):
    """A node with the services that run on it."""

    node: NodeDeclaration
    services: tuple[ServiceDeclaration, ...] = ()
    host: HostDeclaration = HostDeclaration()
    """What bootstrap.py makes of the machine."""
    names: tuple[str, ...] = ()
    """Host names of other machines that the node is sent to: sources of its services, and nodes that have the same."""
    peers: dict[str, str] = {}
    """Declared address of each node with which this one runs an engine together."""


class Fleet(Frozen):
    """Everything declared: placements in name order, the rollout's policy, waivers and evidence."""

    name: str
    placements: tuple[Placement, ...]
    rollout: RolloutPolicy = RolloutPolicy()
    delivery: DeliveryPolicy = DeliveryPolicy()
    waivers: tuple[Waiver, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    patches: tuple[Patch, ...] = ()
    """Every patch that the site and this project have, the site's first."""
    warnings: tuple[str, ...] = ()
    """What was declared and has no effect, to be shown."""

    @cached_property
    def _by_node(self) -> dict[str, Placement]:
        return {placement.node.name: placement for placement in self.placements}

    def placement(self, node: str) -> Placement:
        """The placement of that node; KeyError where it is not declared."""
        return self._by_node[node]
