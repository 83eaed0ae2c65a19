"""How long a plan takes, from a config.json and a node's facts to the chosen layout: `python -m bench.plan`.

Nothing is contacted and nothing is read from the network. Each figure is the best of a few runs with empty caches, and
stands beside its limit; exit 1 where one is exceeded. The peak memory of the whole run is printed at the end.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fleet.declaration import NodeDeclaration, Placement, ServiceDeclaration
from fleet.layouts import device_order, question
from fleet.layouts.partition import best_partition
from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Serving
from fleet.model.read import read_model
from fleet.nodes.node import ModelFolder, NodeFacts, Runtime
from fleet.nodes.nvidia import Nvidia
from fleet.plan import Plan, decide

MODELS = Path(__file__).resolve().parent.parent / "lab" / "models"
GPUS = (
    ("NVIDIA A100-SXM4-80GB", 81_920),
    ("NVIDIA H100 80GB HBM3", 81_559),
    ("NVIDIA H200", 143_771),
    ("NVIDIA L40S", 46_068),
    ("NVIDIA B200", 183_359),
)
ISLANDS: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((0, 1), (2, 3), (4, 5), (6, 7)),
    ((0, 1, 2, 3, 4, 5, 6, 7),),
    ((0, 1, 2, 3), (4, 5, 6, 7)),
    (),
)
IMAGE = {"name": "vllm", "digest": f"sha256:{'0' * 64}", "engine": "0.30.0"}


def config(name: str) -> dict[str, Any]:
    """A config.json of the lab's models."""
    document: dict[str, Any] = json.loads((MODELS / name / "config.json").read_text())
    return document


def node(number: int, kind: int) -> NodeDeclaration:
    """A node of one of twenty kinds."""
    model, memory = GPUS[kind % len(GPUS)]
    return NodeDeclaration.model_validate(
        {
            "name": f"n{number}",
            "address": f"n{number}.example",
            "gpus": {"count": 8, "model": model, "memory_mib": memory},
            "nvlink_islands": ISLANDS[kind // len(GPUS)],
            "numa": (0, 0, 0, 0, 1, 1, 1, 1),
        }
    )


def service(model: str, **changes: Any) -> ServiceDeclaration:
    """A service whose layout is left to the search."""
    wanted = {"name": "llm", "model": f"/models/{model}", "image": IMAGE, "layout": "auto", "max_model_len": 131_072}
    return ServiceDeclaration.model_validate(wanted | changes)


def planned(on: NodeDeclaration, wanted: ServiceDeclaration, document: dict[str, Any]) -> Plan:
    """The whole decision for one node, from what it told."""
    told = NodeFacts(
        hostname=on.name,
        now=0,
        nvidia=Nvidia(),
        runtime=Runtime(name="podman"),
        models=(ModelFolder(path=wanted.model, config=document),),
    )
    return decide(Placement(node=on, services=(wanted,)), wanted, told)


def one_node() -> Plan:
    """Eight GPUs, 78 layers, a draft layer, every size with its best partition."""
    wanted = service("glm-dsa-78", kv_cache_dtype="fp8_ds_mla", speculative="mtp:3", gpu_memory_utilization=0.95)
    return planned(node(0, 0), wanted, config("glm-dsa-78"))


def one_node_dense() -> Plan:
    """Eight GPUs and a dense model of 80 layers, whose pipelines may be cut anywhere: the most partitions."""
    return planned(node(0, 0), service("llama-70b"), config("llama-70b"))


def fleet_of(nodes: int = 1000, kinds: int = 20) -> list[Plan]:
    """So many nodes of so many kinds."""
    wanted, document = service("qwen-72b", max_model_len=32_768), config("qwen-72b")
    return [planned(node(number, number % kinds), wanted, document) for number in range(nodes)]


def deep(layers: int = 128, stages: int = 8, monotone: bool = True) -> tuple[int, ...]:
    """The best partition of a deep model into many stages, each asked of the ledger."""
    model = read_model(config("llama-70b") | {"num_hidden_layers": layers})
    ledger = Ledger(model, Serving(engine="0.30.0", pp=stages, max_model_len=131_072))

    def tokens(stage: int, first: int, end: int) -> int:
        return ledger.tokens(stage, first, end, 70 * 2**30 - ledger.weights(stage, first, end))

    found = best_partition(layers, stages, tokens, lambda stage, first, end: end - first, monotone=monotone)
    assert found is not None
    return found


def forget() -> None:
    """As in a process that has planned nothing yet."""
    for cached in (question.model_of, question.widths_of, question.memory_of, question._active, question._choice):
        cached.cache_clear()
    device_order.device_order.cache_clear()


CASES: tuple[tuple[str, Callable[[], object], float], ...] = (
    ("one node, 8 GPUs, 78 layers", one_node, 0.05),
    ("one node, 8 GPUs, 80 dense layers", one_node_dense, 0.05),
    ("1,000 nodes of 20 kinds", fleet_of, 2.0),
    ("8 stages of 128 layers", deep, 1.0),
    ("the same, for any cost of a stage", lambda: deep(monotone=False), 1.0),
)


def seconds(run: Callable[[], object], times: int = 7) -> tuple[float, float]:
    """Wall time and CPU time of the best of a few runs with empty caches."""
    found = []
    for _ in range(times):
        forget()
        began, worked = time.perf_counter(), time.process_time()
        run()
        found.append((time.perf_counter() - began, time.process_time() - worked))
    return min(found)


def main() -> int:
    """Measure and print."""
    table = Table("what", "seconds", "of CPU", "limit", box=None)
    over = False
    for name, run, limit in CASES:
        took, worked = seconds(run)
        over = over or took > limit
        table.add_row(name, f"{took:.3f}", f"{worked:.3f}", f"{limit:g}" + (" exceeded" if took > limit else ""))
    out = Console()
    out.print(table)
    out.print(f"memory of the run: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at its peak")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
