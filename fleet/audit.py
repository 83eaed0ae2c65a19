"""One audit as a whole: what was looked at, and what is not as it should be."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from fleet.drift import Case, Drift
from fleet.frozen import Frozen
from fleet.nodes.running import MASK
from fleet.plan import NodeView
from fleet.releases.current import Figure, side_by_side
from fleet.verdict import Verdict


class Audit(Frozen):
    """One look at a fleet. `when`: the controller's clock, ISO 8601. `unread`: node -> why it did not answer."""

    fleet: str
    when: str
    views: tuple[NodeView, ...]
    unread: dict[str, str]
    cases: tuple[Case, ...]
    verdicts: tuple[Verdict, ...]
    drifts: tuple[Drift, ...]

    @property
    def exit_code(self) -> int:
        """0 as wanted; 2 on drift; 1 where there is none, but not all could be told."""
        kinds = {drift.kind for drift in self.drifts}
        return 2 if "drift" in kinds else 1 if kinds else 0

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes of the look, in name order."""
        return tuple(sorted({view.node.name for view in self.views} | self.unread.keys()))

    def of(self, node: str, service: str | None = None) -> tuple[Drift, ...]:
        """What is not as it should be on a node, or of one service on it."""
        return tuple(d for d in self.drifts if d.node == node and service in (None, d.service))

    def state(self, node: str) -> str:
        """`clean`, `drift` or `unknown`."""
        kinds = {drift.kind for drift in self.of(node)}
        return "drift" if "drift" in kinds else "unknown" if kinds else "clean"

    @cached_property
    def figures(self) -> dict[str, tuple[Figure, ...]]:
        """Place (`a1/glm`) -> its memory as predicted beside as logged; nothing where either is not known."""
        told = {f"{case.plan.node.name}/{case.plan.service.name}": side_by_side(case.plan) for case in self.cases}
        return {place: found for place, found in told.items() if found}

    @property
    def findings(self) -> tuple[str, ...]:
        """Predictions that were off. No drift: the node is as it should be, and the ledger is not."""
        return tuple(f"{place}: {one.finding}" for place, figures in self.figures.items() for one in figures if one.far)

    def without(self, secrets: Iterable[str]) -> "Audit":
        """The same with these values masked: somebody may have put one where a node prints it."""
        values = sorted((value for value in secrets if len(value) >= 4), key=len, reverse=True)

        def mask(text: str) -> str:
            for value in values:
                text = text.replace(value, MASK)
            return text

        drifts = tuple(
            drift.model_copy(update={"got": mask(drift.got), "diff": tuple(map(mask, drift.diff))})
            for drift in self.drifts
        )
        verdicts = tuple(
            v.model_copy(update={"got": mask(v.got), "because": mask(v.because) if v.because else None})
            for v in self.verdicts
        )
        return self.model_copy(update={"drifts": drifts, "verdicts": verdicts})

    def document(self) -> dict[str, Any]:
        """The audit for machines. No secret is in it, only that one differs."""
        return {
            "format": 1,
            "verb": "audit",
            "fleet": self.fleet,
            "when": self.when,
            "exit": self.exit_code,
            "nodes": [
                {"node": name, "state": self.state(name), "services": self._services(name)} for name in self.nodes
            ],
            "drifts": [drift.model_dump() for drift in self.drifts],
            "verdicts": [verdict.model_dump() for verdict in self.verdicts],
            "findings": list(self.findings),
        }

    def _services(self, node: str) -> list[dict[str, Any]]:
        return [self._service(case) for case in self.cases if case.plan.node.name == node]

    def _service(self, case: Case) -> dict[str, Any]:
        lies, name = case.installed, case.plan.service.name
        unit = lies.unit if lies else None
        return {
            "service": name,
            "layout": str(case.plan.layout),
            "release": lies.current if lies else None,
            "wanted": case.release.id,
            "unit": unit.active if unit else None,
            "restarts": unit.restarts if unit else None,
            "predicted_and_logged": [one.document() for one in self.figures.get(f"{case.plan.node.name}/{name}", ())],
        }
