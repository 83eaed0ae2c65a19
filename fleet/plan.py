"""The decision for one service on one node: every open setting closed, and why."""

from functools import cached_property

from fleet.architecture import Architecture, ArchitectureError, read_architecture
from fleet.declaration import Evidence, NodeDeclaration, Placement, RolloutPolicy, ServiceDeclaration, Speculative
from fleet.engine import Engine, engine_of
from fleet.frozen import Frozen
from fleet.layout import Layout, LayoutError, resolve
from fleet.node import Installed, ModelFolder, NodeFacts


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
        """Every rank in order; empty where there is no layout."""
        if self.layout is None:
            return ()
        numa = self.node.numa or (self.facts.topology.numa if self.facts and self.facts.topology else ())
        return tuple(
            Rank(
                rank=rank,
                gpu=gpu,
                stage=self.layout.stage_of(rank),
                numa=numa[gpu] if 0 <= gpu < len(numa) else None,
            )
            for rank, gpu in enumerate(self.layout.device_order)
        )


def _architecture(service: ServiceDeclaration, facts: NodeFacts | None) -> tuple[Architecture | None, str | None]:
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
) -> Plan:
    """Close every open setting of one service on one node. Never raises: an open question stays as an error text."""
    node = placement.node
    architecture, architecture_error = _architecture(service, facts)
    engine = engine_of(service.image.engine)
    layout, layout_error = None, None
    try:
        layout = resolve(node, service, architecture, facts.topology if facts else None)
    except LayoutError as error:
        layout_error = str(error)
    tp, pp = (layout.tp, layout.pp) if layout else (1, 1)
    speculative, notes = _speculation(service, architecture, engine, pp)
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
    )
    known = bool(plan.ranks) and all(rank.numa is not None for rank in plan.ranks)
    bind = _switch(service.numa_bind, known and engine is not None and engine.numa_bind)
    return plan.model_copy(update={"numa_bind": bind})


def _switch(setting: bool | str, automatic: bool) -> bool:
    return automatic if isinstance(setting, str) else setting


def _runner(service: ServiceDeclaration, speculative: Speculative | None, pp: int) -> bool | None:
    """Pinned to V2 where speculation runs under PP: left unset, the engine falls back silently to V1, which asserts."""
    if isinstance(service.v2_runner, bool):
        return service.v2_runner
    return True if pp > 1 and speculative is not None and speculative.method != "ngram" else None
