"""Attention backends of an engine version: on which GPUs they run and which KV caches they read, from its catalog."""

from functools import cache

from fleet.engines.catalogs import capabilities_of, order, resolved
from fleet.frozen import Frozen

LATENT = ("FLASHINFER_MLA", "TOKENSPEED_MLA", "TRITON_MLA", "CUTLASS_MLA", "FLASHMLA", "FLASH_ATTN_MLA")
SPARSE = (
    "FLASHINFER_MLA_SPARSE",
    "FLASHINFER_MLA_SPARSE_SM90",
    "FLASHINFER_MLA_SPARSE_SM120",
    "FLASHMLA_SPARSE",
    "FLASH_ATTN_MLA_SPARSE",
    "FLASH_ATTN_MLA_SPARSE_FA4",
)
PLAIN = ("FLASH_ATTN", "TRITON_ATTN", "FLASHINFER", "FLEX_ATTENTION", "TURBOQUANT", "HPC_ATTN")
"""Backends for keys and values. The others are for one kind of model each, and choose themselves."""


class Backend(Frozen):
    """One attention backend. `capabilities`: compute capabilities of those that it was asked about and said yes to."""

    name: str
    kv_cache_dtypes: frozenset[str]
    capabilities: tuple[str, ...]

    def runs_on(self, capability: str) -> bool:
        """Does it run on this compute capability? One that nobody asked about counts as the nearest below it.

        Within a major number only: kernels of 10.0 run on 10.3, and none of 9.0 on 10.0.
        """
        return nearest(capability) in self.capabilities

    def reads(self, dtype: str) -> bool:
        """Does it read a cache of this `--kv-cache-dtype`?"""
        return dtype in self.kv_cache_dtypes


ASKED = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")
"""Compute capabilities that the catalogs asked each backend about (`lab/engine/capabilities.py`)."""


def nearest(capability: str) -> str | None:
    """The newest capability of ASKED with the same major number that is not newer; None where there is none."""
    mine = order(capability)
    below = [one for one in ASKED if order(one)[0] == mine[0] and order(one) <= mine]
    return below[-1] if below else None


def backends_of(version: str) -> dict[str, Backend]:
    """Name -> backend, of a version that has a catalog. KeyError for one that has none."""
    found = resolved(version)
    if found is None:
        raise KeyError(version)
    return _backends(found)


@cache
def _backends(version: str) -> dict[str, Backend]:
    stated = capabilities_of(version)["attention_backends"].value
    return {
        name: Backend(
            name=name,
            kv_cache_dtypes=frozenset(one["kv_cache_dtypes"]),
            capabilities=tuple(one["compute_capabilities"]),
        )
        for name, one in stated.items()
    }
