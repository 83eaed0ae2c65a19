"""`fleet pool`: the ledger of a layout, from config.json and what the engine logged or what a GPU has."""

import json
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from fleet.serving import Repair


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
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Tell how many tokens a layout holds: bytes a token, tokens of each stage, the stage that binds, weights."""
    from fleet.budget import BudgetError
    from fleet.cache.page import CacheError
    from fleet.model.shape import ModelError

    given = {name: value for name, value in locals().items() if name not in _NOT_FLAGS}
    try:
        _run(given, config, draft_config, measured, as_json)
    except (ModelError, CacheError, BudgetError) as error:
        _fail(str(error))


_NOT_FLAGS = ("config", "draft_config", "measured", "as_json", "BudgetError", "CacheError", "ModelError")


def _fail(text: str) -> NoReturn:
    typer.echo(text, err=True)
    raise typer.Exit(1)


def _run(flags: dict[str, Any], config: Path, draft_config: Path | None, measured: Path | None, as_json: bool) -> None:
    from fleet.ledger import Ledger
    from fleet.model.read import read_model

    document = _json(config)
    model = read_model(document)
    draft_model = read_model(_json(draft_config)) if draft_config else None
    ledger = Ledger(model, _serving(flags, document), draft_model)
    cut = _partition(flags, ledger)
    budget = _budget(flags, measured, cut)
    starts = [sum(cut[:stage]) for stage in range(len(cut))]
    room = tuple(
        budget.available(ledger, stage, first, first + layers)
        for stage, (first, layers) in enumerate(zip(starts, cut, strict=True))
    )
    found = ledger.pool(cut, room)
    _warn(ledger, found)
    if as_json:
        typer.echo(json.dumps(_document(ledger, found)))
    else:
        _show(ledger, found)


def _json(path: Path) -> dict[str, Any]:
    from fleet.model.shape import ModelError

    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: want JSON, found {error}") from None
    if not isinstance(document, dict):
        raise ModelError(f"{path}: want an object, found {str(document)[:60]!r}")
    return document


def _serving(flags: dict[str, Any], document: dict[str, Any]) -> Any:
    """The flags as the ledger takes them, each refused by its name."""
    import re

    from fleet.architecture import read_architecture
    from fleet.budget import BudgetError
    from fleet.serving import Draft, Serving

    for name in ("tp", "pp", "dp", "dcp", "block_size", "max_num_batched_tokens", "max_model_len"):
        if flags[name] is not None and not 1 <= flags[name] <= 2**40:
            raise BudgetError(f"--{name.replace('_', '-')}: want a positive number, found {flags[name]}")
    if not re.match(r"\d+\.\d+", flags["engine"]):
        raise BudgetError(f"--engine: want a version such as 0.30, found {flags['engine']!r}")
    if flags["repair"] not in ("none", "first", "all"):
        raise BudgetError(f"--repair: want none, first or all, found {flags['repair']!r}")
    length = flags["max_model_len"]
    if length is None:
        length = read_architecture(document).max_positions
        if length is None:
            raise BudgetError("--max-model-len: want tokens, found nothing, and config.json states no longest context")
    short = re.fullmatch(r"([a-z][a-z0-9_]*)(?::([1-9][0-9]{0,3}))?", flags["speculative"])
    if short is None:
        raise BudgetError(f"--speculative: want none, mtp, or METHOD:K, found {flags['speculative']!r}")
    draft = None if short[1] == "none" else Draft(method=short[1], **({"k": int(short[2])} if short[2] else {}))
    repair: Repair = flags["repair"]
    same = {name: flags[name] for name in _SAME}
    return Serving(**same, max_model_len=length, draft=draft, repair=repair)


_SAME = (
    "engine",
    "tp",
    "pp",
    "dp",
    "dcp",
    "expert_parallel",
    "kv_cache_dtype",
    "block_size",
    "max_num_batched_tokens",
    "prefix_caching",
)


def _partition(flags: dict[str, Any], ledger: Any) -> tuple[int, ...]:
    from fleet.boundary import even_partition
    from fleet.budget import BudgetError

    text, pp = flags["partition"], flags["pp"]
    if text is None:
        return even_partition(ledger.layers, pp)
    try:
        parts = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BudgetError(f"--partition: want numbers of layers such as 41,37, found {text!r}") from None
    if len(parts) != pp:
        raise BudgetError(f"--partition: want {pp} parts for PP {pp}, found {len(parts)} ({text})")
    if min(parts) < 1:
        raise BudgetError(f"--partition: want layers on every stage, found {text}")
    if sum(parts) != ledger.layers:
        raise BudgetError(f"--partition: want {ledger.layers} layers in all, found {sum(parts)} ({text})")
    return parts


def _budget(flags: dict[str, Any], measured: Path | None, cut: tuple[int, ...]) -> Any:
    from fleet.budget import BudgetError, Given, checked, gib

    stated = flags["available_gib"]
    if (stated is None) == (measured is None):
        raise BudgetError("want exactly one of --available-gib and --measured")
    if measured is not None:
        return _measurement(measured, cut)
    numbers = [checked(part.strip(), "--available-gib") for part in stated.split(",")]
    if len(numbers) not in (1, len(cut)):
        raise BudgetError(f"--available-gib: want {len(cut)} numbers, one a stage, found {len(numbers)} ({stated})")
    return Given(stages=tuple(map(gib, numbers if len(numbers) == len(cut) else numbers * len(cut))))


def _measurement(path: Path, cut: tuple[int, ...]) -> Any:
    import yaml

    from fleet.budget import BudgetError, read_measured

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BudgetError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BudgetError(f"{path}: want YAML, found {' '.join(str(error).split())[:200]}") from None
    try:
        found = read_measured(document, cut)
    except BudgetError as error:
        raise BudgetError(f"{path}: {error}") from None
    if len(found.partition) != len(cut):
        raise BudgetError(f"{path}: want a measurement with {len(cut)} stages, found {len(found.partition)}")
    if sum(found.partition) != sum(cut):
        raise BudgetError(f"{path}: want {sum(cut)} layers as in the model, found {sum(found.partition)}")
    return found


def _warn(ledger: Any, found: Any) -> None:
    """What a reader must know of these numbers; on stderr, so that the JSON stays one document."""
    for note in (
        *ledger.model.notes,
        *([f"weights unknown: {'; '.join(ledger.model.missing)}"] if found.weights is None else []),
    ):
        typer.echo(f"note: {note}", err=True)
    if found.tokens < found.max_model_len:
        text = f"{found.tokens} tokens hold no request of {found.max_model_len}: the engine will not start"
        typer.echo(f"warning: {text}", err=True)


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else round(value, 2)


def _gib(value: int | None) -> float | None:
    return None if value is None else round(value / 2**30, 3)


def _mib(value: int | None) -> float | None:
    return None if value is None else round(value / 2**20, 2)


def _document(ledger: Any, found: Any) -> dict[str, Any]:
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


def _show(ledger: Any, found: Any) -> None:
    from rich.console import Console
    from rich.table import Table

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
