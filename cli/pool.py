"""`fleet pool`: the ledger of a layout, from config.json and what the engine logged or what a GPU has."""

import json
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from cli.machine import Json, fail


def pool(
    config: Annotated[Path, typer.Option("--config", help="config.json of the model.")],
    engine: Annotated[str, typer.Option("--engine", help="Version of the engine, such as 0.30.")],
    max_model_len: Annotated[
        int | None, typer.Option("--max-model-len", help="Tokens; default: the longest that config.json states.")
    ] = None,
    tp: Annotated[int, typer.Option("--tp")] = 1,
    pp: Annotated[int, typer.Option("--pp")] = 1,
    dp: Annotated[int, typer.Option("--dp")] = 1,
    dcp: Annotated[int, typer.Option("--dcp", help="Decode context parallelism.")] = 1,
    expert_parallel: Annotated[bool, typer.Option("--expert-parallel", help="Whole experts on each rank.")] = False,
    partition: Annotated[
        str | None, typer.Option("--partition", help="Layers of each stage, such as 41,37; default: the engine's.")
    ] = None,
    kv_cache_dtype: Annotated[str, typer.Option("--kv-cache-dtype")] = "auto",
    speculative: Annotated[
        str, typer.Option("--speculative", help="none, mtp, mtp:3, ngram, or another method with --draft-config.")
    ] = "none",
    draft_config: Annotated[
        Path | None, typer.Option("--draft-config", help="config.json of a separate draft model.")
    ] = None,
    available_gib: Annotated[
        str | None,
        typer.Option("--available-gib", help="GiB for KV on a rank of each stage; one number for all of them."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="Folder with the safetensors files: weights by their headers.")
    ] = None,
    gpu_memory_gib: Annotated[
        str | None, typer.Option("--gpu-memory-gib", help="Memory of a GPU, where nothing was measured: a range.")
    ] = None,
    gpu_memory_utilization: Annotated[
        str, typer.Option("--gpu-memory-utilization", help="With --gpu-memory-gib: the share the engine may use.")
    ] = "0.9",
    max_num_seqs: Annotated[int, typer.Option("--max-num-seqs", help="With --gpu-memory-gib.")] = 1024,
    measured: Annotated[
        Path | None,
        typer.Option("--measured", help="YAML with the stages of a cut that ran; layers are moved from it."),
    ] = None,
    block_size: Annotated[int | None, typer.Option("--block-size", help="Default: the engine's.")] = None,
    max_num_batched_tokens: Annotated[int, typer.Option("--max-num-batched-tokens")] = 8192,
    prefix_caching: Annotated[bool, typer.Option("--prefix-caching/--no-prefix-caching")] = True,
    repair: Annotated[
        str, typer.Option("--repair", help="Which layers of a misaligned stage compute indices: none, first or all.")
    ] = "all",
    as_json: Json = False,
) -> None:
    """Tell how many tokens a layout holds: bytes a token, tokens of each stage, the stage that binds, weights."""
    given = dict(locals())
    from fleet.ledger.budget import BudgetError
    from fleet.ledger.cache.page import CacheError
    from fleet.model.shape import ModelError

    try:
        _run(given, _Files(config, draft_config, measured, checkpoint), as_json)
    except (ModelError, CacheError, BudgetError) as error:
        fail(str(error))


class _Files(NamedTuple):
    """What is read from this machine."""

    config: Path
    draft_config: Path | None
    measured: Path | None
    checkpoint: Path | None


def _run(flags: dict[str, Any], files: _Files, as_json: bool) -> None:
    from cli.pool_flags import budget_of, json_of, partition_of, serving_of
    from cli.pool_show import document_of, show, warn
    from facts.checkpoint import read_checkpoint
    from fleet.ledger.budget import BudgetError, Measured
    from fleet.ledger.ledger import Ledger
    from fleet.model.read import read_model

    document = json_of(files.config)
    model = read_model(document, None, read_checkpoint(files.checkpoint) if files.checkpoint else None)
    draft_model = read_model(json_of(files.draft_config)) if files.draft_config else None
    ledger = Ledger(model, serving_of(flags, document), draft_model)
    cut = partition_of(flags, ledger)
    budget = budget_of(flags, files.measured, cut, model)
    stages = tuple(enumerate(pairwise((0, *accumulate(cut)))))
    found = ledger.pool(cut, tuple(budget.available(ledger, stage, *layers) for stage, layers in stages))
    span = None
    if flags["gpu_memory_gib"] is not None:
        rooms = [budget.range(ledger, stage, *layers) for stage, layers in stages]
        span = tuple(ledger.pool(cut, side).tokens for side in zip(*rooms, strict=True))
    if found.tokens <= 0:
        stage = found.binding_stage
        raise BudgetError(f"stage {stage} has {found.available[stage] / 2**30:.2f} GiB for KV: not one block fits")
    warn(ledger, found, budget.disagreements(ledger) if isinstance(budget, Measured) else ())
    if as_json:
        typer.echo(json.dumps({**document_of(ledger, found), **({"range_tokens": span} if span else {})}))
    else:
        show(ledger, found, span)
