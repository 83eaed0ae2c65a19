"""What each engine version can do, as far as a rollout depends on it: from the catalogs, see docs/engine.md.

A version without a catalog is unknown, never assumed.
"""

import re
from functools import cache

from fleet.engines.catalogs import capabilities_of, order, versions
from fleet.frozen import Frozen

SHOWN_ON_V2 = ("mtp", "deepseek_mtp", "eagle", "eagle3", "dflash", "dspark")
"""Speculative methods of which a run on the V2 model runner was shown.

ngram stays out although the check in the source of 0.32 no longer names it: nobody has shown a run of it.
"""


FIRST_WITHOUT_STRETCH = "0.30"
"""Read in the source of 0.28 to 0.32 (`_get_and_verify_max_len`); 0.33 is taken to be as 0.32."""


class Engine(Frozen):
    """Capabilities of one minor version of vLLM."""

    version: str
    speculation_under_pp: bool
    """MTP and other speculation with more than one pipeline stage; only on the V2 model runner."""
    v2_methods: tuple[str, ...]
    """Speculative methods that the V2 model runner takes, of those that were shown to run on it."""
    numa_bind: bool
    """`--numa-bind` and `--numa-bind-nodes`."""
    stretches_yarn: bool
    """Multiplies a YaRN model's original length by its factor; later versions take the stated length as stretched."""


@cache
def minors() -> tuple[str, ...]:
    """Minor versions that are known, oldest first: 0.28, 0.29, ..."""
    found = {version.rpartition(".")[0] for version in versions()}
    return tuple(sorted(found, key=order))


def engine_of(version: str) -> Engine | None:
    """The engine of a full version such as 0.30.0; None where this project does not know it.

    What a rollout depends on does not change within a minor version; which flags there are may, see `catalog_of`.
    """
    match = re.match(r"(\d+\.\d+)(?:[.+-]|$)", version)
    return _engine(match[1]) if match and match[1] in minors() else None


@cache
def _engine(minor: str) -> Engine:
    can = capabilities_of(minor)
    taken = can["v2_runner_methods"].value
    return Engine(
        version=minor,
        speculation_under_pp=can["speculation_under_pp"].value,
        # The engine turns deepseek_mtp and its like into mtp before it asks.
        v2_methods=tuple(one for one in SHOWN_ON_V2 if one in taken or (one.endswith("_mtp") and "mtp" in taken)),
        numa_bind=can["numa_bind"].value,
        stretches_yarn=order(minor) < order(FIRST_WITHOUT_STRETCH),
    )


def first_with_speculation_under_pp() -> str:
    """The oldest known minor version that speculates under pipeline parallelism."""
    return next(minor for minor in minors() if _engine(minor).speculation_under_pp)
