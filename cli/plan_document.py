"""An explanation for machines."""

from typing import Any

from cli.asking import Asked
from fleet.layouts.capacity import Capacity
from fleet.layouts.explain import Explanation
from fleet.layouts.ranking import Rejected

GIB = 2**30
UNKNOWN = "unknown"


def gib(value: float) -> float:
    """Bytes as GiB, to three places."""
    return round(value / GIB, 3)


def document(asked: Asked, found: Explanation) -> dict[str, Any]:
    """`fleet plan --json` for one service on one node."""
    chosen, held = found.candidate, found.capacity
    sizes = chosen.sizes
    return {
        "service": asked.service,
        "node": asked.node,
        "objective": found.objective,
        "declared": found.declared,
        "problem": chosen.problem,
        "doubt": chosen.doubt,
        "layout": {
            "tp": sizes.tp,
            "pp": sizes.pp,
            "dp": sizes.dp,
            "partition": list(chosen.partition) if sizes.pp > 1 else None,
            "device_order": list(chosen.order),
        },
        "ranks": [
            {
                "rank": rank,
                "gpu": gpu,
                "stage": rank // sizes.tp % sizes.pp,
                "numa": "unknown" if numa is None else numa,
            }
            for rank, (gpu, numa) in enumerate(zip(chosen.order, found.numa, strict=True))
        ],
        "stages": _stages(held) if held else None,
        "pool_tokens": held.pool if held else None,
        "pool_range": list(held.pool_range) if held and held.pool_range else None,
        "binding_stage": held.binding_stage if held else None,
        "context": held.context if held else None,
        "memory": held.source if held else f"unknown: {found.unknown}",
        "requests": {
            "prompt": found.request.prompt,
            "answer": found.request.answer,
            "tokens": found.request.tokens,
            "resident": found.request.resident,
            "note": found.request.note,
        },
        "balance": round(found.balance, 3),
        "boundary_repairs": list(found.repaired),
        "traffic": [
            {"link": load.link, "operations": load.operations, "bytes": load.bytes} for load in chosen.traffic.loads
        ],
        "rejected": [_rejected(one) for one in found.rejected],
        "unused": [{"dimension": one.dimension, "why": one.why} for one in found.unused],
        "notes": list(found.notes),
        "gates": list(asked.gates),
        "running": asked.running,
        "predicted_and_logged": [one.document() for one in asked.figures],
    }


def _stages(held: Capacity) -> list[dict[str, Any]]:
    return [
        {
            "stage": stage.stage,
            "layers": [stage.first, stage.first + stage.layers - 1],
            "weights_gib": gib(stage.weights),
            "engine_gib": gib(held.limit_bytes - stage.weights - stage.available),
            "kv_gib": gib(stage.available),
            "gpu_gib": gib(held.gpu_bytes),
            "limit_gib": gib(held.limit_bytes),
            "bytes_per_token": round(stage.bytes_per_token, 2),
            "tokens": stage.tokens,
            "indexers": stage.indexers,
            "draft_layers": stage.drafts,
        }
        for stage in held.stages
    ]


def _rejected(one: Rejected) -> dict[str, Any]:
    sizes = one.candidate.sizes
    return {
        "layout": one.name.partition(" ")[0],
        "partition": list(one.candidate.partition) if sizes.pp > 1 else None,
        "pool_tokens": one.candidate.pool,
        "reason": one.reason,
    }
