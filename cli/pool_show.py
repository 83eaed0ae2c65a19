"""What `fleet pool` tells: a table for people, one JSON object for machines."""

from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from fleet.ledger.ledger import Ledger, Pool


def warn(ledger: Ledger, found: Pool, disagreements: tuple[str, ...]) -> None:
    """What a reader must know of these numbers; on stderr, so that the JSON stays one document."""
    for note in ledger.model.notes:
        typer.echo(f"note: {note}", err=True)
    if found.weights is None:
        typer.echo(f"note: weights unknown: {'; '.join(ledger.model.missing)}", err=True)
    for text in disagreements:
        typer.echo(f"warning: {text}: was it this model, quantised so?", err=True)
    if not found.starts:
        text = f"{found.tokens} tokens hold no request of {found.max_model_len}: the engine will not start"
        typer.echo(f"warning: {text}", err=True)


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else round(value, 2)


def _gib(value: int | None) -> float | None:
    return None if value is None else round(value / 2**30, 3)


def _mib(value: int | None) -> float | None:
    return None if value is None else round(value / 2**20, 2)


def document_of(ledger: Ledger, found: Pool) -> dict[str, Any]:
    """The JSON object. Weights and sizes are null where the model does not tell them."""
    model = ledger.model
    return {
        "bytes_per_token": [_number(value) for value in found.bytes_per_token],
        "stage_tokens": list(found.stage_tokens),
        "binding_stage": found.binding_stage,
        "pool_tokens": found.tokens,
        "weights_gib": [_gib(value) for value in found.weights] if found.weights else None,
        "partition": list(found.partition),
        "layer_mib": _mib(model.layer_stored),
        "mtp_layer_mib": _mib(model.draft_stored),
        "checkpoint_gib": _gib(model.stored) if not model.missing else None,
    }


def show(ledger: Ledger, found: Pool, span: tuple[int, int] | None) -> None:
    """A row a stage, and what the pool is worth; `span` is the range of a prediction without measurement."""
    model, serving = ledger.model, ledger.serving
    table = Table("stage", "layers", "weights GiB", "KV GiB", "bytes/token", "tokens", "", box=None)
    for stage, layers in enumerate(found.partition):
        first = sum(found.partition[:stage])
        weights = f"{found.weights[stage] / 2**30:.2f}" if found.weights else "unknown"
        table.add_row(
            str(stage),
            f"{first}-{first + layers - 1}",
            weights,
            f"{found.available[stage] / 2**30:.2f}",
            f"{_number(found.bytes_per_token[stage]):,}",
            f"{found.stage_tokens[stage]:,}",
            "binds" if stage == found.binding_stage and serving.pp > 1 else "",
        )
    console = Console(highlight=False)
    console.print(f"{model.model_type} ({model.kind}), {ledger.layers} layers, TP{serving.tp}/PP{serving.pp}")
    console.print(table)
    console.print(f"pool {found.tokens:,} tokens: {found.concurrency:.2f} requests of {found.max_model_len:,} tokens")
    if span:
        console.print(f"nothing was measured on this GPU: between {span[0]:,} and {span[1]:,} tokens (docs/ledger.md)")
