"""A sound node and a sound service, and ways to change one thing of them.

`a1`: 8 x A100 80G, NVLink in pairs, two NUMA nodes; `glm`: a 78-layer index-sharing model, TP 4 x PP 2, engine 0.30.0.
Every gate passes on them without a warning.
"""

from typing import Any

from fleet.declaration import Evidence, NodeDeclaration, Placement, ServiceDeclaration, Waiver
from fleet.engines.patch import Patch
from fleet.gate import FleetView, evaluate
from fleet.layouts.repair import Pool
from fleet.model.checkpoint import Checkpoint, Tensors
from fleet.nodes.machine import Cdi, CdiSpec, Limit, Machine
from fleet.nodes.node import (
    Deep,
    Disk,
    Image,
    Installed,
    ModelFolder,
    NodeFacts,
    NumaNode,
    OwnFile,
    Port,
    Runtime,
    Unit,
)
from fleet.nodes.nvidia import Gpu, KernelLog, Nvidia, Nvlinks
from fleet.nodes.topology import Topology
from fleet.plan import NodeView, Plan, decide
from fleet.policy import RolloutPolicy
from fleet.verdict import Verdict

MODEL = "/models/glm-5.2"
DIGEST, OLD_DIGEST = "sha256:" + "a" * 64, "sha256:" + "b" * 64
IMAGE = {"name": "site/vllm:0.30.0", "digest": DIGEST, "engine": "0.30.0", "backends": ["SPARSE_SM80"]}
PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
NUMA = (0, 0, 0, 0, 1, 1, 1, 1)
GLM: dict[str, Any] = {
    "model_type": "glm_moe_dsa",
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "hidden_size": 6144,
    "index_topk": 2048,
    "index_topk_freq": 4,
    "index_skip_topk_offset": 3,
    "num_nextn_predict_layers": 1,
    "max_position_embeddings": 1_048_576,
}
UNREAD = dict(GLM)
"""The same model where nobody read the headers of its tensors: then nothing is predicted of memory."""
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
}


TOLD = {
    "remapped_rows.pending": "No",
    "retired_pages.pending": "[N/A]",
    "mig.mode.pending": "Disabled",
    "persistence_mode": "Enabled",
    "pstate": "P0",
    "enforced.power.limit": "400.00",
    "power.default_limit": "400.00",
    "pcie.link.gen.current": "4",
    "pcie.link.gen.max": "4",
    "pcie.link.width.current": "16",
    "pcie.link.width.max": "16",
    "clocks_event_reasons.active": "0x0000000000000001",
    "fabric.state": "[N/A]",
    "fabric.status": "[N/A]",
    "gpu_recovery_action": "None",
}
"""What a healthy A100 without an NVLink switch tells besides."""


def node(**changes: Any) -> NodeDeclaration:
    """a1, with changes."""
    sound = {
        "name": "a1",
        "address": "192.0.2.1",
        "gpus": {"count": 8, "model": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920},
        "nvlink_islands": PAIRS,
        "numa": NUMA,
    }
    return NodeDeclaration.model_validate(sound | changes)


def service(**changes: Any) -> ServiceDeclaration:
    """glm, with changes."""
    sound = {
        "name": "glm",
        "model": MODEL,
        "image": IMAGE,
        "layout": {"tp": 4, "pp": 2, "partition": [42, 36]},
        "max_model_len": 524_288,
        "speculative": "mtp:3",
    }
    return ServiceDeclaration.model_validate(sound | changes)


def topology(islands: tuple[tuple[int, ...], ...] = PAIRS, numa: tuple[int | None, ...] = NUMA) -> Topology:
    """A topology with exactly these islands; everything else goes over the processors."""
    together = {(i, j) for island in islands for i in island for j in island}
    gpus = range(len(numa))
    links = tuple(tuple("X" if i == j else "NV12" if (i, j) in together else "SYS" for j in gpus) for i in gpus)
    return Topology(gpus=len(numa), links=links, numa=numa, cpu_affinity=(None,) * len(numa))


def gpus(count: int = 8, **changes: Any) -> tuple[Gpu, ...]:
    """Healthy A100; changes are made to every one, those of `told` to what is there."""
    told = {**TOLD, **changes.pop("told", {})}
    sound = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "memory_used_mib": 4, "mig": "Disabled"}
    sound |= {"compute_cap": "8.0"} | changes
    return tuple(Gpu(index=i, **{"bus_id": f"00000000:0{i}:00.0", "told": told, **sound}) for i in range(count))


