"""What each engine version can do, as far as a rollout depends on it.

Source: vLLM's own code, read and run per version; see docs/decide.md. An unlisted version is unknown, never assumed.
"""

import re

from fleet.frozen import Frozen


class Engine(Frozen):
    """Capabilities of one minor version of vLLM."""

    version: str
    speculation_under_pp: bool
    """MTP and other speculation with more than one pipeline stage; only on the V2 model runner."""
    v2_methods: tuple[str, ...]
    """Speculative methods that the V2 model runner is known to take.

    ngram stays out although the check in 0.32's source no longer names it: nobody has shown a run of it.
    """
    numa_bind: bool
    """`--numa-bind` and `--numa-bind-nodes`."""


_V2 = ("mtp", "deepseek_mtp", "eagle", "eagle3", "dflash", "dspark")

ENGINES: dict[str, Engine] = {
    minor: Engine(version=minor, speculation_under_pp=pp, v2_methods=_V2, numa_bind=True)
    for minor, pp in {
        "0.28": False,
        "0.29": False,
        "0.30": True,
        "0.31": True,
        "0.32": True,
        "0.33": True,
    }.items()
}


def engine_of(version: str) -> Engine | None:
    """The engine of a full version such as 0.30.0; None where this project does not know it."""
    match = re.match(r"(\d+\.\d+)(?:[.+-]|$)", version)
    return ENGINES.get(match[1]) if match else None
