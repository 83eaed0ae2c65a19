"""What `fleet plan` and `fleet compare` are asked about: a declared service, or a config.json and a node, offline."""

import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cli.machine import fail
from fleet.layouts.boundary import Partition, even_partition
from fleet.layouts.sizes import Sizes

HOLDER = "candidate"
"""Name of the service where only a config.json is known."""


@dataclass(frozen=True)
class Asked:
    """One question, and what the service itself has decided."""

    service: str
    node: str
    question: Any
    declared: tuple[Sizes, Partition | None] | None = None
    order: tuple[int, ...] | None = None
    flags: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    gates: tuple[str, ...] = ()
    """What gates say against it, where the node was asked."""
    running: str | None = None
    """The layout that runs there now."""
    figures: tuple[Any, ...] = ()
    """Of what runs: predicted beside logged."""


@dataclass(frozen=True)
class Offline:
    """The settings of a service that nobody has declared yet."""

    config: Path
    node: Path
    settings: dict[str, Any] = field(default_factory=dict)
    checkpoint: Path | None = None


def offline(given: Offline) -> Asked:
    """A config.json on a node of a YAML file. Exits 1 with the file and the field where one of them is wrong."""
    from declare.nodes import read_node
    from declare.problem import DeclarationError
    from fleet.engines.engine import minors

    document = read_config(given.config)
    try:
        node = read_node(given.node)
    except DeclarationError as error:
        fail(str(error))
    version = given.settings.pop("engine", None) or f"{minors()[-1]}.0"
    settings = {name: value for name, value in given.settings.items() if value is not None}
    if "max_model_len" not in settings:
        settings["max_model_len"] = _longest(document, given.config)
    image = {"name": "offline", "digest": f"sha256:{'0' * 64}", "engine": version}
    service = _service({"name": HOLDER, "model": f"/{HOLDER}", "image": image, **settings})
    return _asked(node, service, document, str(given.config), checkpoint=_checkpoint(given.checkpoint))


def _checkpoint(folder: Path | None) -> Any:
    from facts.checkpoint import read_checkpoint
    from fleet.model.shape import ModelError

    try:
        return read_checkpoint(folder) if folder is not None else None
    except ModelError as error:
        fail(str(error))


