"""What a gate is, and how all of them are asked.

A gate is one function in a file of `fleet/gates/`; `@gate` makes it part of the catalogue, no list names it. The
annotation of its parameter decides what it is about: `NodeView` a node, `Plan` one service on a node, `FleetView` all.
It returns None (pass), a Finding, or a list of Findings. Unknown is not fine: a gate that lacks a fact raises
`Undecidable` (through `fleet.known`) and thereby fails.
"""

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar, get_type_hints

from fleet.declaration import Waiver
from fleet.frozen import Frozen
from fleet.known import HANGS, Undecidable, cut_off
from fleet.plan import NodeView, Plan
from fleet.verdict import Finding, Status, Verdict

EVERYWHERE = "all nodes"
"""The place of a verdict about the fleet; no node can have this name."""


class FleetView(Frozen):
    """All nodes and all plans of a run. `changing`: (node, service) pairs that the run would restart or remove.

    `placed`: (node, service) pairs of the whole fleet as declared, also of nodes that the run is not about; an engine
    over several hosts is placed on its head.
    """

    views: tuple[NodeView, ...] = ()
    plans: tuple[Plan, ...] = ()
    changing: frozenset[tuple[str, str]] = frozenset()
    placed: frozenset[tuple[str, str]] = frozenset()


class PlacedFinding(Finding):
    """What a gate about the fleet found, and where."""

    node: str
    service: str | None = None


Subject = Literal["node", "service", "fleet"]
Severity = Literal["fail", "warn", "fail or warn"]
_SUBJECTS: dict[object, Subject] = {NodeView: "node", Plan: "service", FleetView: "fleet"}

Answer = Finding | Sequence[Finding] | None
Judge = TypeVar("Judge", bound=Callable[..., Answer])


class Gate(Frozen):
    """One entry of the catalogue. `needs_facts`: it cannot be asked in a preview that contacts no node."""

    name: str
    remedy: str
    reads: str
    """What it judges by, in an operator's words: a command, a file, a field of the declaration."""
    severity: Severity
    """What its findings are. A fact that it lacks is a failure all the same."""
    needs_facts: bool
    deep: bool
    """It needs what only a deep look reads (`gates.py`, an audit): a rollout leaves it out, and says so."""
    subject: Subject
    judge: Callable[..., Answer]

    @property
    def summary(self) -> str:
        """First line of its docstring: what is so when it passes."""
        return (inspect.getdoc(self.judge) or "").partition("\n")[0]


_CATALOGUE: dict[str, Gate] = {}


def gate(
    name: str,
    *,
    remedy: str,
    reads: str = "",
    severity: Severity = "fail",
    needs_facts: bool = False,
    deep: bool = False,
) -> Callable[[Judge], Judge]:
    """Make a function a gate. `{node}` and `{service}` in a remedy are filled in.

    TypeError where its parameter is annotated as none of the subjects or it has no docstring, ValueError where the name
    is taken.
    """

    def enter(judge: Judge) -> Judge:
        first = next(iter(inspect.signature(judge).parameters), "")
        hint = get_type_hints(judge).get(first)
        if hint not in _SUBJECTS:
            raise TypeError(f"gate {name}: want a first parameter of NodeView, Plan or FleetView, found {hint}")
        if not judge.__doc__:
            raise TypeError(f"gate {name}: want a docstring, found none")
        if name in _CATALOGUE:
            raise ValueError(f"gate {name}: want a name of its own, found it twice")
        _CATALOGUE[name] = Gate(
            name=name,
            remedy=remedy,
            reads=reads,
            severity=severity,
            needs_facts=needs_facts or deep,
            deep=deep,
            subject=_SUBJECTS[hint],
            judge=judge,
        )
        return judge

    return enter


def catalogue() -> tuple[Gate, ...]:
    """Every gate, by file and then by place in its file."""
    importlib.import_module("fleet.gates")  # not at the top: the gates import this module
    return tuple(_CATALOGUE.values())


def evaluate(fleet: FleetView, waivers: tuple[Waiver, ...] = (), *, contact: bool = True) -> tuple[Verdict, ...]:
    """Ask every gate about every node and service; by node, then service, then place in the catalogue.

    A node that did not answer (`facts` is None) fails as `facts`, and the gates that need its facts are not asked about
    it. With `contact=False` nobody was to be asked: those gates are left out, and a warning named `contact` lists them.
    Gates that need a deep look are left out where nobody took one: `not_asked` names them.
    """
    later = not_asked(fleet) if contact else ()
    asked = tuple(one for one in catalogue() if (contact or not one.needs_facts) and one.name not in later)
    raw = [verdict for one in asked for verdict in _verdicts(one, fleet)]
    judged = [_waived(verdict, waivers) for verdict in raw]
    judged += _silent(fleet) if contact else [_left_out(one.name for one in catalogue() if one.needs_facts)]
    judged += _unknown_gates(waivers)
    judged += _idle(waivers, raw, fleet, {one.name for one in asked})
    order = {one.name: place for place, one in enumerate(catalogue())}
    return tuple(sorted(judged, key=lambda v: (v.node == EVERYWHERE, v.node, v.service or "", order.get(v.gate, -1))))