def facts(config: dict[str, Any] | None = GLM, **changes: Any) -> NodeFacts:
    """What a1 tells, with changes; `config` is the model's config.json."""
    sound = {
        "hostname": "a1",
        "now": 1_700_000_000,
        "nvidia": Nvidia(gpus=gpus(), driver="570.86.15"),
        "kernel_log": KernelLog(),
        "cpus_online": "0-127",
        "memory_bytes": 2**40,
        "clock_ahead_s": 0.0,
        "machine": machine(),
        "cdi": Cdi(specs=(CdiSpec(file="/etc/cdi/nvidia.yaml", names=(*map(str, range(8)), "all")),)),
        "numa": (NumaNode(id=0, cpus="0-63"), NumaNode(id=1, cpus="64-127")),
        "topology": topology(),
        "runtime": Runtime(name="podman", version="5.4.2", images=(image(),)),
        "disks": (Disk(path="/var/lib", total_bytes=2**40, free_bytes=2**39),),
        "models": (ModelFolder(path=MODEL, config=config, checkpoint=checkpoint() if config is GLM else None),),
        "deep": deep(),
    }
    return NodeFacts.model_validate(sound | changes)


def machine(**changes: Any) -> Machine:
    """What machine a1 is, with changes."""
    sound = {
        "nr_open": 1_048_576,
        "open_files": Limit(soft=1024, hard=524_288),
        "locked_memory": Limit(soft=8_388_608, hard=8_388_608),
        "capabilities": 0x1FFFFFFFFFF,
        "cpus_allowed": "0-127",
        "governors": {"performance": 128},
        "memory_available": 900 * 2**30,
        "huge_pages": 0,
        "huge_pages_free": 0,
        "huge_page_bytes": 2 * 2**20,
        "clocks": ("chronyd.pid",),
        "resolves_itself": True,
        "devices": (*(f"nvidia{gpu}" for gpu in range(8)), "nvidiactl", "nvidia-uvm"),
    }
    return Machine.model_validate(sound | changes)


def deep(**changes: Any) -> Deep:
    """What a deep look at a1 reads, with changes."""
    sound = {
        "nvlinks": tuple(Nvlinks(gpu=gpu, up=tuple(range(12))) for gpu in range(8)),
        "p2p": tuple(tuple("X" if i == j else "OK" for j in range(8)) for i in range(8)),
        "versions": {"podman": "podman version 5.4.2"},
    }
    return Deep.model_validate(sound | changes)


def image(digest: str = DIGEST, engine: str | None = "0.30.0", cuda: str | None = "12.8.1") -> Image:
    """An image of the node."""
    return Image(reference=f"site/vllm@{digest}", digest=digest, engine=engine, cuda=cuda)


def checkpoint(gib: float = 390.0) -> Checkpoint:
    """A checkpoint of GLM, of this size: an embedding and one tensor a layer."""
    layers = tuple(range(GLM["num_hidden_layers"] + GLM["num_nextn_predict_layers"]))
    embedding = 2 * GLM["hidden_size"]
    each = (int(gib * 2**30) - embedding) // len(layers)
    return Checkpoint(
        tensors=(
            Tensors(name="model.embed_tokens.weight", dtype="BF16", layers=(), count=1, size=embedding),
            Tensors(name="model.layers.#.self_attn.o_proj.weight", dtype="BF16", layers=layers, count=1, size=each),
        ),
        files=1,
    )


def installed(name: str = "glm", **changes: Any) -> Installed:
    """The service as it serves a proven release `r1` from the declared image."""
    folder = f"/var/lib/vllm-fleet/{name}/releases/r1"
    document = OwnFile(
        path=f"{folder}/plan.json", sha256="0", mode="644", owner="root:root", text=f'{{"image": "site/vllm@{DIGEST}"}}'
    )
    unit = Unit(name=f"vllm-{name}.service", load="loaded", active="active", sub="running", enabled="enabled")
    sound = {"name": name, "current": "r1", "proven": "r1", "releases": ("r1",), "files": (document,), "unit": unit}
    return Installed.model_validate(sound | changes)


def listening(port: int = 8000, **who: Any) -> Port:
    """A TCP port that somebody listens on."""
    return Port(port=port, **who)


def run(**changes: Any) -> Evidence:
    """A stored degeneration run that opens TP 2 x PP 4 at 22,20,20,16."""
    sound = {"model": "glm-5.2", "engine": "0.30.0", "partition": [22, 20, 20, 16], "trials": 200, "bad": 0}
    return Evidence.model_validate(sound | changes)


