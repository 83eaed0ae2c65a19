"""Does the layout fit the model and the GPUs?"""

from collections import Counter, defaultdict

from fleet.gate import FleetView, PlacedFinding, gate
from fleet.known import architecture_of, engine_for, layout_of
from fleet.layouts.layout import usable_gpus
from fleet.plan import Plan
from fleet.verdict import Finding


def _list(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers)) or "none"


@gate("layout", reads="layout, nvlink_islands", remedy="declare layout: tp, pp and dp of {service}")
def layout(plan: Plan) -> Finding | None:
    """A layout is declared, or exactly one fits the NVLink islands."""
    return None if plan.layout else Finding(want="one layout", got=plan.layout_error or "none")


@gate(
    "partition",
    reads="layout",
    severity="fail or warn",
    remedy="give partition one count of layers for each pipeline stage of {service}",
)
def partition(plan: Plan) -> Finding | None:
    """The partition has PP parts, each a non-negative number of layers. At PP 1 the engine ignores it: a warning."""
    cut = layout_of(plan)
    if cut.pp == 1:
        declared = cut.declared_partition
        text = f"{_list(declared or ())}, which the engine ignores"
        return Finding(want="no partition at PP 1", got=text, remedy="remove it", warning=True) if declared else None
    parts = cut.partition
    if parts is None:
        return None  # even, over layers that are not known; `model-known` says so
    if any(layers < 0 for layers in parts):
        return Finding(want="non-negative numbers of layers", got=_list(parts))
    if len(parts) != cut.pp:
        return Finding(want=f"{cut.pp} parts for PP {cut.pp}", got=f"{len(parts)} ({_list(parts)})")
    if 0 in parts:
        return Finding(want="layers on every stage", got=f"a stage without any ({_list(parts)})", warning=True)
    return None


@gate(
    "partition-sum",
    reads="config.json, layout",
    remedy="make the partition of {service} add up to the model's layers",
    needs_facts=True,
)
def partition_sum(plan: Plan) -> Finding | None:
    """The layers of all stages add up to the layers of the model (vLLM `get_pp_indices` raises otherwise)."""
    parts, layers = layout_of(plan).partition, architecture_of(plan).layers
    if parts is None or sum(parts) == layers:
        return None
    return Finding(want=f"{layers} layers in all", got=f"{'+'.join(map(str, parts))} = {sum(parts)}")


@gate(
    "gpus-fit",
    reads="layout, gpus of the node and the service",
    remedy="choose TP x PP x DP of {service} to fit its GPUs, or give it others",
)
def gpus_fit(plan: Plan) -> Finding | None:
    """TP x PP x DP is no more than the GPUs that the service may use, each of which the node has, once."""
    cut, gpus, count = layout_of(plan), usable_gpus(plan.node, plan.service), plan.node.gpus.count
    if len(set(gpus)) != len(gpus) or not all(0 <= gpu < count for gpu in gpus):
        last = f"GPUs 0 to {count - 1}" if count else "none, the node has no GPU"
        return Finding(want=f"gpus: {last}, each once", got=_list(gpus), remedy="correct gpus of {service}")
    if cut.ranks <= len(gpus):
        return None
    hosts = f" / {cut.hosts} hosts" if cut.hosts > 1 else ""
    need = f"TP {cut.tp} x PP {cut.pp} x DP {cut.dp}{hosts} = {cut.ranks}"
    return Finding(want=f"at most {len(gpus)} GPUs ({_list(gpus)})", got=need)


@gate("device-order", reads="layout.device_order", remedy="name in device_order of {service} one GPU for each rank")
def device_order(plan: Plan) -> Finding | None:
    """A declared device order names for each rank one GPU that the service may use, none twice."""
    declared = plan.service.layout.device_order if plan.service.layout != "auto" else None
    if declared is None:
        return None
    ranks, gpus = layout_of(plan).ranks, usable_gpus(plan.node, plan.service)
    if len(declared) == ranks == len(set(declared)) and set(declared) <= set(gpus):
        return None
    return Finding(want=f"{ranks} different GPUs of {_list(gpus)}", got=_list(declared))


@gate(
    "heads-divide", reads="config.json, layout", remedy="choose a TP that divides the attention heads", needs_facts=True
)
def heads_divide(plan: Plan) -> Finding | None:
    """TP divides the attention heads; the engine refuses to start otherwise (vLLM, ModelConfig)."""
    heads, tp = architecture_of(plan).attention_heads, layout_of(plan).tp
    return None if heads % tp == 0 else Finding(want=f"{heads} attention heads divisible by TP", got=f"TP {tp}")


@gate(
    "numa-bind",
    reads="numa of the inventory, nvidia-smi topo -m, image.engine",
    remedy="set numa_bind of {service} to auto or false, or declare numa of {node}",
    needs_facts=True,
)
def numa_bind(plan: Plan) -> Finding | None:
    """numa_bind: true has a known NUMA node for each rank, and an engine version that can bind."""
    if not plan.numa_bind:
        return None
    layout_of(plan)  # without a layout there are no ranks to know anything about
    unknown = tuple(rank.gpu for rank in plan.ranks if rank.numa is None)
    if unknown:
        return Finding(want="the NUMA node of each rank", got=f"unknown for GPU {_list(unknown)}")
    able = engine_for(plan).numa_bind
    return None if able else Finding(want="an engine with --numa-bind", got=plan.service.image.engine)


@gate(
    "gpus-shared",
    reads="layouts of all services of a node",
    remedy="give each service on {node} GPUs of its own: gpus or device_order",
)
def gpus_shared(fleet: FleetView) -> list[PlacedFinding]:
    """No GPU of a node is used by two services."""
    users: defaultdict[str, defaultdict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for plan in fleet.plans:
        used = plan.layout.device_order if plan.layout else usable_gpus(plan.node, plan.service)
        for gpu in set(used):
            users[plan.node.name][gpu].append(plan.service.name)
    findings = []
    for node, by_gpu in users.items():
        shared = Counter(tuple(sorted(names)) for names in by_gpu.values() if len(names) > 1)
        for names in sorted(shared):
            gpus = tuple(sorted(gpu for gpu, who in by_gpu.items() if tuple(sorted(who)) == names))
            got = f"{' and '.join(names)} both on GPU {_list(gpus)}"
            findings.append(PlacedFinding(node=node, want="each GPU with one service", got=got))
    return findings
