"""`fleet compare A B`: two layouts side by side."""

import json
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from cli.asking import Asked, layout_named, measured_as
from cli.machine import Json, fail
from cli.plan import (
    Answer,
    Checkpoint,
    Config,
    Data,
    Engine,
    FleetName,
    KvDtype,
    MaxModelLen,
    Measured,
    NodeFile,
    Objective,
    PrefillRate,
    Prompt,
    Repaired,
    Speculative,
    Utilization,
    ask,
)

GIB = 2**30
LAYOUT = (
    "auto, declared, or sizes and a partition such as tp4/pp2/41,37; without a partition the best, `even` the engine's."
)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=LAYOUT)],
    b: Annotated[str, typer.Argument(metavar="B", help="The other one, named the same way.")],
    service: Annotated[str | None, typer.Option("--service", help="A service of group_data.")] = None,
    on: Annotated[str | None, typer.Option("--on", help="The node that the service runs on.")] = None,
    config: Config = None,
    node_file: NodeFile = None,
    engine: Engine = None,
    max_model_len: MaxModelLen = None,
    kv_cache_dtype: KvDtype = None,
    speculative: Speculative = None,
    gpu_memory_utilization: Utilization = None,
    objective: Objective = None,
    boundary_repaired: Repaired = False,
    prefill_tokens_per_s: PrefillRate = None,
    checkpoint: Checkpoint = None,
    measured: Measured = None,
    prompt: Prompt = None,
    answer: Answer = 256,
    fleet: FleetName = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Put two layouts side by side: memory of each stage, pool, requests, balance, boundary repairs.

    A layout that may not be is shown with the reason; one that makes no sense exits with 1.
    """
    from cli.plan_document import document
    from fleet.layouts.explain import LayoutRefused, explain

    settings = {
        "engine": engine,
        "max_model_len": max_model_len,
        "kv_cache_dtype": kv_cache_dtype,
        "speculative": speculative,
        "gpu_memory_utilization": gpu_memory_utilization,
        "objective": objective,
        "boundary_repaired": boundary_repaired or None,
        "prefill_tokens_per_s": prefill_tokens_per_s,
    }
    found = ask(service, on, config, node_file, settings, fleet, data, checkpoint)
    if len(found) != 1:
        fail(f"want one node: --on {' or '.join(sorted(one.node for one in found))}")
    asked = measured_as(found[0], a, measured)
    both = []
    for name in (a, b):
        try:
            both.append(explain(asked.question, layout_named(name, asked), None, prompt, answer))
        except LayoutRefused as error:
            fail(f"{name}: {error}")
    if as_json:
        documents = [document(asked, one) for one in both]
        both_documents = [{name: one[name] for name in _COMPARED} for one in documents]
        typer.echo(
            json.dumps({"a": both_documents[0], "b": both_documents[1], "difference": _difference(*both)}, indent=1)
        )
    else:
        _show(asked, both)


_COMPARED = (
    "layout",
    "problem",
    "doubt",
    "stages",
    "pool_tokens",
    "pool_range",
    "binding_stage",
    "context",
    "requests",
    "balance",
    "boundary_repairs",
    "traffic",
)


def _difference(a: Any, b: Any) -> dict[str, Any]:
    """B less A, where both are known."""
    known = a.capacity is not None and b.capacity is not None
    return {
        "pool_tokens": b.capacity.pool - a.capacity.pool if known else None,
        "context": b.capacity.context - a.capacity.context if known else None,
        "resident": b.request.resident - a.request.resident if known else None,
        "balance": round(b.balance - a.balance, 3),
    }


def _show(asked: Asked, both: list[Any]) -> None:
    from operations.show import console

    out = console()
    out.print(f"[bold]{escape(asked.service)} on {escape(asked.node)}[/]")
    table = Table("", *(str(one.candidate) for one in both), box=None, pad_edge=False)
    for name, cells in _rows(both):
        table.add_row(name, *map(escape, cells))
    out.print(table)


def _rows(both: list[Any]) -> list[tuple[str, list[str]]]:
    rows = [("verdict", [_verdict(one) for one in both])]
    most = max(one.candidate.sizes.pp for one in both)
    for stage in range(most):
        rows.append((f"stage {stage}", [_stage(one, stage) for one in both]))
    rows += [
        ("pool", [_held(one, lambda held: f"{held.pool:,} tokens") for one in both]),
        ("at worst, at best", [_held(one, _range) for one in both]),
        ("binding stage", [_held(one, lambda held: str(held.binding_stage)) for one in both]),
        ("longest request", [_held(one, lambda held: f"{held.context:,} tokens") for one in both]),
        (f"requests of {both[0].request.tokens:,} tokens", [str(one.request.resident) for one in both]),
        ("balance", [f"busiest stage {one.balance:.2f} times the mean" for one in both]),
        ("boundary", ["; ".join(one.repaired) or "nothing to repair" for one in both]),
        ("a step sends", [str(one.candidate.traffic) for one in both]),
    ]
    return rows


def _verdict(one: Any) -> str:
    if one.candidate.problem:
        return f"refused: {one.candidate.problem}"
    return f"doubtful: {one.candidate.doubt}" if one.candidate.doubt else "may be used"


def _range(held: Any) -> str:
    return " to ".join(f"{tokens:,}" for tokens in held.pool_range) if held.pool_range else "measured"


def _held(one: Any, text: Any) -> str:
    return text(one.capacity) if one.capacity is not None else f"unknown: {one.unknown}"


def _stage(one: Any, number: int) -> str:
    if one.capacity is None or number >= len(one.capacity.stages):
        return "-"
    stage = one.capacity.stages[number]
    last = stage.first + stage.layers - 1
    memory = f"weights {stage.weights / GIB:.1f}, KV {stage.available / GIB:.1f} GiB"
    return f"layers {stage.first}-{last}: {memory}, {stage.tokens:,} tokens"
