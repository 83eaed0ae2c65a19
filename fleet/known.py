"""What a gate may take as known. A gate that lacks a fact cannot pass: asking for it here ends it with the reason."""

from typing import Any, TypeVar

from fleet.engines.engine import Engine, minors
from fleet.layouts.layout import Layout
from fleet.model.architecture import Architecture
from fleet.model.checkpoint import Checkpoint
from fleet.nodes.machine import Machine
from fleet.nodes.node import NOT_IN_TIME, NodeFacts
from fleet.nodes.nvidia import Gpu
from fleet.nodes.topology import Topology
from fleet.plan import NodeView, Plan
from fleet.verdict import Finding

T = TypeVar("T")

HANGS = "see what hangs on {node} (nvidia-smi, a mount), then ask again"
"""Helps where a fact is lacking because the node's answer was cut off: nothing else is known to be wrong."""


class Undecidable(Exception):
    """A gate cannot be decided; `finding` says which fact was wanted and what stood in its place."""

    def __init__(self, want: str, got: str, remedy: str | None = None) -> None:
        super().__init__(f"want {want}, found {got}")
        self.finding = Finding(want=want, got=got, remedy=remedy)


def cut_off(got: str) -> bool:
    """Is this found only because a part of the node's answer hung, or came after one that did?"""
    return NOT_IN_TIME in got


def facts_of(subject: NodeView | Plan) -> NodeFacts:
    """What the node told. Raises Undecidable where it was not asked or did not answer."""
    if subject.facts is None:
        raise Undecidable("the node's answer to the probe", "none", "make {node} answer over SSH")
    return subject.facts


def gpus_of(subject: NodeView | Plan) -> tuple[Gpu, ...]:
    """Every GPU that nvidia-smi listed, also one that complains. Raises Undecidable where it lists none of them."""
    nvidia, count = facts_of(subject).nvidia, subject.node.gpus.count
    if not nvidia.gpus and count:
        said = "; ".join(line.strip() for line in (nvidia.error or "an empty list").splitlines() if line.strip())
        raise Undecidable(f"{count} GPUs", f"none ({said})", "see nvidia-smi on {node}")
    return nvidia.gpus


def machine_of(subject: NodeView | Plan) -> Machine:
    """What the machine told. Raises Undecidable where any of it was not understood."""
    machine = facts_of(subject).machine
    if machine.error is not None:
        raise Undecidable("what the machine is", machine.error, "see the section `system` of the probe on {node}")
    return machine


def topology_of(subject: NodeView | Plan, what: str) -> Topology:
    """How the node's GPUs are joined. Raises Undecidable where `nvidia-smi topo -m` cannot be trusted."""
    facts = facts_of(subject)
    if facts.topology is None:
        raise Undecidable(what, facts.topology_error or "no topology", "run nvidia-smi topo -m on {node}")
    return facts.topology


def told(value: T | None, what: str, said: str | None = None) -> T:
    """A fact that was told. Raises Undecidable with what was wanted, and what was said (nothing) in its place."""
    if value is None:
        raise Undecidable(what, said or "nothing")
    return value


def config_of(plan: Plan) -> dict[str, Any]:
    """config.json of the checkpoint. Raises Undecidable with the reason why it was not read."""
    folder = plan.model_folder
    if folder is None or folder.config is None:
        raise Undecidable("config.json", (folder.error if folder else None) or "nothing")
    return folder.config


def checkpoint_of(plan: Plan) -> Checkpoint:
    """The tensors of the checkpoint. Raises Undecidable with the reason why their headers were not read."""
    folder = plan.model_folder
    if folder is None:
        raise Undecidable("the tensors of the checkpoint", "nothing")
    return told(folder.checkpoint, "the tensors of the checkpoint", folder.checkpoint_error)


def architecture_of(plan: Plan) -> Architecture:
    """The model's shape. Raises Undecidable with the reason that reading config.json gave."""
    if plan.architecture is None:
        raise Undecidable(
            "a known model",
            f"model unknown: {plan.architecture_error or 'config.json was not read'}",
            f"see that {plan.service.model}/config.json on {{node}} is whole",
        )
    return plan.architecture


def layout_of(plan: Plan) -> Layout:
    """The layout. Raises Undecidable with the reason why there is none."""
    if plan.layout is None:
        raise Undecidable("a layout", f"none: {plan.layout_error}", "declare layout: tp, pp and dp of {service}")
    return plan.layout


def engine_for(plan: Plan) -> Engine:
    """What the engine version can do. Raises Undecidable for a version that this project does not know."""
    if plan.engine is None:
        raise Undecidable(
            f"a known engine version ({', '.join(minors())})",
            f"{plan.service.image.engine}",
            "use an image of a known version",
        )
    return plan.engine
