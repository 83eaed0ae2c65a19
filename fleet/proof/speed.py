"""Figures of a load: percentiles, rates, and the replicas that a load needs. No means: they hide the late."""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, JsonValue

from fleet.frozen import Frozen

SHOWN = (50, 90, 99)
Arrivals = Literal["poisson", "even"]
"""How the requests of an open loop come: as those of independent clients, or one period apart."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: a value that was measured, none between two. Raises ValueError where none is."""
    if not values:
        raise ValueError("want at least one value, found none")
    return sorted(values)[max(0, math.ceil(percent / 100 * len(values)) - 1)]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """`p50`, `p90` and `p99`. Of fewer than 100 values p99 is the largest."""
    return {f"p{percent}": percentile(values, percent) for percent in SHOWN}


ONE_PIECE_S = 0.001
"""Tokens that all came within so many seconds came in one piece: they waited somewhere on a busy machine."""


class Request(Frozen):
    """One answered request. Seconds from its own beginning; `began_s` from that of the level."""

    began_s: float
    first_token_s: float
    seconds: float
    prompt_tokens: int
    completion_tokens: int

    @property
    def in_one_piece(self) -> bool:
        """Did several tokens come in one piece? How long the engine took for each cannot be seen then."""
        return self.completion_tokens > 1 and self.seconds - self.first_token_s < ONE_PIECE_S

    @property
    def per_token_s(self) -> float | None:
        """Time per output token after the first (TPOT); None where there is no second, or all came at once."""
        after = self.completion_tokens - 1
        return (self.seconds - self.first_token_s) / after if after > 0 and not self.in_one_piece else None


class Level(Frozen):
    """What one kind of load showed. `concurrency` of a closed loop, or `rate` (requests a second) of an open one."""

    requests: tuple[Request, ...]
    concurrency: int | None = None
    rate: float | None = None
    arrivals: Arrivals | None = None
    """How the requests of an open loop came."""
    failed: int = 0
    client_busy: float | None = None
    """Share of one core that the asking itself took. Much of it, and the figures are the client's own."""

    @property
    def seconds(self) -> float:
        """From the first request to the last answer."""
        return max(each.began_s + each.seconds for each in self.requests) - min(each.began_s for each in self.requests)

    @property
    def tokens_a_second(self) -> float:
        """Output tokens of all requests together."""
        return sum(each.completion_tokens for each in self.requests) / max(self.seconds, 1e-9)

    @property
    def in_one_piece(self) -> int:
        """Answers of which nothing is known but when they were whole; no TPOT counts them."""
        return sum(each.in_one_piece for each in self.requests)

    @property
    def per_token_s(self) -> list[float]:
        """TPOT of every request that has one."""
        return [each.per_token_s for each in self.requests if each.per_token_s is not None]

    def figures(self) -> dict[str, JsonValue]:
        """For a report: seconds, and tokens and requests a second."""
        per_token = self.per_token_s
        found: dict[str, JsonValue] = {
            "concurrency": self.concurrency,
            "rate": self.rate,
            "arrivals": self.arrivals,
            "requests": len(self.requests),
            "failed": self.failed,
            "in_one_piece": self.in_one_piece,
            "prompt_tokens": sum(each.prompt_tokens for each in self.requests),
            "completion_tokens": sum(each.completion_tokens for each in self.requests),
            "seconds": round(self.seconds, 3),
            "output_tokens_per_s": round(self.tokens_a_second, 2),
            "requests_per_s": round(len(self.requests) / max(self.seconds, 1e-9), 3),
            "ttft_s": _rounded(percentiles([each.first_token_s for each in self.requests])),
            "tpot_s": _rounded(percentiles(per_token)) if per_token else None,
            "e2e_s": _rounded(percentiles([each.seconds for each in self.requests])),
            "client_busy": None if self.client_busy is None else round(self.client_busy, 2),
            "samples": {
                "ttft_s": [round(each.first_token_s, 5) for each in self.requests],
                "tpot_s": [round(value, 5) for value in per_token],
                "e2e_s": [round(each.seconds, 5) for each in self.requests],
            },
        }
        return found


def _rounded(values: dict[str, float]) -> dict[str, JsonValue]:
    return {name: round(value, 5) for name, value in values.items()}


class Measured(Frozen, extra="ignore"):
    """One level of a stored speed run, as `Level.figures` wrote it; only what a capacity is counted from."""

    concurrency: int | None = None
    rate: float | None = None
    requests: int = 0
    failed: int = 0
    in_one_piece: int = 0
    requests_per_s: float
    output_tokens_per_s: float
    ttft_s: dict[str, float]
    tpot_s: dict[str, float] | None = None
    client_busy: float | None = None

    @property
    def name(self) -> str:
        return f"{self.rate:g} requests/s" if self.rate else f"{self.concurrency} at once"


class Objective(Frozen):
    """What the owner promises at P99, and the load. Seconds; requests a second; a share kept free."""

    ttft_s: float | None = Field(default=None, gt=0)
    tpot_s: float | None = Field(default=None, gt=0)
    load: float = Field(gt=0)
    head_room: float = Field(default=0.3, ge=0, lt=1)
    spare: int = Field(default=1, ge=0)
    """Replicas more than the load needs, for one that is rolled or lost."""


class Capacity(Frozen):
    """How many replicas, by which level, and why others do not count."""

    replicas: int | None
    level: str | None
    requests_per_s: float
    """Of one replica within the promise, head room taken off."""
    rejected: tuple[str, ...] = ()


def capacity(levels: Sequence[Measured], wanted: Objective) -> Capacity:
    """Replicas for a load: by the fastest level that keeps the promise at P99, less the head room, and the spare ones.

    A level with failures or with fewer than 100 requests promises nothing at P99; nor does one of which fewer than
    100 answers have a TPOT, where that is promised.
    """
    best: Measured | None = None
    rejected = []
    for level in levels:
        why = _broken(level, wanted)
        if why is not None:
            rejected.append(f"{level.name}: {why}")
        elif best is None or level.requests_per_s > best.requests_per_s:
            best = level
    if best is None or best.requests_per_s <= 0:
        return Capacity(replicas=None, level=None, requests_per_s=0, rejected=tuple(rejected))
    usable = best.requests_per_s * (1 - wanted.head_room)
    replicas = math.ceil(wanted.load / usable - 1e-9) + wanted.spare
    return Capacity(replicas=replicas, level=best.name, requests_per_s=usable, rejected=tuple(rejected))


FEWEST = 100
"""Requests below which the 99th of a hundred was not seen."""


def _broken(level: Measured, wanted: Objective) -> str | None:
    if level.failed:
        return f"{level.failed} requests failed"
    if level.requests < FEWEST:
        return f"want at least {FEWEST} requests for a P99, found {level.requests}"
    if wanted.tpot_s is not None and level.requests - level.in_one_piece < FEWEST:
        return (
            f"want at least {FEWEST} answers with a TPOT, found {level.in_one_piece} of {level.requests} in one piece"
        )
    ttft, tpot = level.ttft_s.get("p99"), (level.tpot_s or {}).get("p99")
    for name, found, limit in (("TTFT", ttft, wanted.ttft_s), ("TPOT", tpot, wanted.tpot_s)):
        if limit is not None and (found is None or found > limit):
            return f"{name} P99 {'unknown' if found is None else f'{found} s'}, want at most {limit:g} s"
    return None