def view(declared: NodeDeclaration, *services: ServiceDeclaration, told: NodeFacts | None, **policy: Any) -> NodeView:
    """A node with its services."""
    return NodeView(
        placement=Placement(node=declared, services=services), facts=told, rollout=RolloutPolicy.model_validate(policy)
    )


def plans_of(
    one: NodeView,
    evidence: tuple[Evidence, ...] = (),
    patches: tuple[Patch, ...] = (),
    pool: Pool | None = None,
) -> tuple[Plan, ...]:
    """The plans of all services of a node."""
    return tuple(
        decide(one.placement, service, one.facts, evidence, patches, pool) for service in one.placement.services
    )


def fleet(
    *views: NodeView,
    evidence: tuple[Evidence, ...] = (),
    changing: tuple[tuple[str, str], ...] = (),
    patches: tuple[Patch, ...] = (),
    pool: Pool | None = None,
) -> FleetView:
    """Nodes with their plans; none given: a1 with glm."""
    nodes = views or (view(node(), service(), told=facts()),)
    plans = tuple(plan for one in nodes for plan in plans_of(one, evidence, patches, pool))
    return FleetView(views=nodes, plans=plans, changing=frozenset(changing))


def fleet_with(
    declared: NodeDeclaration | None = None,
    told: NodeFacts | None = None,
    evidence: tuple[Evidence, ...] = (),
    config: dict[str, Any] | None = GLM,
    patches: tuple[Patch, ...] = (),
    pool: Pool | None = None,
    **changes: Any,
) -> FleetView:
    """a1 with glm, where the node, its facts, the config.json or fields of the service are other ones."""
    one = view(declared or node(), service(**changes), told=told or facts(config))
    return fleet(one, evidence=evidence, patches=patches, pool=pool)


def folder(config: dict[str, Any] | None = GLM, indexers: tuple[int, ...] | None = None) -> ModelFolder:
    """The checkpoint on the node, with indexer weights of these layers; None: its tensor names were not read."""
    error = None if indexers is not None else "no model.safetensors.index.json"
    return ModelFolder(path=MODEL, config=config, indexer_layers=indexers, tensors_error=error)


def patch(name: str = "index-boundary", versions: tuple[str, ...] = ("0.30.0",), **changes: Any) -> Patch:
    """A patch of one line of one file."""
    edit = {"anchor": "timeout = 5\n", "fragment": "timeout = 50\n", "place": "instead"}
    file = {"path": "vllm/wait.py", "sha256": dict.fromkeys(versions, "0" * 64), "edits": [edit]}
    sound = {"name": name, "why": "waits too short", "tested": "not at all", "files": [file]}
    return Patch.model_validate(sound | changes)


def ask(gate: str, fleet_view: FleetView, *waivers: Waiver) -> list[Verdict]:
    """The verdicts of one gate."""
    return [verdict for verdict in evaluate(fleet_view, waivers) if verdict.gate == gate]


def passes(gate: str, fleet_view: FleetView) -> None:
    """Assert that this gate passes everywhere."""
    verdicts = ask(gate, fleet_view)
    assert verdicts and {verdict.status for verdict in verdicts} == {"pass"}, [*map(str, verdicts)]


def warns(gate: str, fleet_view: FleetView, *texts: str) -> None:
    """Assert that this gate warns, with these texts in its message, and stops nothing."""
    verdicts = ask(gate, fleet_view)
    assert {verdict.status for verdict in verdicts} == {"warn"}, [*map(str, verdicts)]
    _says(verdicts, texts)


def fails(gate: str, fleet_view: FleetView, *texts: str) -> None:
    """Assert that this gate fails with these texts in its message, says a remedy, and can be waived with a reason."""
    verdicts = ask(gate, fleet_view)
    failed = [verdict for verdict in verdicts if verdict.status == "fail"]
    assert failed and all(verdict.stops and verdict.remedy for verdict in failed), [*map(str, verdicts)]
    _says(failed, texts)
    waived = ask(gate, fleet_view, Waiver(gate=gate, reason="seen by the owner"))
    assert not any(verdict.stops for verdict in waived)
    assert [v.reason for v in waived if v.status == "waived"] == ["seen by the owner"] * len(failed)
    assert all("waived: seen by the owner" in str(verdict) for verdict in waived if verdict.status == "waived")


def _says(verdicts: list[Verdict], texts: tuple[str, ...]) -> None:
    message = "\n".join(map(str, verdicts))
    missing = [text for text in texts if text not in message]
    assert not missing, f"{missing} not in:\n{message}"
