"""A stage that would start on a layer without indices: what is done about it, in a fixed order, and why not otherwise.

An aligned partition that costs little of the pool; else the engine's own `index_topk_pattern`, which makes the first
layer of such a stage compute; else a source patch that does the same. The last two need indexer weights of that layer.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from fleet.engines.patch import Patch, PatchError, find_patch
from fleet.frozen import Frozen
from fleet.layouts.boundary import Partition, nearest_aligned, orphans
from fleet.model.architecture import Architecture, IndexSharing
from fleet.policy import BoundaryPolicy

PATCH = "index-boundary"
"""The patch that does it, by name: in patches/ of the site or of this project."""
REPAIRABLE = ("glm_moe_dsa", "deepseek_v32")
"""Model types whose classes read `index_topk_pattern` (0.28.0 to 0.33.0) and are what the patch changes.

minimax_m3 has `index_topk_freq` and reads no pattern; hy_v4 reads one only where there are no `indexer_types`.
"""
CARRIES_INDICES: dict[str, tuple[str, ...]] = {}
"""Engine minor version -> model types whose classes send the indices on to the next stage. None up to 0.33 (read)."""

Pool = Callable[[Partition, IndexSharing], int | None]
"""KV tokens of a partition in which these layers compute; None where the ledger cannot tell."""


class Repair(Frozen):
    """What was done to a boundary. `layers`: those that compute because of it, beyond what the checkpoint says."""

    kind: Literal["aligned", "pattern", "patch"]
    asked: Partition
    partition: Partition
    layers: tuple[int, ...] = ()
    pattern: str | None = None
    patch: Patch | None = None
    pool_loss: float | None = None
    """Share of the pool that an aligned partition costs against the one that was asked for, repaired."""
    rejected: tuple[str, ...] = ()
    """What comes before it in the order, and why it was not taken."""

    def __str__(self) -> str:
        layers = f"layer{'s' if len(self.layers) > 1 else ''} {', '.join(map(str, self.layers))}"
        if self.kind == "aligned":
            cost = (
                f", which costs {percent(self.pool_loss)} of the pool" if self.pool_loss else ", at no cost of the pool"
            )
            text = f"{partition_text(self.asked)} was cut as {partition_text(self.partition)} instead{cost}"
        elif self.kind == "pattern":
            text = f"{partition_text(self.partition)} repaired: index_topk_pattern makes {layers} compute"
        else:
            text = f"{partition_text(self.partition)} repaired: the patch {self.patch} makes {layers} compute"
        return f"{text} ({'; '.join(self.rejected)})" if self.rejected else text


class Unrepaired(Frozen):
    """Why nothing could be done, way by way."""

    reasons: tuple[str, ...]


def partition_text(partition: Partition) -> str:
    """`41,37`."""
    return ",".join(map(str, partition))


def percent(share: float | None) -> str:
    """`8.87 %`."""
    return f"{100 * (share or 0):.2f} %"


def carries_indices(engine: str, model_type: str) -> bool:
    """Does this engine send the indices of this model on to the next stage, so that no boundary needs a repair?"""
    return any(engine == minor or engine.startswith(f"{minor}.") for minor in _versions_that_carry(model_type))


def _versions_that_carry(model_type: str) -> tuple[str, ...]:
    return tuple(minor for minor, types in CARRIES_INDICES.items() if model_type in types)


def first_layers(partition: Partition, architecture: Architecture) -> tuple[int, ...]:
    """Layers that must compute beyond what they do, so that no stage starts without indices: one a misaligned stage."""
    return tuple(found.layers[0] for found in orphans(partition, architecture))


def pattern_for(partition: Partition, architecture: Architecture) -> str:
    """`index_topk_pattern` for a partition: F where a layer computes anyway or starts a stage, S where it shares."""
    forced = set(first_layers(partition, architecture))
    sharing = architecture.index_sharing
    return "".join(
        "F" if layer in forced or sharing is None or sharing.computes(layer) else "S"
        for layer in range(architecture.layers)
    )


def repaired_sharing(partition: Partition, architecture: Architecture) -> IndexSharing:
    """Which layers compute once the boundary is repaired, by pattern or by patch: the same ones."""
    sharing = architecture.index_sharing or IndexSharing(freq=1, offset=0)
    return sharing.model_copy(update={"pattern": pattern_for(partition, architecture)})


def repair(
    partition: Partition,
    architecture: Architecture,
    engine: str,
    policy: BoundaryPolicy,
    indexers: frozenset[int] | None,
    patches: Sequence[Patch] = (),
    pool: Pool | None = None,
    no_indexers: str = "the tensor names of the checkpoint were not read",
) -> Repair | Unrepaired | None:
    """The first way of the order that may be gone; None where no stage needs one.

    `engine`: the full version. `indexers`: layers whose indexer weights the checkpoint has, None (with the reason in
    `no_indexers`) where that is not known. `pool`: the ledger's figures, None where there are none.
    """
    sharing = architecture.index_sharing
    if len(partition) < 2 or sharing is None or policy.repair == "none":
        return None
    layers = first_layers(partition, architecture)
    if not layers or carries_indices(engine, architecture.model_type):
        return None
    lacking = _lacking(layers, indexers, no_indexers)
    ways: tuple[tuple[str, Callable[[], Repair | str]], ...] = (
        ("aligned", lambda: _aligned(partition, architecture, policy, pool)),
        ("pattern", lambda: _pattern(partition, architecture, layers, lacking)),
        ("patch", lambda: _patch(partition, architecture, engine, layers, lacking, patches)),
    )
    rejected: list[str] = []
    for name, way in ways:
        if policy.repair not in ("auto", name):
            continue
        answer = way()
        if isinstance(answer, Repair):
            return answer.model_copy(update={"rejected": tuple(rejected)})
        rejected.append(answer)
    return Unrepaired(reasons=tuple(dict.fromkeys(rejected)))


def _aligned(
    partition: Partition, architecture: Architecture, policy: BoundaryPolicy, pool: Pool | None
) -> Repair | str:
    """The aligned partition with the largest pool, of those nearby; or what it would cost."""
    sharing = architecture.index_sharing
    near = nearest_aligned(partition, architecture, most=8)
    if sharing is None or not near:
        return "no aligned partition has that many stages"
    before = pool(partition, repaired_sharing(partition, architecture)) if pool else None
    pools = [(tokens, cut) for cut in near if pool and (tokens := pool(cut, sharing)) is not None]
    if not before or not pools:
        return f"what the aligned {partition_text(near[0])} would cost of the pool is not known"
    tokens, best = max(pools, key=lambda pair: pair[0])
    loss = max(0.0, 1 - tokens / before)
    if loss > policy.max_pool_loss:
        most = f"boundary.max_pool_loss is {percent(policy.max_pool_loss)}"
        return f"the aligned {partition_text(best)} costs {percent(loss)} of the pool, {most}"
    return Repair(kind="aligned", asked=partition, partition=best, pool_loss=loss)


def _lacking(layers: tuple[int, ...], indexers: frozenset[int] | None, no_indexers: str) -> str | None:
    """Why these layers cannot be made to compute, or None: an indexer without weights selects at random."""
    if indexers is None:
        return f"whether the checkpoint has indexer weights of layer {_list(layers)} is not known: {no_indexers}"
    missing = tuple(layer for layer in layers if layer not in indexers)
    return f"the checkpoint has no indexer weights of layer {_list(missing)}" if missing else None


def _list(layers: tuple[int, ...]) -> str:
    return ", ".join(map(str, layers))


def _pattern(
    partition: Partition, architecture: Architecture, layers: tuple[int, ...], lacking: str | None
) -> Repair | str:
    if lacking:
        return lacking
    if architecture.model_type not in REPAIRABLE:
        return f"the engine is not known to obey index_topk_pattern for {architecture.model_type}"
    pattern = pattern_for(partition, architecture)
    return Repair(kind="pattern", asked=partition, partition=partition, layers=layers, pattern=pattern)


def _patch(
    partition: Partition,
    architecture: Architecture,
    engine: str,
    layers: tuple[int, ...],
    lacking: str | None,
    patches: Sequence[Patch],
) -> Repair | str:
    if lacking:
        return lacking
    if architecture.model_type not in REPAIRABLE:
        return f"the patch {PATCH} does not change the classes of {architecture.model_type}"
    try:
        patch = find_patch(PATCH, engine, patches)
    except PatchError as error:
        return str(error)
    return Repair(kind="patch", asked=partition, partition=partition, layers=layers, patch=patch)


def overrides_with(overrides: dict[str, Any], nested: bool, pattern: str) -> dict[str, Any]:
    """`hf_overrides` with the pattern; `nested`: the language model of this config.json stands in `text_config`."""
    if not nested:
        return {**overrides, "index_topk_pattern": pattern}
    inner = overrides.get("text_config")
    return {**overrides, "text_config": {**(inner if isinstance(inner, dict) else {}), "index_topk_pattern": pattern}}
