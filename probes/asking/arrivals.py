"""When the requests of an open loop are sent: as independent clients would, or evenly."""

import random
from itertools import accumulate

from fleet.proof.speed import Arrivals


def arrivals(count: int, rate: float, kind: Arrivals, seed: int) -> tuple[float, ...]:
    """Moments in seconds, from 0 on, of `count` requests at `rate` a second.

    `poisson`: independent clients, who come in bunches; the gaps are exponential, of mean 1 / rate, and the same for
    the same seed. `even`: one every 1 / rate, which is kinder to the engine than any real load.
    """
    if kind == "even":
        return tuple(number / rate for number in range(count))
    rng = random.Random(seed)
    gaps = (rng.expovariate(rate) for _ in range(count - 1))
    return tuple(accumulate(gaps, initial=0.0)) if count else ()
