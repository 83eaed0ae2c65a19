"""An audit as one HTML page that needs nothing but itself. Whatever a node printed is escaped by Jinja."""

import base64
import datetime
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fleet.audit import Audit
from fleet.checks.engine import cache_config
from fleet.drift import Case, checks
from fleet.known import Undecidable
from fleet.ledger.prediction import Prediction, prediction
from fleet.plan import NodeView
from fleet.releases.current import side_by_side
from templates.drawing import draw

HERE = Path(__file__).parent / "audit"
MARK = {"clean": "✓", "drift": "✗", "unknown": "?"}
OPEN_NODES = 12
"""So many nodes with findings are unfolded from the start."""
GIB = 2**30


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def page(audit: Audit, history: Sequence[dict[str, Any]] = ()) -> str:
    """The page. `history`: documents of audits, oldest first, this one included."""
    script = (HERE / "filter.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    nodes = _nodes(audit)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            audit=audit,
            when=f"{datetime.datetime.fromisoformat(audit.when):%A, %d %B %Y, %H:%M:%S} UTC",
            state="drift" if audit.exit_code == 2 else "unknown" if audit.exit_code else "clean",
            headline=_headline(audit),
            nodes=nodes,
            gpus=sum(view.node.gpus.count for view in audit.views),
            everywhere=[drift for drift in audit.drifts if drift.node not in audit.nodes],
            gates=_gates(audit),
            checks=len(checks()),
            history=_history(history),
            MARK=MARK,
            style=Markup((HERE / "style.css").read_text(encoding="utf-8")),
            script=Markup(script),
            script_hash=f"sha256-{digest}",
        )
    )


def _headline(audit: Audit) -> str:
    if not audit.drifts:
        return "No drift"
    drift = sum(one.kind == "drift" for one in audit.drifts)
    nodes = len({one.node for one in audit.drifts})
    unknown = len(audit.drifts) - drift
    told = [f"{drift} drift{'s' if drift > 1 else ''}"] if drift else []
    told += [f"{unknown} that could not be told"] if unknown else []
    return f"{' and '.join(told)} on {nodes} of {len(audit.nodes)} node{'s' if len(audit.nodes) != 1 else ''}"


def _nodes(audit: Audit) -> list[dict[str, Any]]:
    views = {view.node.name: view for view in audit.views}
    opened = 0
    told = []
    for place, name in enumerate(audit.nodes):
        view, drifts = views.get(name), audit.of(name)
        cases = [case for case in audit.cases if case.plan.node.name == name]
        few = len(audit.nodes) <= 3
        opened += bool(drifts)
        told.append(
            {
                "name": name,
                "anchor": f"node-{place}",
                "state": audit.state(name),
                "drifts": drifts,
                "open": few or (bool(drifts) and opened <= OPEN_NODES),
                "unread": audit.unread.get(name),
                "short": _short(view, cases),
                "drawing": draw(view, cases) if view and view.node.gpus.count else None,
                "services": [_service(case) for case in cases],
                "facts": _machine(view) if view else [],
            }
        )
    return told


def _short(view: NodeView | None, cases: Sequence[Case]) -> str:
    hardware = f"{view.node.gpus.count} x {_gpu(view.node.gpus.model)}" if view else ""
    services = ", ".join(f"{case.plan.service.name} {case.plan.layout}" for case in cases)
    return " · ".join(part for part in (hardware, services) if part)


def _gpu(model: str) -> str:
    return model.removeprefix("NVIDIA ")


def _service(case: Case) -> dict[str, Any]:
    lies, service, layout = case.installed, case.plan.service, case.plan.layout
    unit = lies.unit if lies else None
    expected = prediction(case.plan)
    facts = [
        ("release", (lies.current if lies else None) or "none"),
        ("unit", f"{unit.active} ({unit.sub}), since {unit.active_since or 'never'}" if unit else "none"),
        ("model", f"{service.model}, served as {service.served_name}"),
        ("image", f"{service.image.reference}, engine {service.image.engine}"),
        ("layout", f"{layout}, partition {layout.partition_text}" if layout else str(case.plan.layout_error)),
        ("context", f"{service.max_model_len:,} tokens, KV cache {service.kv_cache_dtype}"),
        ("KV pool", _pool(case)),
        ("predicted pool", str(expected) if expected else "the ledger cannot tell"),
        *(("finding" if one.far else "as logged", one.finding or str(one)) for one in side_by_side(case.plan)),
        ("proof", str(case.proof.get("summary") or "none") + (f", {when}" if (when := case.proof.get("when")) else "")),
    ]
    return {"name": service.name, "facts": facts, **_bars(case, expected)}