def read_config(path: Path) -> dict[str, Any]:
    """A parsed config.json; exits 1 with the reason."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    except (ValueError, RecursionError) as error:
        fail(f"{path}: want JSON, found {error}")
    if not isinstance(document, dict):
        fail(f"{path}: want an object, found {str(document)[:60]!r}")
    return document


def _longest(document: dict[str, Any], path: Path) -> int:
    from fleet.model.architecture import ArchitectureError, read_architecture

    try:
        found = read_architecture(document).max_positions
    except ArchitectureError as error:
        fail(f"{path}: {str(error).removeprefix('config.json: ')}")
    if found is None:
        fail(f"{path}: states no longest context: say --max-model-len")
    return found


def _service(settings: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    from fleet.declaration import ServiceDeclaration

    try:
        return ServiceDeclaration.model_validate(settings)
    except ValidationError as error:
        lines = []
        for one in error.errors():
            name = str(next((part for part in one["loc"] if isinstance(part, str)), ""))
            value = settings.get(name, one.get("input"))
            text = one["msg"].removeprefix("Value error, ")
            lines.append(f"--{name.replace('_', '-')}: {text} (found {value!r:.60})" if name else text)
        fail("\n".join(dict.fromkeys(lines)))


def _asked(
    node: Any,
    service: Any,
    document: dict[str, Any],
    where: str,
    evidence: tuple[Any, ...] = (),
    checkpoint: Any = None,
) -> Asked:
    """The question of a service, from its config.json alone: no node is contacted."""
    from fleet.layouts.question import question_of, subject_of
    from fleet.model.architecture import ArchitectureError, read_architecture

    try:
        architecture = read_architecture(document, service.hf_overrides)
    except ArchitectureError as error:
        fail(f"{where}: {str(error).removeprefix('config.json: ')}")
    subject = subject_of(document, service.hf_overrides, checkpoint)
    question = question_of(node, service, architecture, subject, evidence)
    return Asked(node=node.name, question=question, **_own(service))


def _own(service: Any) -> dict[str, Any]:
    layout = service.layout
    declared = None if layout == "auto" else (Sizes(tp=layout.tp, pp=layout.pp, dp=layout.dp), layout.partition)
    return {
        "service": service.name,
        "declared": declared,
        "order": None if layout == "auto" else layout.device_order,
        "flags": frozenset(service.flags),
        "env": frozenset(service.env),
    }


def of_service(invocation: Any, service: str, node: str | None, config: Path | None) -> list[Asked]:
    """A declared service on its nodes. With `config` no node is asked; else one probe a node, as a rollout does."""
    if config is not None:
        return _declared_offline(invocation, service, node, read_config(config), str(config))
    from cli.session import connected, placed
    from fleet.layouts.capacity import question_about
    from fleet.releases.current import current_plan, measured_cut, side_by_side

    nodes = placed(invocation.fleet, service, node)
    with connected(invocation, nodes) as session:
        found = session.survey()
    if found.unread:
        fail("; ".join(f"{name}: {reason}" for name, reason in found.unread.items()))
    asked = []
    for plan in (one for one in found.plans if one.service.name == service):
        question = question_about(plan)
        if question is None:
            fail(f"{plan.node.name}/{service}: the model is unknown: {plan.architecture_error}")
        question = question.model_copy(update={"measured": measured_cut(plan)})
        now = current_plan(plan)
        about = [v for v in found.verdicts if v.stops and v.node == plan.node.name and v.service in (None, service)]
        asked.append(
            Asked(
                node=plan.node.name,
                question=question,
                gates=tuple(map(str, about)),
                running=f"{now.layout} {now.layout.partition_text}".removesuffix(" -") if now and now.layout else None,
                figures=side_by_side(plan),
                **_own(plan.service),
            )
        )
    return asked


def _declared_offline(
    invocation: Any, service: str, node: str | None, document: dict[str, Any], where: str
) -> list[Asked]:
    placements = [p for p in invocation.fleet.placements if node in (None, p.node.name)]
    pairs = [(p.node, s) for p in placements for s in p.services if s.name == service]
    if not pairs:
        known = sorted({s.name for p in invocation.fleet.placements for s in p.services})
        fail(f"service {service}: want one of {', '.join(known)} on {node or 'a node'}, found none")
    evidence = invocation.fleet.evidence
    return [_asked(declared, wanted, document, where, evidence) for declared, wanted in pairs]


def measured_as(asked: Asked, layout: str | None, file: Path | None) -> Asked:
    """The question with what an engine logged on the sizes of this layout; exits 1 where the file does not fit them."""
    if file is None:
        return asked
    from cli.pool_flags import measurement_of
    from fleet.layouts.question import MeasuredCut
    from fleet.ledger.budget import BudgetError

    sizes, cut = (None, None) if layout is None else layout_named(layout, asked)
    if sizes is None:
        fail("--measured: want --layout beside it, such as tp4/pp2: the sizes that were measured")
    layers = asked.question.case.model.layers
    try:
        found = measurement_of(file, cut or even_partition(layers, min(sizes.pp, layers)))
    except BudgetError as error:
        fail(f"--measured: {error}")
    question = asked.question.model_copy(update={"measured": MeasuredCut(sizes=sizes, budget=found)})
    return replace(asked, question=question)


_PART = re.compile(r"(tp|pp|dp)(\d{1,4})|(\d{1,5}(?:,\d{1,5})*|even)", re.IGNORECASE)


def layout_named(name: str, asked: Asked) -> tuple[Sizes, Partition | None]:
    """`auto`, `declared`, or sizes and a partition such as tp4/pp2/41,37 in any order; what is left out is 1.

    Without a partition the best one that the rules allow; `even` is the engine's own split. Exits 1 for anything else.
    """
    if name == "auto":
        best = asked.question.choice().best
        if best is None:
            fail(f"auto: no layout can be: {asked.question.choice().why_none}")
        return best.sizes, best.partition
    if name == "declared":
        if asked.declared is None:
            fail(f"declared: {asked.service} declares layout: auto")
        return asked.declared
    found: dict[str, int] = {}
    partition: Partition | str | None = None
    for part in name.split("/"):
        match = _PART.fullmatch(part.strip())
        if match is None or (match[1] and match[1].lower() in found) or (match[3] and partition is not None):
            fail(f"layout: want auto, declared, or one such as tp4/pp2/41,37, found {name!r}")
        if match[1]:
            found[match[1].lower()] = int(match[2])
        else:
            partition = match[3].lower() if match[3].lower() == "even" else tuple(map(int, match[3].split(",")))
    if 0 in found.values():
        fail(f"layout {name}: want sizes of at least 1")
    sizes = Sizes(**{"tp": 1, **found})
    return sizes, _partition(asked, sizes, partition)


def _partition(asked: Asked, sizes: Sizes, partition: Partition | str | None) -> Partition | None:
    if sizes.pp == 1 or isinstance(partition, tuple):
        return partition if isinstance(partition, tuple) else None
    layers = asked.question.case.model.layers
    if partition is None and sizes.pp <= layers:
        from fleet.layouts.search import best_cut

        memory = asked.question.memory()
        return best_cut(asked.question.case, None if isinstance(memory, str) else memory, sizes)
    return even_partition(layers, sizes.pp) if sizes.pp <= layers else None
