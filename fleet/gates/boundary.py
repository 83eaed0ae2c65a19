"""May the pipeline of an index-sharing model be cut like this?

Sparse attention in which layers reuse the top-k indices of an earlier layer (DSA with `index_topk_freq`): the buffer
with the indices belongs to one stage and is not sent to the next.
"""

from fleet.declaration import Evidence
from fleet.gate import gate
from fleet.known import Undecidable, architecture_of, layout_of
from fleet.layouts.boundary import Orphans, Partition, nearest_aligned, orphans
from fleet.layouts.evidence import TRIALS, matching_runs, opens
from fleet.layouts.layout import Layout
from fleet.layouts.repair import Repair, Unrepaired, carries_indices, partition_text
from fleet.model.architecture import Architecture
from fleet.plan import Plan
from fleet.verdict import Finding


def _cut(plan: Plan, architecture: Architecture) -> Partition:
    """The partition, where it is one of this model; the gates of the layout say what is wrong with any other."""
    cut = layout_of(plan)
    parts = cut.partition or ()
    if len(parts) != cut.pp or sum(parts) != architecture.layers or min(parts) < 0:
        raise Undecidable(f"a partition of {architecture.layers} layers in {cut.pp} stages", partition_text(parts))
    return parts


def _matching_runs(plan: Plan, partition: Partition) -> list[Evidence]:
    """Stored runs of this model on exactly this engine version and partition."""
    return matching_runs(plan.evidence, plan.service.model, plan.service.image.engine, partition)


def _orphan_text(found: Orphans) -> str:
    layers = ", ".join(map(str, found.layers))
    reuse = f"starts on layer {found.layers[0]}, which reuses the indices of layer {found.source}"
    return f"stage {found.stage} {reuse} (orphaned: {layers})"


@gate(
    "stage-boundary",
    reads="config.json, partition",
    remedy="cut where a layer computes its own indices",
    needs_facts=True,
)
def stage_boundary(plan: Plan) -> Finding | None:
    """Every stage starts on a layer that computes its own sparse-attention indices, by itself or by a repair.

    The plan has the repair in its architecture already. `boundary_repaired` counts at PP 2; beyond it only together
    with the stored run that `pp-evidence` asks for.
    """
    architecture, cut = architecture_of(plan), layout_of(plan)
    if cut.pp == 1 or architecture.index_sharing is None:
        return None
    if carries_indices(plan.service.image.engine, architecture.model_type):
        return None
    parts = _cut(plan, architecture)
    found = orphans(parts, architecture)
    proven = any(map(opens, _matching_runs(plan, parts)))
    if not found or (plan.service.boundary_repaired and (cut.pp == 2 or proven)):
        return None
    return Finding(
        want="every stage to start on a layer that computes its own indices",
        got=f"{partition_text(parts)}: {'; '.join(map(_orphan_text, found))}",
        because=f"not repaired: {'; '.join(plan.boundary.reasons)}" if isinstance(plan.boundary, Unrepaired) else None,
        remedy=_boundary_remedy(cut, nearest_aligned(parts, architecture)),
    )


def _boundary_remedy(cut: Layout, aligned: tuple[Partition, ...]) -> str:
    way = f"use partition {' or '.join(map(partition_text, aligned))}" if aligned else "use fewer stages"
    if cut.pp == 2:
        return f"{way}, or declare boundary_repaired: true if the image makes these layers compute"
    return f"{way}; beyond PP 2 boundary_repaired counts only with the stored run that pp-evidence asks for"


@gate(
    "boundary-repair",
    reads="config.json, boundary.repair",
    severity="warn",
    remedy="nothing, or declare the partition and boundary.repair of {service} as it shall be",
)
def boundary_repair(plan: Plan) -> Finding | None:
    """The partition is run as it was declared. What was repaired instead, and how, is shown as a warning."""
    if not isinstance(plan.boundary, Repair):
        return None
    return Finding(want="stages that need no repair", got=str(plan.boundary), warning=True)


@gate(
    "pp-evidence",
    reads="config.json, partition, evidence",
    severity="fail or warn",
    remedy="use PP 2, or TP without PP, or store that run as evidence (or waive pp-evidence with a reason)",
    needs_facts=True,
)
def pp_evidence(plan: Plan) -> Finding | None:
    """An index-sharing model has at most two stages, or a stored degeneration run of 200 trials with none bad.

    Aligned and repaired boundaries are no exception: operators saw degenerate answers with four stages, cause unknown.
    """
    cut = layout_of(plan)
    if cut.pp <= 2 or not architecture_of(plan).shares_indices:
        return None
    parts = _cut(plan, architecture_of(plan))
    runs = _matching_runs(plan, parts)
    bad = [run for run in runs if run.bad]
    where = f"{plan.service.model}, engine {plan.service.image.engine}, partition {partition_text(parts)}"
    want = f"at most 2 stages, or a stored degeneration run of at least {TRIALS} trials with none bad for {where}"
    if any(map(opens, runs)):
        text = ", ".join(f"{run.bad} of {run.trials} bad" for run in bad)
        return Finding(want=want, got=f"such a run, and others with {text}", warning=True) if bad else None
    stored = ", ".join(f"{run.trials} trials with {run.bad} bad" for run in runs)
    got = f"PP {cut.pp} on an index-sharing model and {stored or 'no run'}"
    seen = "operators saw 20 % of answers degenerate without speculation, 45 % with MTP"
    return Finding(want=want, got=f"{got} ({seen})")
