"""Everything that is known before the first change: facts, plans, releases, differences, verdicts."""

import secrets as random
from dataclasses import dataclass, field, replace
from functools import cached_property

from facts.gather import Answer
from fleet.declaration import Fleet, Placement
from fleet.delivery.delivery import record_key
from fleet.gate import EVERYWHERE, FleetView, evaluate, not_asked
from fleet.nodes.node import Installed, NodeFacts
from fleet.nodes.nvidia import Nvidia
from fleet.nodes.request import CheckpointRequest, ProbeRequest, ServiceRequest
from fleet.plan import NodeView, Plan, decide
from fleet.releases.command import unit_name
from fleet.releases.current import current_document
from fleet.releases.difference import Change, compare, removals
from fleet.releases.release import Release, adopted, secrets_mark
from fleet.releases.tied import as_one, tie, with_hosts_of
from fleet.span import peer_requests, span_in
from fleet.verdict import Verdict
from operations import secrets
from operations.node_script import outdated_support
from templates.render import render_release

Key = tuple[str, str]
"""Node name, service name."""


@dataclass(frozen=True)
class Secrets:
    """Secret values of one run, with the run's random key for digests. Its repr shows nothing."""

    values: dict[Key, dict[str, str]] = field(default_factory=dict, repr=False)
    key: str = field(default_factory=lambda: random.token_hex(16), repr=False)

    def of(self, node: str, service: str) -> dict[str, str]:
        """Name -> value of one service on one node."""
        return self.values.get((node, service), {})

    @property
    def all_values(self) -> frozenset[str]:
        """Every value, to be kept out of what is printed."""
        return frozenset(value for values in self.values.values() for value in values.values())


def resolve_secrets(fleet: Fleet) -> Secrets:
    """Every secret of the fleet. A service's references are the same on all its nodes unless a node overrides them.

    Recorded nodes get none: nothing is ever sent to them, and who replays them need not have the secrets.
    """
    return Secrets(
        values={
            (placement.node.name, service.name): secrets.resolve(service)
            for placement in fleet.placements
            for service in (() if placement.node.recording else placement.services)
        }
    )


def request_for(placement: Placement, key: str, deep: bool = False, audit: bool = False) -> ProbeRequest:
    """What the one probe must look at on this node. `deep`: also what a rollout has no time for; `audit`: what runs."""
    return ProbeRequest(
        services=tuple(
            ServiceRequest(
                name=s.name,
                model=s.model,
                image=s.image.reference,
                port=s.port,
                mounts=tuple(mount.source for mount in s.mounts),
            )
            for s in placement.services
        ),
        runtime=placement.node.runtime,
        checkpoints=tuple(
            CheckpointRequest(path=s.model, digest=s.checkpoint.digest, key=record_key(s.model))
            for s in placement.services
            if s.checkpoint is not None
        ),
        names=placement.names,
        peers=peer_requests(placement),
        secret_key=key,
        deep=deep,
        audit=audit,
    )


