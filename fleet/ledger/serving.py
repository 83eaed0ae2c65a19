"""How a model is served, as far as memory depends on it."""

import re
from functools import cached_property
from typing import Literal

from fleet.frozen import Frozen

Repair = Literal["none", "first", "all"]
"""Which orphaned layers of a stage compute their own indices: none, the first of them, or each."""


class Draft(Frozen):
    """Speculative decoding by layers of the checkpoint (MTP) or a draft model: `k` tokens a step."""

    method: str
    k: int = 3

    @property
    def mtp(self) -> bool:
        """Does it use the checkpoint's own MTP layers?"""
        return self.method.endswith("mtp")


class Serving(Frozen):
    """The flags of the engine that decide its memory. Tokens and counts."""

    engine: str
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dcp: int = 1
    expert_parallel: bool = False
    kv_cache_dtype: str = "auto"
    draft: Draft | None = None
    max_model_len: int
    block_size: int | None = None
    """None: what the engine takes by itself, 64 with MLA, 16 else; more for models with states."""
    max_num_batched_tokens: int = 8192
    prefix_caching: bool = True
    repair: Repair = "all"

    @cached_property
    def version(self) -> tuple[int, int, int]:
        """(0, 30, 0); what stands behind the third number (rc, dev) is left out."""
        major, minor, patch, *_ = [*map(int, re.findall(r"\d+", self.engine)), 0, 0, 0]
        return major, minor, patch

    @property
    def prints_by_groups(self) -> bool:
        """Up to 0.20.0 the printed pool is blocks // groups x block size, later concurrency x length (from logs)."""
        return self.version <= (0, 20, 0)

    @property
    def graphs_in_peak(self) -> bool:
        """Does the activation peak hold the estimate for CUDA graphs? From 0.21 (vLLM `determine_available_memory`)."""
        return self.version >= (0, 21, 0)

    @property
    def in_flight(self) -> int:
        """Tokens scheduled and not yet settled, which sliding windows keep (vLLM `max_in_flight_tokens`)."""
        batches = self.pp + 1 if self.version >= FIRST_IN_FLIGHT else 1
        return self.max_num_batched_tokens * batches


HELD_BACK_SINCE = (0, 29, 0)
"""From here on the engine's check at start leaves one block out (`get_kv_cache_configs`)."""
LATENT_STEP_SINCE = (0, 28, 0)
"""Oldest version whose source was read to grow blocks of MLA beside states in steps of 128; one log before shows 64."""
FIRST_IN_FLIGHT = (0, 28, 0)
"""Oldest version whose source was read to multiply by the batches at a time (V2 runner, asynchronous scheduling)."""
