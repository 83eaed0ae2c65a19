"""What a started engine said of its memory: kept with its release, shown beside the prediction, used the next time."""

import json
import re

from pydantic import ValidationError

from fleet.frozen import Frozen
from fleet.layouts.boundary import Partition, stages_of
from fleet.ledger.budget import Measured, MeasuredStage
from fleet.ledger.ledger import Ledger
from fleet.model.shape import GIB

_STAGE = re.compile(r"_PP(\d+)")


class StartedRank(Frozen):
    """Figures of one process of the engine, in GiB, as its log rounds them; None where it logged none.

    The engine logs these for the first rank of a host alone (vLLM, `info_once` with the scope `local`).
    """

    process: str
    """As the log names it: `Worker_PP0_TP0`, `EngineCore`."""
    weights_gib: float | None = None
    available_kv_gib: float | None = None
    cuda_graph_gib: float | None = None

    @property
    def stage(self) -> int:
        """Its pipeline stage."""
        named = _STAGE.search(self.process)
        return int(named[1]) if named else 0


class GpuMemory(Frozen):
    """Memory of one GPU after the start, in MiB, as nvidia-smi told it."""

    index: int
    used_mib: int
    total_mib: int

    @property
    def margin_mib(self) -> int:
        """What is free."""
        return self.total_mib - self.used_mib


class Started(Frozen):
    """One start: the pool in tokens as the engine printed it, and its blocks on each rank; None where it told none."""

    ranks: tuple[StartedRank, ...] = ()
    pool_tokens: int | None = None
    blocks: int | None = None
    gpus: tuple[GpuMemory, ...] = ()

    @property
    def tightest(self) -> GpuMemory | None:
        """The GPU with the least room left, the first of equals."""
        return min(self.gpus, key=lambda gpu: gpu.margin_mib, default=None)

    def budget(self, ledger: Ledger, partition: Partition) -> Measured | None:
        """What was available for KV on each stage of the cut that ran; None where too little was logged.

        A stage that logged nothing had at least room for the blocks of the pool, and just that where it binds: so what
        follows from it is never too much.
        """
        logged = {rank.stage: rank for rank in reversed(self.ranks) if rank.available_kv_gib is not None}
        stages = []
        for stage, (first, end) in enumerate(stages_of(partition)):
            rank = logged.get(stage)
            room = rank.available_kv_gib if rank else None
            if room is None and self.blocks is not None:
                room = self.blocks * ledger.block_bytes(stage, first, end) / GIB
            if room is None:
                return None
            weights, graphs = (rank.weights_gib, rank.cuda_graph_gib) if rank else (None, None)
            stages.append(MeasuredStage(available_kv_gib=room, weights_gib=weights, cuda_graph_gib=graphs))
        return Measured(partition=partition, stages=tuple(stages))


def read_started(proof: str | None) -> Started | None:
    """What proof.json of a release keeps of its start; None where it keeps nothing, or is no proof of ours."""
    try:
        document = json.loads(proof or "null")
        kept = document.get("started") if isinstance(document, dict) else None
        return Started.model_validate(kept) if kept is not None else None
    except (ValueError, ValidationError):
        return None
