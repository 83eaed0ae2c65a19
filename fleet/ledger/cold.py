"""What a rank has for KV before anything was measured on its node: a range, with what it rests on.

The terms beside the weights are empirical. They were taken from 25 start-ups of other people's engines (0.15 to 0.30,
A100 and H100, TP 1 to 8; docs/ledger.md has the table) and are stated as a range that held all of them.
"""

from fleet.frozen import Frozen
from fleet.ledger.ledger import Ledger
from fleet.model.shape import GIB

NON_TORCH_GIB = {True: (0.05, 0.6), False: (0.5, 2.4)}
"""CUDA context, NCCL and all-reduce buffers, fragmentation; by whether TP is 1."""
GRAPHS_GIB = (0.2, 2.0)
"""CUDA graphs, where the engine takes their estimate from the KV room."""
LOGITS_COPIES = (3.4, 4.2)
"""Copies of `max_num_seqs` x vocabulary float32 that sampling makes in the profile run."""
OLD_LOGITS_COPIES = (3.4, 10.5)
"""The same up to 0.17, where one start-up of 0.15.0 took 9.7."""
BODY_COPIES = (3.0, 18.0)
"""Copies of `max_num_batched_tokens` x hidden in 16 bit that the layers make at their peak."""
WEIGHTS = (0.98, 1.03)
"""What the weights may turn out to be, against the ledger."""


class Cold(Frozen):
    """The budget of one rank of a GPU nobody has measured: memory in GiB, and the share that the engine may use."""

    memory_gib: float
    utilization: float
    max_num_seqs: int = 1024
    hidden: int
    vocabulary: int

    def available(self, ledger: Ledger, stage: int, first: int, end: int) -> int:
        """The middle of the range, in bytes."""
        low, high = self.range(ledger, stage, first, end)
        return (low + high) // 2

    def range(self, ledger: Ledger, stage: int, first: int, end: int) -> tuple[int, int]:
        """Bytes for KV on one rank: at worst, at best."""
        serving = ledger.serving
        weights = ledger.weights(stage, first, end)
        logits = self.max_num_seqs * self.vocabulary * 4 if stage == serving.pp - 1 else 0
        body = serving.max_num_batched_tokens * self.hidden * 2
        graphs = GRAPHS_GIB if serving.graphs_in_peak else (0.0, 0.0)
        copies = LOGITS_COPIES if serving.version >= (0, 18, 0) else OLD_LOGITS_COPIES
        found = []
        for side in (1, 0):
            peak = max(copies[side] * logits, BODY_COPIES[side] * body)
            other = (NON_TORCH_GIB[serving.tp == 1][side] + graphs[side]) * GIB + ledger.workspace(stage, first, end)
            found.append(round(self.memory_gib * GIB * self.utilization - WEIGHTS[side] * weights - peak - other))
        return found[0], found[1]
