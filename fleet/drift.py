"""Drift: what a node, a release or a running process is, against what it should be; and how an audit asks for it.

A check is one function in a file of `fleet/checks/`; `@check` makes it part of the catalogue, no list names it. The
annotation of its parameter decides what it is about: `Case` a service on a node, `NodeView` a node. It yields what it
found; nothing where all is as it should be. A check that lacks a fact raises `Undecidable`: then it is not known, which
is not fine.
"""

import difflib
import importlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeVar, get_type_hints

from fleet.frozen import Frozen
from fleet.known import HANGS, Undecidable, cut_off
from fleet.nodes.node import Installed
from fleet.nodes.running import EngineProcess
from fleet.plan import NodeView, Plan
from fleet.releases.command import unit_name
from fleet.releases.difference import Change
from fleet.releases.release import Release, plan_document
from fleet.verdict import Verdict

Kind = Literal["drift", "unknown"]


class Seen(Frozen):
    """One thing that is not as it should be. `diff`: lines of a unified diff, where there is one."""

    want: str
    got: str
    diff: tuple[str, ...] = ()
    remedy: str | None = None
    """Replaces the check's own where this finding knows better."""


class Drift(Frozen):
    """What one check says of one node, or of one service on it. `unknown`: it could not be told."""

    check: str
    node: str
    service: str | None = None
    kind: Kind = "drift"
    want: str
    got: str
    diff: tuple[str, ...] = ()
    remedy: str = ""

    @property
    def place(self) -> str:
        """`a1/glm`, or `a1`."""
        return f"{self.node}/{self.service}" if self.service else self.node

    def __str__(self) -> str:
        text = f"{self.check}: want {self.want}, found {self.got} on {self.place}"
        return f"{text}; {self.remedy}" if self.remedy else text


class Case(Frozen):
    """One declared service on one node: what was decided, what lies there, what runs."""

    plan: Plan
    release: Release
    """What should be current."""
    change: Change
    digests: dict[str, str] | None = None
    """Name -> sha256(key of this run + value) of each secret; None where this run does not know the values."""

    @property
    def installed(self) -> Installed | None:
        """The service as it lies on the node."""
        return self.plan.installed

    @property
    def unit(self) -> str:
        """The unit's name."""
        return unit_name(self.plan.service.name)

    @property
    def runs(self) -> bool:
        """Is its unit active? What does not run has no process to compare."""
        lies = self.installed
        return lies is not None and lies.unit is not None and lies.unit.active == "active"

    @cached_property
    def document(self) -> dict[str, Any]:
        """plan.json of the current release: the wanted one where that is current, whatever its file on the node says.

        Raises Undecidable where another one is current and its file cannot be read.
        """
        lies = self.installed
        if lies is not None and lies.current == self.release.id:
            return plan_document(self.plan)
        text = next((f.text for f in lies.files if f.path.endswith("/plan.json")), None) if lies else None
        try:
            told = json.loads(text or "")
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise Undecidable("plan.json of the current release", "none that can be read", "deploy it anew")
        return told

    @cached_property
    def engine(self) -> EngineProcess | None:
        """Its engine's main process; None where the unit does not run, or none was found (see the check `process`)."""
        running = self.plan.facts.running if self.plan.facts else None
        return running.of(self.unit) if running is not None and self.runs else None

    @property
    def proof(self) -> dict[str, Any]:
        """proof.json of the current release; empty where there is none that can be read."""
        try:
            told = json.loads((self.installed.proof if self.installed else None) or "{}")
        except ValueError:
            told = {}
        return told if isinstance(told, dict) else {}


Asked = TypeVar("Asked", bound=Callable[..., Iterable[Seen]])


class Check(Frozen):
    """One entry of the catalogue."""

    name: str
    remedy: str
    about: Literal["service", "node"]
    ask: Callable[..., Iterable[Seen]]

    @property
    def summary(self) -> str:
        """First line of its docstring: what is so when it finds nothing."""
        return (inspect.getdoc(self.ask) or "").partition("\n")[0]


_CHECKS: dict[str, Check] = {}
_ABOUT: dict[object, Literal["service", "node"]] = {Case: "service", NodeView: "node"}


