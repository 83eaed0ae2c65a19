"""What `fleet pool` is asked: flags and files as the ledger takes them, each refused by its name."""

import json
import math
import re
from pathlib import Path
from typing import Any

import typer
import yaml

from fleet.layouts.boundary import Partition, even_partition
from fleet.ledger.budget import Budget, BudgetError, First, Given, Measured, checked, gib, read_measured
from fleet.ledger.cold import Cold
from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Draft, Serving
from fleet.model.architecture import ArchitectureError, read_architecture
from fleet.model.shape import Model, ModelError

COUNTS = ("tp", "pp", "dp", "dcp", "block_size", "max_num_batched_tokens", "max_num_seqs", "max_model_len")
AS_THEY_ARE = (
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
    "repair",
)
LARGEST = 2**31
MOST_RANKS = 4096


def json_of(path: Path) -> dict[str, Any]:
    """A JSON object from a file. ModelError with the path."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: want JSON, found {error}") from None
    if not isinstance(document, dict):
        raise ModelError(f"{path}: want an object, found {str(document)[:60]!r}")
    return document


def serving_of(flags: dict[str, Any], document: dict[str, Any]) -> Serving:
    """How the model is served. BudgetError with the flag."""
    for name in COUNTS:
        if flags[name] is not None and not 1 <= flags[name] <= LARGEST:
            raise BudgetError(f"--{name.replace('_', '-')}: want a positive number, found {flags[name]}")
    if flags["tp"] * flags["pp"] * flags["dp"] > MOST_RANKS:
        raise BudgetError(f"--tp, --pp, --dp: want at most {MOST_RANKS} GPUs, found more")
    if flags["tp"] % flags["dcp"]:
        raise BudgetError(f"--dcp: want a divisor of TP {flags['tp']}, found {flags['dcp']}")
    if not re.match(r"\d{1,4}\.\d{1,4}(?!\d)", flags["engine"]):
        raise BudgetError(f"--engine: want a version such as 0.30, found {flags['engine']!r}")
    if flags["repair"] not in ("none", "first", "all"):
        raise BudgetError(f"--repair: want none, first or all, found {flags['repair']!r}")
    same = {name: flags[name] for name in AS_THEY_ARE}
    return Serving(**same, max_model_len=_length(flags, document), draft=_draft(flags["speculative"]))


def _length(flags: dict[str, Any], document: dict[str, Any]) -> int:
    if flags["max_model_len"] is not None:
        return int(flags["max_model_len"])
    try:
        longest = read_architecture(document).max_positions
    except ArchitectureError as error:
        raise BudgetError(str(error)) from None
    if longest is None:
        raise BudgetError("--max-model-len: want tokens, found nothing, and config.json states no longest context")
    return longest


def _draft(text: str) -> Draft | None:
    short = re.fullmatch(r"([a-z][a-z0-9_]*)(?::([1-9][0-9]{0,3}))?", text)
    if short is None:
        raise BudgetError(f"--speculative: want none, mtp, or METHOD:K such as mtp:3, found {text!r}")
    if short[1] == "none":
        return None
    return Draft(method=short[1], k=int(short[2])) if short[2] else Draft(method=short[1])


def partition_of(flags: dict[str, Any], ledger: Ledger) -> Partition:
    """The layers of each stage: as declared, or the engine's own split. BudgetError where they do not fit the model."""
    text, pp = flags["partition"], flags["pp"]
    if text is None:
        return even_partition(ledger.layers, pp)
    if not re.fullmatch(r"\s*-?\d{1,9}\s*(,\s*-?\d{1,9}\s*)*", text):
        raise BudgetError(f"--partition: want numbers of layers such as 41,37, found {text!r}")
    parts = tuple(int(part) for part in text.split(","))
    if len(parts) != pp:
        raise BudgetError(f"--partition: want {pp} parts for PP {pp}, found {len(parts)} ({text})")
    if min(parts) < 1:
        raise BudgetError(f"--partition: want layers on every stage, found {text}")
    if sum(parts) != ledger.layers:
        raise BudgetError(f"--partition: want {ledger.layers} layers in all, found {sum(parts)} ({text})")
    return parts


def budget_of(flags: dict[str, Any], measured: Path | None, cut: Partition, model: Model) -> Budget:
    """Where the bytes for KV come from. BudgetError where not exactly one source is given, or it makes no sense."""
    stated, memory = flags["available_gib"], flags["gpu_memory_gib"]
    _share(flags)
    if sum(source is not None for source in (stated, memory, measured)) != 1:
        raise BudgetError("want exactly one of --available-gib, --measured and --gpu-memory-gib")
    if measured is not None:
        return measurement_of(measured, cut)
    return _given(stated, cut, model) if memory is None else _cold(flags, model)


def _given(text: str, cut: Partition, model: Model) -> Budget:
    numbers = [gib(checked(part.strip(), "--available-gib")) for part in text.split(",")]
    if len(numbers) == len(cut):
        return Given(stages=tuple(numbers))
    if len(numbers) != 1:
        raise BudgetError(f"--available-gib: want {len(cut)} numbers, one a stage, found {len(numbers)} ({text})")
    if model.missing:
        reason = "of one the others follow by their weights, which are unknown here"
        raise BudgetError(f"--available-gib: want {len(cut)} numbers, one a stage: {reason}")
    note = "--available-gib is that of stage 0, as the engine logs it; the others follow by their weights"
    typer.echo(f"note: {note}", err=True)
    return First(stage=numbers[0], layers=cut[0])


def _cold(flags: dict[str, Any], model: Model) -> Cold:
    memory = checked(flags["gpu_memory_gib"], "--gpu-memory-gib")
    return Cold(
        memory_gib=memory,
        utilization=_share(flags),
        max_num_seqs=flags["max_num_seqs"],
        vocabulary=model.vocabulary,
        hidden=model.hidden,
    )


def _share(flags: dict[str, Any]) -> float:
    """The share of a GPU that the engine may use, as it was given, whether it is needed or not."""
    text = flags["gpu_memory_utilization"]
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise BudgetError(f"--gpu-memory-utilization: want a number above 0 and at most 1, found {text!r}")
    return share


def measurement_of(path: Path, cut: Partition) -> Measured:
    """The stages of a cut that ran, from a YAML file. BudgetError with the file where it is not of this model."""
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