def not_asked(fleet: FleetView) -> tuple[str, ...]:
    """Gates that need a deep look at the nodes, where this was none. Nothing is said of them: neither pass nor fail."""
    shallow = any(view.facts is not None and not view.facts.deep for view in fleet.views)
    return tuple(one.name for one in catalogue() if one.deep) if shallow else ()


def _verdicts(one: Gate, fleet: FleetView) -> list[Verdict]:
    if one.subject == "fleet":
        return _of(one, fleet, EVERYWHERE, None)
    found: list[Verdict] = []
    subjects: tuple[NodeView | Plan, ...] = fleet.plans if one.subject == "service" else fleet.views
    for subject in subjects:
        if one.needs_facts and subject.facts is None:
            continue
        service = subject.service.name if isinstance(subject, Plan) else None
        found += _of(one, subject, subject.node.name, service)
    return found


def _of(one: Gate, subject: NodeView | Plan | FleetView, node: str, service: str | None) -> list[Verdict]:
    findings = _ask(one, subject)
    if not findings:
        return [Verdict(gate=one.name, node=node, service=service, status="pass")]
    return [_verdict(one, finding, node, service) for finding in findings]


def _ask(one: Gate, subject: NodeView | Plan | FleetView) -> Sequence[Finding]:
    try:
        answer = one.judge(subject)
        return [answer] if isinstance(answer, Finding) else [] if answer is None else list(answer)
    except Undecidable as unknown:
        return [unknown.finding.model_copy(update={"unknown": True})]
    except Exception as error:  # a gate with a mistake in it must fail, not end the run of every host
        text = (str(error).splitlines() or [""])[0]
        return [
            Finding(want="an answer", got=f"the gate could not decide: {type(error).__name__}: {text}", unknown=True)
        ]


def _verdict(one: Gate, finding: Finding, node: str, service: str | None) -> Verdict:
    if isinstance(finding, PlacedFinding):
        node, service = finding.node, finding.service
    status: Status = "warn" if finding.warning else "fail"
    hangs = cut_off(finding.got)
    remedy = HANGS if hangs else one.remedy if finding.remedy is None else finding.remedy
    remedy = remedy.replace("{node}", node).replace("{service}", service or "the service")
    return Verdict(
        gate=one.name,
        node=node,
        service=service,
        status=status,
        want=finding.want,
        got=finding.got,
        because=finding.because,
        remedy=remedy,
        unknown=finding.unknown or hangs,
    )


def _matches(waiver: Waiver, verdict: Verdict) -> bool:
    return (
        verdict.status == "fail"
        and waiver.gate == verdict.gate
        and (not waiver.nodes or verdict.node in waiver.nodes)
        and (not waiver.services or verdict.service in waiver.services)
    )


def _waived(verdict: Verdict, waivers: tuple[Waiver, ...]) -> Verdict:
    waiver = next((w for w in waivers if _matches(w, verdict)), None)
    return verdict.model_copy(update={"status": "waived", "reason": waiver.reason}) if waiver else verdict


def _unknown_gates(waivers: tuple[Waiver, ...]) -> list[Verdict]:
    """A waiver with a typing mistake must not be silent."""
    found = []
    known = [one.name for one in catalogue()]
    for name in (waiver.gate for waiver in waivers if waiver.gate not in known):
        near = difflib.get_close_matches(name, known, n=1)
        remedy = f"write {near[0]}" if near else "name a gate that `fleet gates` lists"
        found.append(_about_waivers("fail", "waivers of gates that there are", name, remedy))
    return found


def _idle(waivers: tuple[Waiver, ...], raw: list[Verdict], fleet: FleetView, asked: set[str]) -> list[Verdict]:
    """Waivers that match no failure, of those whose gate, nodes and services are part of this run."""
    nodes = {view.node.name for view in fleet.views} | {plan.node.name for plan in fleet.plans}
    services = {plan.service.name for plan in fleet.plans}
    here = [
        waiver
        for waiver in waivers
        if waiver.gate in asked
        and (not waiver.nodes or nodes & set(waiver.nodes))
        and (not waiver.services or services & set(waiver.services))
    ]
    return [
        _about_waivers("warn", "waivers that are needed", f"{waiver.gate}, which fails nowhere it names", "remove it")
        for waiver in here
        if not any(_matches(waiver, verdict) for verdict in raw)
    ]


def _about_waivers(status: Status, want: str, got: str, remedy: str) -> Verdict:
    return Verdict(gate="waiver", node=EVERYWHERE, status=status, want=want, got=got, remedy=remedy)


def _silent(fleet: FleetView) -> list[Verdict]:
    """Nodes that did not answer. Not a gate: nothing about them is known, so there is nothing that could be waived."""
    subjects: tuple[NodeView | Plan, ...] = (*fleet.views, *fleet.plans)
    names = sorted({subject.node.name for subject in subjects if subject.facts is None})
    want, remedy = "the node's answer to the probe", "make {node} answer over SSH, or leave it out with --limit"
    return [
        Verdict(gate="facts", node=name, status="fail", want=want, got="none", remedy=remedy.replace("{node}", name))
        for name in names
    ]


def _left_out(names: Iterable[str]) -> Verdict:
    got = f"no contact; not asked: {', '.join(names)}"
    return Verdict(gate="contact", node=EVERYWHERE, status="warn", want="every gate asked", got=got)