def check(name: str, *, remedy: str) -> Callable[[Asked], Asked]:
    """Make a function a check. `{node}` and `{service}` in a remedy are filled in."""

    def enter(ask: Asked) -> Asked:
        first = next(iter(inspect.signature(ask).parameters), "")
        hint = get_type_hints(ask).get(first)
        if hint not in _ABOUT or not ask.__doc__:
            raise TypeError(f"check {name}: want a docstring and a first parameter of Case or NodeView, found {hint}")
        if name in _CHECKS:
            raise ValueError(f"check {name}: want a name of its own, found it twice")
        _CHECKS[name] = Check(name=name, remedy=remedy, about=_ABOUT[hint], ask=ask)
        return ask

    return enter


def checks() -> tuple[Check, ...]:
    """Every check, by file and then by place in its file."""
    importlib.import_module("fleet.checks")  # not at the top: the checks import this module
    return tuple(_CHECKS.values())


def audit(
    cases: Sequence[Case],
    views: Sequence[NodeView],
    verdicts: Iterable[Verdict] = (),
    support: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Drift, ...]:
    """Everything that is not as it should be, by node and service. A gate that fails is drift of its node.

    `support`: node -> paths of our own script and units that are not as this version has them. A node that did not
    answer is `unknown`, and nothing else is said of it.
    """
    found = [_of_verdict(verdict) for verdict in verdicts if verdict.stops]
    found += [_of_support(node, tuple(paths)) for node, paths in (support or {}).items() if paths]
    for one in checks():
        if one.about == "service":
            found += [drift for case in cases for drift in _ask(one, case, case.plan.node.name, case.plan.service.name)]
        else:
            found += [drift for view in views for drift in _ask(one, view, view.node.name, None)]
    return tuple(sorted(found, key=lambda drift: (drift.node, drift.service or "")))


def _of_verdict(verdict: Verdict) -> Drift:
    got = f"{verdict.got} ({verdict.because})" if verdict.because else verdict.got
    return Drift(
        check=verdict.gate,
        node=verdict.node,
        service=verdict.service,
        kind="unknown" if verdict.gate in ("reachable", "facts") or verdict.unknown else "drift",
        want=verdict.want,
        got=got,
        remedy=verdict.remedy,
    )


def _of_support(node: str, paths: tuple[str, ...]) -> Drift:
    remedy = f"pyinfra inventory.py deploy.py -y --limit {node}"
    got = f"another or none: {', '.join(paths)}"
    return Drift(
        check="support", node=node, want="our script and undo units as this version has them", got=got, remedy=remedy
    )


def _ask(one: Check, subject: Case | NodeView, node: str, service: str | None) -> list[Drift]:
    def drift(seen: Seen, kind: Kind) -> Drift:
        hangs = cut_off(seen.got)
        kind, remedy = ("unknown", HANGS) if hangs else (kind, one.remedy if seen.remedy is None else seen.remedy)
        remedy = remedy.replace("{node}", node).replace("{service}", service or "the service")
        said = {"want": seen.want, "got": seen.got, "diff": seen.diff, "remedy": remedy}
        return Drift(check=one.name, node=node, service=service, kind=kind, **said)  # type: ignore[arg-type]

    found: list[Drift] = []
    try:
        found += [drift(seen, "drift") for seen in one.ask(subject)]
    except Undecidable as unknown:
        told = unknown.finding
        found.append(drift(Seen(want=told.want, got=told.got, remedy=told.remedy), "unknown"))
    except Exception as error:  # a check with a mistake in it must be told, not end the audit of every node
        text = (str(error).splitlines() or [""])[0]
        said = Seen(want="an answer", got=f"the check could not decide: {type(error).__name__}: {text}")
        found.append(drift(said, "unknown"))
    return found


def in_order(want: Iterable[str], got: Iterable[str], names: tuple[str, str]) -> tuple[str, ...]:
    """Two argv as a unified diff, a word a line; empty where they are the same."""
    return tuple(difflib.unified_diff(list(want), list(got), *names, lineterm="", n=2))
