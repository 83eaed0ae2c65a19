"""The decision for one service on one node: every open setting closed, and why."""

from functools import cached_property
from typing import Any

from fleet.declaration import Evidence, NodeDeclaration, Placement, ServiceDeclaration, Speculative
from fleet.engines.engine import Engine, engine_of
from fleet.engines.patch import Patch, PatchError, find_patch
from fleet.frozen import Frozen
from fleet.layouts.layout import Layout, LayoutError, resolve
from fleet.layouts.question import Question, question_of, subject_of
from fleet.layouts.ranking import Choice
from fleet.layouts.repair import Pool, Repair, Unrepaired, overrides_with, repair, repaired_sharing
from fleet.layouts.repair_cost import predicted_pool, when_asked
from fleet.model.architecture import Architecture, ArchitectureError, read_architecture
from fleet.nodes.node import Installed, ModelFolder, NodeFacts
from fleet.policy import RolloutPolicy
from fleet.span import Span, span_of


class NodeView(Frozen):
    """A node as declared and as it is. `facts` is None where it was not asked (previews without contact)."""

    placement: Placement
    facts: NodeFacts | None = None
    rollout: RolloutPolicy = RolloutPolicy()

    @property
    def node(self) -> NodeDeclaration:
        """What the owner declared."""
        return self.placement.node


class Rank(Frozen):
    """One GPU process: where it sits. `numa` is None where the platform does not tell."""

    rank: int
    gpu: int
    stage: int
    numa: int | None


class Plan(Frozen):
    """One service on one node, decided. Gates judge it; `layout` is None where none follows (see `layout_error`)."""

    node: NodeDeclaration
    service: ServiceDeclaration
    facts: NodeFacts | None = None
    architecture: Architecture | None = None
    architecture_error: str | None = None
    engine: Engine | None = None
    layout: Layout | None = None
    layout_error: str | None = None
    speculative: Speculative | None = None
    v2_runner: bool | None = None
    """None: left to the engine."""
    disable_custom_all_reduce: bool = False
    numa_bind: bool = False
    notes: tuple[str, ...] = ()
    """What was decided automatically, and why; shown as warnings where the owner would be surprised."""
    evidence: tuple[Evidence, ...] = ()
    boundary: Repair | Unrepaired | None = None
    """What was done where a stage would start without sparse-attention indices; None where none does, or may."""
    patches: tuple[Patch, ...] = ()
    """Source changes to the engine: those of the service in its order, then the one of the boundary."""
    patches_error: str | None = None
    """Why a patch that the service names is not to be had."""
    span: Span | None = None
    """This node's place in an engine that several run; None: the engine is the node's own."""

    @property
    def serves(self) -> bool:
        """Does the engine answer over HTTP on this node? Only on its head where several run it."""
        return self.span is None or self.span.rank == 0

    @property
    def url(self) -> str:
        """Where the engine answers: on the head where several hosts run it."""
        address = self.node.address if self.span is None or self.serves else self.span.head
        return f"http://{address}:{self.service.port}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that run this engine, the one that serves first."""
        return self.span.nodes if self.span else (self.node.name,)

    @property
    def hf_overrides(self) -> dict[str, Any]:
        """What changes the model's config.json: the owner's, and the pattern that repairs a boundary."""
        done = self.boundary
        if not isinstance(done, Repair) or done.pattern is None:
            return self.service.hf_overrides
        config = self.model_folder.config if self.model_folder else None
        return overrides_with(self.service.hf_overrides, "text_config" in (config or {}), done.pattern)

    @property
    def model_folder(self) -> ModelFolder | None:
        """What the node told of the checkpoint folder."""
        if self.facts is None:
            return None
        return next((m for m in self.facts.models if m.path == self.service.model), None)

    @property
    def installed(self) -> Installed | None:
        """This service as it lies on the node now."""
        return self.facts.installed(self.service.name) if self.facts else None

    @cached_property
    def ranks(self) -> tuple[Rank, ...]:
        """Every rank on this node in order; empty where there is no layout."""
        if self.layout is None:
            return ()
        first = self.span.rank * self.layout.ranks if self.span else 0
        numa = self.node.numa or (self.facts.topology.numa if self.facts and self.facts.topology else ())
        return tuple(
            Rank(
                rank=rank,
                gpu=gpu,
                stage=self.layout.stage_of(rank),
                numa=numa[gpu] if 0 <= gpu < len(numa) else None,
            )
            for rank, gpu in enumerate(self.layout.device_order, start=first)
        )


