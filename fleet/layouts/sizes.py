"""TP x PP x DP, and which of them a node could hold."""

from fleet.frozen import Frozen


class Sizes(Frozen):
    """Ranks of each kind of parallelism: TP inside PP inside DP."""

    tp: int
    pp: int = 1
    dp: int = 1

    @property
    def ranks(self) -> int:
        """GPUs used."""
        return self.tp * self.pp * self.dp

    @property
    def instance(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp

    def __str__(self) -> str:
        return f"TP{self.tp}/PP{self.pp}" + (f"/DP{self.dp}" if self.dp > 1 else "")


def every_sizes(gpus: int) -> tuple[Sizes, ...]:
    """Every TP x PP that fits, each with as many replicas as fit: fewer would leave GPUs idle and gain nothing."""
    return tuple(
        Sizes(tp=tp, pp=pp, dp=gpus // (tp * pp)) for tp in range(1, gpus + 1) for pp in range(1, gpus // tp + 1)
    )
