"""Which partitions of a model the boundary rules allow, and why not the others."""

from fleet.declaration import Evidence
from fleet.frozen import Frozen
from fleet.layouts.boundary import Partition, orphans
from fleet.layouts.evidence import TRIALS, opens
from fleet.model.architecture import Architecture


class Cuts(Frozen):
    """The rules of `fleet/gates/boundary.py` as a question about one partition. `runs`: of this model and engine."""

    model: Architecture
    repaired: bool = False
    """By the image, wherever it is cut."""
    repairable: frozenset[int] = frozenset()
    """Layers that the second of two stages may start on because the engine can be made to compute their indices."""
    max_pool_loss: float = 0.0
    """Share of the pool that an aligned partition may cost against one that needs such a repair."""
    runs: tuple[Evidence, ...] = ()

    def _runs(self, partition: Partition) -> list[Evidence]:
        return [run for run in self.runs if run.partition == partition]

    def problem(self, partition: Partition) -> str | None:
        """Why this partition is refused; None where it is allowed."""
        runs = self._runs(partition)
        proven = any(map(opens, runs))
        bad = [run for run in runs if run.bad]
        if bad and not proven:
            text = ", ".join(f"{run.bad} of {run.trials} answers" for run in bad)
            return f"degenerate answers in a stored run: {text}"
        stages = len(partition)
        if stages > 2 and self.model.shares_indices and not proven:
            return (
                f"{stages} stages on an index-sharing model: operators saw degenerate answers, and no run of "
                f"{TRIALS} trials with none bad is stored"
            )
        found = orphans(partition, self.model)
        if not found or self.repaired:  # of more than two stages only proven ones come here
            return None
        first = found[0]
        if stages == 2 and first.layers[0] in self.repairable:
            return None
        return f"stage {first.stage} starts on layer {first.layers[0]}, which shares layer {first.source}'s indices"

    def may_start(self, layer: int) -> bool:
        """May a stage start here without a repair of ours?"""
        sharing = self.model.index_sharing
        return self.repaired or sharing is None or sharing.computes(layer)

    def only(self, stages: int) -> tuple[Partition, ...] | None:
        """Where few partitions are allowed by evidence alone: these. None: all that `may_start` allows."""
        if stages <= 2 or not self.model.shares_indices:
            return None
        proven = {run.partition for run in self.runs if opens(run) and len(run.partition) == stages}
        whole = (cut for cut in proven if sum(cut) == self.model.layers and min(cut) > 0)
        return tuple(sorted(cut for cut in whole if self.problem(cut) is None))
