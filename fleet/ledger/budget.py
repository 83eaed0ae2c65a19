"""Bytes available for KV on a rank of a stage: given, measured on another cut, or predicted cold."""

import math
import re
from typing import Any, Protocol

from fleet.frozen import Frozen
from fleet.layouts.boundary import Partition, stages_of
from fleet.ledger.ledger import Ledger
from fleet.model.shape import GIB


class BudgetError(ValueError):
    """Memory that cannot be taken as it was given."""


class Budget(Protocol):
    """Where the bytes for KV come from."""

    def available(self, ledger: Ledger, stage: int, first: int, end: int) -> int:
        """Bytes for KV on one rank of the stage that holds layers first..end-1. May be below zero: it does not fit."""
        ...


class Given(Frozen):
    """What the engine logged for exactly this cut: `Available KV cache memory`, in bytes a rank of each stage."""

    stages: tuple[int, ...]

    def available(self, ledger: Ledger, stage: int, first: int, end: int) -> int:
        """The stage's own value, whatever layers it holds."""
        return self.stages[stage]


class Stated(Frozen):
    """What the engine is told to take for KV on each rank, whatever it weighs: then nothing is estimated. Bytes."""

    bytes: int

    def available(self, ledger: Ledger, stage: int, first: int, end: int) -> int:
        """The same on every rank."""
        return self.bytes


class First(Frozen):
    """What the engine logged for stage 0 of this cut: it prints `Available KV cache memory` for that one only.

    The other stages have as much more as they weigh less.
    """

    stage: int
    layers: int

    def available(self, ledger: Ledger, stage: int, first: int, end: int) -> int:
        """Stage 0's own value, the others' by their weights."""
        if stage == 0:
            return self.stage
        return self.stage + ledger.weights(0, 0, self.layers) - ledger.weights(stage, first, end)


class MeasuredStage(Frozen):
    """What one rank of a stage logged, in GiB. None: not told."""

    available_kv_gib: float
    weights_gib: float | None = None
    cuda_graph_gib: float | None = None


class Measured(Frozen):
    """What a started engine logged on one cut. Other cuts follow by moving layers from it."""

    partition: Partition
    stages: tuple[MeasuredStage, ...]

    def available(self, ledger: Ledger, stage: int, first: int, end: int) -> int:
        """The stage's own value, less what it now holds more: weights of layers and indexers, and graphs.

        The captured graphs grow with the layers: their share is what a stage without a draft logged, by its layers
        (only where the engine takes them from the KV room; see `Serving.graphs_in_peak`).
        """
        was_first, was_end = stages_of(self.partition)[stage]
        grown = ledger.weights(stage, first, end) - ledger.weights(stage, was_first, was_end)
        more = (end - first) - (was_end - was_first)
        return gib(self.stages[stage].available_kv_gib) - grown - round(more * self._graphs_a_layer(ledger))

    def disagreements(self, ledger: Ledger, beyond: float = 0.03) -> tuple[str, ...]:
        """Stages that loaded other weights than the ledger counts, by more than this share: the model is another."""
        found = []
        for index, (stage, cut) in enumerate(zip(self.stages, stages_of(self.partition), strict=False)):
            counted = ledger.weights(index, *cut) / GIB
            if stage.weights_gib is not None and abs(stage.weights_gib / counted - 1) > beyond:
                text = f"stage {index} loaded {stage.weights_gib:.2f} GiB of weights, the ledger counts {counted:.2f}"
                found.append(text)
        return tuple(found)

    def _graphs_a_layer(self, ledger: Ledger) -> float:
        if not ledger.serving.graphs_in_peak:
            return 0.0
        last = len(self.stages) - 1
        plain = [
            (stage.cuda_graph_gib, layers)
            for index, (stage, layers) in enumerate(zip(self.stages, self.partition, strict=True))
            if stage.cuda_graph_gib is not None and layers and not (ledger.drafts and index == last)
        ]
        return GIB * sum(size for size, _ in plain) / sum(layers for _, layers in plain) if plain else 0.0


def gib(value: float) -> int:
    """GiB as whole bytes."""
    return round(value * GIB)


def checked(value: Any, what: str) -> float:
    """A number of GiB. BudgetError where it is none, NaN, infinite, negative, or more than any machine has."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BudgetError(f"{what}: want GiB, found {value!r}") from None
    if isinstance(value, bool) or not math.isfinite(number) or not 0 < number < 1_000_000:
        raise BudgetError(f"{what}: want GiB above 0, found {value!r}")
    return number


_STAGES = re.compile(r"stages_(\d+(?:_\d+)*)_gib")


def read_measured(document: Any, wanted: Partition | None = None) -> Measured:
    """A measurement from a parsed file: `stages_39_39_gib: [{available_kv: 21.95, ...}, ...]`, or the same as
    `partition: [39, 39]` and `stages: [...]`. Of several the one of the `wanted` cut, else the first.

    Raises BudgetError with the field's name.
    """
    if not isinstance(document, dict):
        raise BudgetError(f"want a mapping with stages_39_39_gib or with partition and stages, found {document!r:.60}")
    found = [
        _measured([int(count) for count in match[1].split("_")], rows, str(name))
        for name, rows in document.items()
        if (match := _STAGES.fullmatch(str(name)))
    ]
    if "stages" in document:
        found.append(_measured(document.get("partition"), document["stages"], "stages"))
    if not found:
        raise BudgetError("want stages_39_39_gib (any cut), or partition and stages, found neither")
    return next((one for one in found if one.partition == wanted), found[0])


def _measured(partition: Any, rows: Any, name: str) -> Measured:
    if not isinstance(partition, list) or not all(isinstance(n, int) and n > 0 for n in partition):
        raise BudgetError(f"{name}: want a partition such as [39, 39], found {partition!r}")
    if not isinstance(rows, list) or len(rows) != len(partition) or not all(isinstance(row, dict) for row in rows):
        raise BudgetError(f"{name}: want {len(partition)} mappings, one a stage")
    return Measured(partition=tuple(partition), stages=tuple(_stage(row, f"{name}[{i}]") for i, row in enumerate(rows)))


def _stage(row: dict[str, Any], place: str) -> MeasuredStage:
    def value(*names: str) -> float | None:
        stated = next((row[name] for name in names if row.get(name) is not None), None)
        return None if stated is None else checked(stated, f"{place}.{names[0]}")

    available = value("available_kv", "available_kv_gib")
    if available is None:
        raise BudgetError(f"{place}.available_kv: want GiB above 0, found nothing")
    return MeasuredStage(
        available_kv_gib=available,
        weights_gib=value("weights", "weights_gib"),
        cuda_graph_gib=value("cuda_graph", "cuda_graph_gib"),
    )
