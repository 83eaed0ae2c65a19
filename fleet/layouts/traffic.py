"""What a layout sends over which links in one step: the cost that ranks layouts. It predicts no tokens per second.

A step is one pass of `tokens` tokens (one for each running request, and the drafted ones). Counted per GPU, as sent:

- Tensor parallelism adds up partial sums after attention and after the MLP: two all-reduces a layer (Megatron-LM,
  Shoeybi et al. 2019) of tokens x hidden elements. A ring sends 2 (n-1)/n of a message and takes 2 (n-1) hops
  (Patarasuk and Yuan 2009).
- A pipeline sends hidden state and residual to the next stage (vLLM `IntermediateTensors`); of a TP group each rank
  sends its share.
- Data parallelism sends nothing for a dense model. With experts, vLLM's DP ranks form one group over which experts are
  spread: each MoE layer gathers all tokens and scatters the sums.
- The draft layer runs k times.

Times are sums of a start, hops and bytes at the rates below. They are of the right order and rank layouts; overlap,
custom all-reduce, kernel launches, attention and sampling are not in them.
"""

from fleet.frozen import Frozen
from fleet.layouts.wiring import LINK_CLASSES, LinkClass, Wiring

ELEMENT = 2
"""Bytes of one activation: bf16."""
START_S = 6.6e-6
"""Start of a collective in seconds (NCCL, `baseLat` of ring, LL)."""
HOP_S: dict[LinkClass, float] = {"nvlink": 0.6e-6, "switch": 1.0e-6, "host": 1.0e-6, "socket": 2.0e-6}
"""Seconds a hop (NCCL, `hwLat` of ring, LL: NVLink 0.6, PCI 1.0 us; none for sockets: taken twice as long)."""
RATE: dict[LinkClass, float] = {"nvlink": 200e9, "switch": 20e9, "host": 12e9, "socket": 8e9}
"""Bytes a second one way. NVLink: 10 links of the 20 GB/s that NCCL counts on; PCIe 4.0 x16 through a switch; NCCL's
PCI (12) through the processor; between processors NCCL takes 6 to 16."""


class Load(Frozen):
    """What one GPU of the busiest kind sends over one class of links in a step."""

    link: LinkClass
    operations: int
    bytes: int
    hops: int

    @property
    def seconds(self) -> float:
        """The relative cost, in seconds of a machine on which nothing overlaps."""
        return self.operations * START_S + self.hops * HOP_S[self.link] + self.bytes / RATE[self.link]


class Shape(Frozen):
    """What decides how much is sent: `moe_layers` of `layers` have experts; a draft layer runs `draft_steps` times."""

    layers: int
    hidden_size: int
    moe_layers: int = 0
    draft_steps: int = 0


class Traffic(Frozen):
    """All that a layout sends in one step, by class of links, slow links last."""

    tokens: int
    loads: tuple[Load, ...] = ()

    @property
    def seconds(self) -> float:
        """The relative cost of all of it, one request's way through all stages."""
        return sum(load.seconds for load in self.loads)

    def __str__(self) -> str:
        parts = [f"{load.bytes / 2**20:.2f} MiB in {load.operations} over {load.link}" for load in self.loads]
        return ", ".join(parts) or "nothing"


def _merged(loads: list[Load]) -> tuple[Load, ...]:
    def total(link: LinkClass) -> Load:
        mine = [load for load in loads if load.link == link]
        return Load(
            link=link,
            operations=sum(load.operations for load in mine),
            bytes=sum(load.bytes for load in mine),
            hops=sum(load.hops for load in mine),
        )

    return tuple(total(link) for link in LINK_CLASSES if any(load.link == link for load in loads))


def _ring(link: LinkClass, ranks: int, times: int, message: int) -> Load:
    """`times` all-reduces of `message` bytes in a ring."""
    sent = 2 * (ranks - 1) * message // ranks
    return Load(link=link, operations=times, bytes=times * sent, hops=times * 2 * (ranks - 1))


def traffic(wiring: Wiring, order: tuple[int, ...], sizes: tuple[int, int, int], shape: Shape, tokens: int) -> Traffic:
    """What one step of `tokens` tokens sends. `order`: GPU of each rank; `sizes`: TP, PP, DP.

    Of several groups of a kind the one with the slowest links counts.
    """
    tp, pp, dp = sizes
    groups = [order[at : at + tp] for at in range(0, len(order), tp)]
    message = tokens * shape.hidden_size * ELEMENT
    loads = []
    if tp > 1:
        slowest = max((wiring.slowest(group) or "nvlink" for group in groups), key=LINK_CLASSES.index)
        times = 2 * (shape.layers + shape.draft_steps)
        loads.append(_ring(slowest, tp, times, message))
    for stage in range(1, pp):
        links = [wiring.between(groups[i * pp + stage - 1], groups[i * pp + stage]) for i in range(dp)]
        link = max(links, key=LINK_CLASSES.index)
        loads.append(Load(link=link, operations=1, bytes=2 * message // tp, hops=1))
    if dp > 1 and shape.moe_layers:
        stages = [tuple(gpu for i in range(dp) for gpu in groups[i * pp + stage]) for stage in range(pp)]
        slowest = max((wiring.slowest(gpus) or "nvlink" for gpus in stages), key=LINK_CLASSES.index)
        loads.append(_ring(slowest, tp * dp, shape.moe_layers, message * dp))
    return Traffic(tokens=tokens, loads=_merged(loads))