def _pool(case: Case) -> str:
    try:
        config = cache_config(case)
    except Undecidable as unknown:
        return f"not told: {unknown}"
    if config is None:
        return "not running"
    size = int(config["kv_cache_size_tokens"])
    proven = (case.proof.get("measured") or {}).get("kv_cache_size_tokens")
    return f"{size:,} tokens as the engine reports" + (
        f", {int(proven):,} at the proof" if str(proven).isdecimal() else ""
    )


PARTS = (("weights", 0), ("KV cache", 2), ("activations, graphs and the rest of what the engine may use", 1))


def _bars(case: Case, expected: Prediction | None) -> dict[str, Any]:
    """Memory of one rank of each stage as the ledger expects it, and what its fullest GPU has in use now."""
    if expected is None:
        return {"bars": [], "legend": []}
    gpus: dict[int, list[int]] = {}
    for rank in case.plan.ranks:
        gpus.setdefault(rank.stage, []).append(rank.gpu)
    bars = []
    for stage in expected.stages:
        room = max(stage.available, 0)
        sizes = (stage.weights, room, max(expected.limit - stage.weights - room, 0))
        parts = [
            {"percent": round(min(100 * size / expected.gpu, 100), 2), "color": color}
            for size, (_, color) in zip(sizes, PARTS, strict=True)
        ]
        where = ", ".join(map(str, gpus.get(stage.stage, ())))
        name = f"stage {stage.stage}: layers {stage.first} to {stage.first + stage.layers - 1} on GPU {where}"
        total = f"{_gib(stage.weights)} + {_gib(room)} of {_gib(expected.gpu)}"
        words = f"{name}: weights {_gib(stage.weights)}, KV cache {_gib(room)}, of {_gib(expected.gpu)} GiB"
        bars.append({"name": name, "parts": parts, "words": words, "total": f"{total}{_in_use(case, stage.stage)}"})
    return {"bars": bars, "legend": [{"color": color, "name": name} for name, color in PARTS]}


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}"


def _in_use(case: Case, stage: int) -> str:
    """What nvidia-smi tells of the fullest GPU of a stage; nothing where it does not tell."""
    facts = case.plan.facts
    mine = {rank.gpu for rank in case.plan.ranks if rank.stage == stage}
    used = [gpu.memory_used_mib for gpu in facts.nvidia.gpus if gpu.index in mine] if facts else []
    known = [size for size in used if size is not None]
    return f"; {max(known) / 1024:.1f} in use" if known else ""


def _machine(view: NodeView) -> list[tuple[str, str]]:
    facts = view.facts
    if facts is None:
        return []
    disks = "; ".join(
        f"{disk.path}: {disk.free_bytes / GIB:.0f} of {(disk.total_bytes or 0) / GIB:.0f} GiB free"
        for disk in facts.disks
        if disk.free_bytes is not None
    )
    return [
        ("system", f"{facts.os or 'not told'}, kernel {facts.kernel or 'not told'}"),
        ("driver", facts.nvidia.driver or "not told"),
        ("memory", f"{facts.memory_bytes / GIB:.0f} GiB" if facts.memory_bytes else "not told"),
        ("CPUs", facts.cpus_online or "not told"),
        ("disks", disks or "not told"),
    ]


def _gates(audit: Audit) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for verdict in audit.verdicts:
        row = rows.setdefault(verdict.gate, {"name": verdict.gate, "passed": 0, "others": []})
        if verdict.status == "pass":
            row["passed"] += 1
        else:
            place = f"{verdict.node}/{verdict.service}" if verdict.service else verdict.node
            row["others"].append(f"{verdict.status} {place}")
    return [{**row, "others": "; ".join(row["others"])} for row in rows.values()]


def _history(documents: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """What each audit found, a column an audit, a row for each gate or check that ever found something."""
    if not documents:
        return None
    found = [_by_check(document) for document in documents]
    names = sorted({name for one in found for name in one})
    whens = [str(document.get("when", "")) for document in documents]
    rows = [{"name": name, "cells": [_cell(one.get(name, []), name) for one in found]} for name in names]
    total: list[dict[str, str]] = []
    for one in found:
        total.append(_cell([drift for drifts in one.values() for drift in drifts], "everything"))
    return {"columns": whens, "rows": [{"name": "everything", "cells": total}, *rows]}


def _by_check(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for drift in document.get("drifts") or ():
        if isinstance(drift, dict):
            found.setdefault(str(drift.get("check")), []).append(drift)
    return found


def _cell(drifts: Iterable[dict[str, Any]], name: str) -> dict[str, str]:
    listed = list(drifts)
    if not listed:
        return {"kind": "pass", "sign": "✓", "words": f"{name}: nothing found"}
    nodes = ", ".join(sorted({str(drift.get("node")) for drift in listed}))
    bad = any(drift.get("kind") == "drift" for drift in listed)
    return {"kind": "fail" if bad else "odd", "sign": str(len(listed)) if bad else "?", "words": f"{name}: {nodes}"}