def architecture_on(service: ServiceDeclaration, facts: NodeFacts | None) -> tuple[Architecture | None, str | None]:
    """The model's shape as the node's config.json tells it, or why it is not known."""
    if facts is None:
        return None, "the node was not asked"
    folder = next((m for m in facts.models if m.path == service.model), None)
    if folder is None or folder.config is None:
        return None, (folder.error if folder else None) or f"{service.model}/config.json was not read"
    try:
        return read_architecture(folder.config, service.hf_overrides), None
    except ArchitectureError as error:
        return None, str(error)


def _speculation(
    service: ServiceDeclaration, architecture: Architecture | None, engine: Engine | None, pp: int
) -> tuple[Speculative | None, list[str]]:
    """The speculative method. Only `auto` may fall back; what was asked for by name is the gates' to judge."""
    if isinstance(service.speculative, Speculative):
        return service.speculative, []
    if service.speculative == "none" or architecture is None or not architecture.mtp_layers:
        return None, []
    if pp > 1 and not (engine and engine.speculation_under_pp):
        version = service.image.engine
        return None, [f"speculative auto -> none: engine {version} has no MTP under pipeline parallelism"]
    return Speculative(method="mtp"), []


def only_pairs(node: NodeDeclaration) -> bool:
    """Is NVLink there in pairs only? Then custom all-reduce breaks graph capture at TP 2 (seen on 8 x A100)."""
    return bool(node.nvlink_islands) and all(len(island) == 2 for island in node.nvlink_islands)


def decide(
    placement: Placement,
    service: ServiceDeclaration,
    facts: NodeFacts | None,
    evidence: tuple[Evidence, ...] = (),
    patches: tuple[Patch, ...] = (),
    pool: Pool | None = None,
) -> Plan:
    """Close every open setting of one service on one node. Never raises: an open question stays as an error text.

    `patches`: all that there are. `pool`: figures for what an aligned partition would cost, in place of the ledger's.
    """
    node = placement.node
    architecture, architecture_error = architecture_on(service, facts)
    engine = engine_of(service.image.engine)
    layout, layout_error = None, None
    topology = facts.topology if facts else None
    choice = search(node, service, facts, architecture, evidence) if service.layout == "auto" else None
    try:
        layout = resolve(node, service, architecture, topology, choice, architecture_error)
    except LayoutError as error:
        layout_error = str(error)
    pool = pool or when_asked(
        lambda: predicted_pool(question(node, service, facts, architecture, evidence), layout),
    )
    boundary = _boundary(service, architecture, layout, facts, patches, pool)
    if isinstance(boundary, Repair) and layout is not None and architecture is not None:
        layout, architecture = _repaired(boundary, layout, architecture)
    used, patches_error = _patches(service, boundary, patches)
    tp, pp = (layout.tp, layout.pp) if layout else (1, 1)
    speculative, notes = _speculation(service, architecture, engine, pp)
    notes += choice.notes if choice else ()
    plan = Plan(
        node=node,
        service=service,
        facts=facts,
        architecture=architecture,
        architecture_error=architecture_error,
        engine=engine,
        layout=layout,
        layout_error=layout_error,
        speculative=speculative,
        v2_runner=_runner(service, speculative, pp),
        disable_custom_all_reduce=_switch(service.disable_custom_all_reduce, tp == 2 and only_pairs(node)),
        notes=tuple(notes),
        evidence=evidence,
        boundary=boundary,
        patches=used,
        patches_error=patches_error,
        span=span_of(placement, service, facts.peers if facts else None),
    )
    known = bool(plan.ranks) and all(rank.numa is not None for rank in plan.ranks)
    bind = _switch(service.numa_bind, known and engine is not None and engine.numa_bind)
    return plan.model_copy(update={"numa_bind": bind})