@dataclass(frozen=True)
class Survey:
    """What one look at the fleet found and decided. Nothing has changed when it exists."""

    fleet: Fleet
    views: tuple[NodeView, ...]
    unread: dict[str, str]
    plans: tuple[Plan, ...]
    releases: dict[Key, Release]
    changes: tuple[Change, ...]
    support: frozenset[str]
    """Nodes whose node script or undo units are missing or old."""
    verdicts: tuple[Verdict, ...]
    not_asked: tuple[str, ...] = ()
    """Gates that need a deeper look than this one was."""

    def plan(self, node: str, service: str) -> Plan:
        """The plan of a service on a node."""
        return self._plans[node, service]

    def planned(self, node: str, service: str) -> Plan | None:
        """The same, or None for a service that is not declared there."""
        return self._plans.get((node, service))

    @cached_property
    def _plans(self) -> dict[Key, Plan]:
        return {(plan.node.name, plan.service.name): plan for plan in self.plans}

    def facts(self, node: str) -> NodeFacts | None:
        """What the node told."""
        return self._facts.get(node)

    @cached_property
    def _facts(self) -> dict[str, NodeFacts | None]:
        return {view.node.name: view.facts for view in self.views}

    @cached_property
    def failing(self) -> frozenset[str]:
        """Nodes with a gate that stops, with all that share an engine with one; every node where a gate of all does."""
        nodes = frozenset(v.node for v in self.verdicts if v.stops)
        if EVERYWHERE in nodes:
            return nodes | frozenset(view.node.name for view in self.views)
        return with_hosts_of(nodes, self.plans)

    def about(self, service: str | None) -> "Survey":
        """The same for a run that is about one service: its plans and changes, verdicts of it and of its nodes."""
        if service is None:
            return self
        return replace(
            self,
            plans=tuple(plan for plan in self.plans if plan.service.name == service),
            releases={key: release for key, release in self.releases.items() if key[1] == service},
            changes=tuple(change for change in self.changes if change.service == service),
            verdicts=tuple(v for v in self.verdicts if v.service in (None, service)),
        )

    def work(self, prune: bool) -> tuple[Change, ...]:
        """Changes that this run would make on nodes whose gates pass."""
        kept = self.kept(prune)
        return tuple(change for change in self._wanted(prune) if change not in kept)

    def _wanted(self, prune: bool) -> tuple[Change, ...]:
        return tuple(
            change
            for change in self.changes
            if change.kind != "none" and (prune or change.kind != "remove") and change.node not in self.failing
        )

    def kept(self, prune: bool) -> tuple[Change, ...]:
        """Removals that wait for another run: of parts of an engine that other hosts leave now, and may go back to."""
        wanted = self._wanted(prune)
        anew = {(change.node, change.service) for change in wanted if change.restarts and change.kind != "remove"}
        return tuple(
            change
            for change in wanted
            if change.kind == "remove" and any((node, change.service) in anew for node in self._hosts_of(change))
        )

    def _hosts_of(self, change: Change) -> tuple[str, ...]:
        """The hosts of the engine that lies there now, where several run it."""
        facts = self.facts(change.node)
        span = span_in(current_document(facts.installed(change.service) if facts else None))
        return span.nodes if span else ()


def _render(plans: tuple[Plan, ...], secret: Secrets) -> dict[Key, Release]:
    releases: dict[Key, Release] = {}
    marks: dict[str, str] = {}
    for plan in plans:
        if plan.layout is None:
            continue
        values = secret.of(plan.node.name, plan.service.name)
        document = f"{plan.service.name}{sorted(values.items())}"
        if document not in marks:  # scrypt is slow on purpose: once a service, not once a node
            marks[document] = secrets_mark(values, plan.service.name)
        release = render_release(plan, marks[document])
        if plan.node.recording and plan.service.secrets and plan.installed:
            release = adopted(release, plan.installed)
        releases[plan.node.name, plan.service.name] = release
    return releases


def _tied(plans: tuple[Plan, ...], secret: Secrets) -> tuple[tuple[Plan, ...], dict[Key, Release]]:
    """The plans and their releases, those of one engine's hosts tied by a digest: where one changes, all do."""
    releases = _render(plans, secret)
    tied = tie(plans, releases)
    return tied, {**releases, **_render(tuple(plan for plan in tied if plan.span is not None), secret)}


def _unread_verdicts(unread: dict[str, str], fleet: Fleet) -> tuple[Verdict, ...]:
    """A node that is read from a recording is never contacted."""
    remedy = "bring the node back, leave it out with --limit, or set rollout.on_unreachable: host"
    again = "record it anew (fleet capture), or bring the whole file back"
    verdicts = []
    for node, reason in unread.items():
        file = fleet.placement(node).node.recording
        said = {"want": f"a whole recording in {file}" if file else "an answer over SSH", "got": reason}
        verdicts.append(Verdict(gate="reachable", node=node, status="fail", **said, remedy=again if file else remedy))
    return tuple(verdicts)