def question(
    node: NodeDeclaration,
    service: ServiceDeclaration,
    facts: NodeFacts | None,
    architecture: Architecture | None,
    evidence: tuple[Evidence, ...],
) -> Question | None:
    """What a search for this service's layout asks; None where the model is unknown."""
    folder = next((m for m in facts.models if m.path == service.model), None) if facts else None
    if facts is None or architecture is None or folder is None or folder.config is None:
        return None
    indexers = frozenset(folder.indexer_layers or ())
    subject = subject_of(folder.config, service.hf_overrides, folder.checkpoint)
    return question_of(node, service, architecture, subject, evidence, facts.topology, facts.nvidia, indexers)


def search(
    node: NodeDeclaration,
    service: ServiceDeclaration,
    facts: NodeFacts | None,
    architecture: Architecture | None,
    evidence: tuple[Evidence, ...] = (),
) -> Choice | None:
    """All layouts of this service on this node, judged; None where the model is unknown."""
    asked = question(node, service, facts, architecture, evidence)
    return asked.choice() if asked else None


def _boundary(
    service: ServiceDeclaration,
    architecture: Architecture | None,
    layout: Layout | None,
    facts: NodeFacts | None,
    patches: tuple[Patch, ...],
    pool: Pool | None,
) -> Repair | Unrepaired | None:
    """What is to be done at the boundaries. Not where the owner says that the image does it, nor in a wrong cut."""
    parts = layout.partition if layout else None
    if service.boundary_repaired or architecture is None or layout is None or parts is None:
        return None
    if len(parts) != layout.pp or sum(parts) != architecture.layers or min(parts) < 0:
        return None
    folder = next((m for m in facts.models if m.path == service.model), None) if facts else None
    indexers = folder.indexer_layers if folder else None
    return repair(
        parts,
        architecture,
        service.image.engine,
        service.boundary,
        None if indexers is None else frozenset(indexers),
        patches,
        pool,
        (folder.tensors_error if folder else None) or "the tensor names were not read",
    )


def _repaired(done: Repair, layout: Layout, architecture: Architecture) -> tuple[Layout, Architecture]:
    """Layout and architecture as the engine will run them."""
    if done.kind == "aligned":
        cut = {"partition": done.partition, "declared_partition": done.partition}
        return layout.model_copy(update=cut), architecture
    sharing = repaired_sharing(done.partition, architecture)
    return layout, architecture.model_copy(update={"index_sharing": sharing})


def _patches(
    service: ServiceDeclaration, boundary: Repair | Unrepaired | None, catalogue: tuple[Patch, ...]
) -> tuple[tuple[Patch, ...], str | None]:
    found: list[Patch] = []
    try:
        for name in dict.fromkeys(service.patches):
            found.append(find_patch(name, service.image.engine, catalogue))
    except PatchError as error:
        return tuple(found), str(error)
    own = boundary.patch if isinstance(boundary, Repair) else None
    return (*found, *([own] if own is not None and own not in found else [])), None


def _switch(setting: bool | str, automatic: bool) -> bool:
    return automatic if isinstance(setting, str) else setting


def _runner(service: ServiceDeclaration, speculative: Speculative | None, pp: int) -> bool | None:
    """Pinned to V2 where speculation runs under PP: left unset, the engine falls back silently to V1, which asserts."""
    if isinstance(service.v2_runner, bool):
        return service.v2_runner
    return True if pp > 1 and speculative is not None and speculative.method != "ngram" else None