def _after_pruning(placement: Placement, facts: NodeFacts) -> NodeFacts:
    """The node as the gates are to see it: what this run takes away before anything else listens nowhere."""
    declared = {service.name for service in placement.services}
    gone = {unit_name(lies.name) for lies in facts.services if lies.name not in declared}
    ports = tuple(port for port in facts.ports if port.unit not in gone)
    still = tuple(_stopped(lies) if unit_name(lies.name) in gone else lies for lies in facts.services)
    return facts.model_copy(update={"ports": ports, "nvidia": _without(facts.nvidia, gone), "services": still})


def _without(nvidia: Nvidia, units: set[str]) -> Nvidia:
    """The GPUs without the processes of these units, and without the memory that they hold."""
    held: dict[str, int] = {}
    for process in nvidia.processes:
        if process.unit in units:
            held[process.bus_id] = held.get(process.bus_id, 0) + (process.memory_mib or 0)
    gpus = [
        gpu.model_copy(update={"memory_used_mib": max(0, (gpu.memory_used_mib or 0) - held[gpu.bus_id])})
        if gpu.bus_id in held
        else gpu
        for gpu in nvidia.gpus
    ]
    left = tuple(process for process in nvidia.processes if process.unit not in units)
    return nvidia.model_copy(update={"gpus": tuple(gpus), "processes": left})


def _stopped(lies: Installed) -> Installed:
    unit = lies.unit.model_copy(update={"active": "inactive"}) if lies.unit else None
    return lies.model_copy(update={"unit": unit})


def survey(
    fleet: Fleet, answers: dict[str, Answer], secret: Secrets, prune: bool = False, changing: bool = True
) -> Survey:
    """Decide, render, compare and judge. `answers` holds the nodes of this run; the others are left out of it.

    `changing` False: nothing is going to be changed, so no gate judges what a change would do.
    """
    asked = tuple(placement for placement in fleet.placements if placement.node.name in answers)
    views = tuple(
        NodeView(placement=p, facts=_after_pruning(p, facts) if prune else facts, rollout=fleet.rollout)
        for p in asked
        if (facts := answers[p.node.name].facts) is not None
    )
    unread = {p.node.name: answers[p.node.name].reason or "no answer" for p in asked if not answers[p.node.name].facts}
    plans = tuple(
        decide(view.placement, service, view.facts, fleet.evidence, fleet.patches)
        for view in views
        for service in view.placement.services
    )
    plans, releases = _tied(plans, secret)
    changes = [
        compare(plan, releases[key], None if plan.node.recording else secrets.digests(secret.of(*key), secret.key))
        for plan in plans
        if (key := (plan.node.name, plan.service.name)) in releases
    ]
    for view in views:
        if view.facts is not None:
            declared = frozenset(service.name for service in view.placement.services)
            changes += removals(view.node.name, view.facts, declared)
    changes = list(as_one(changes, plans))
    touched = frozenset((c.node, c.service) for c in changes if c.restarts and (prune or c.kind != "remove"))
    everything = FleetView(
        views=views,
        plans=plans,
        changing=touched if changing else frozenset(),
        placed=frozenset(
            (p.node.name, service.name)
            for p in fleet.placements
            for service in p.services
            if service.nodes is None or p.node.name == service.nodes[0]
        ),
    )
    return Survey(
        fleet=fleet,
        views=views,
        unread=unread,
        plans=plans,
        releases=releases,
        changes=tuple(sorted(changes, key=lambda c: (c.node, c.service))),
        support=frozenset(v.node.name for v in views if v.facts is not None and outdated_support(v.facts)),
        verdicts=(*_unread_verdicts(unread, fleet), *evaluate(everything, fleet.waivers)),
        not_asked=not_asked(everything),
    )
