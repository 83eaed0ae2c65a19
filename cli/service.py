"""`fleet start | stop | wait`: the daily verbs on services that were rolled out."""

import json
import secrets as random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gevent
import typer

from cli.machine import fail, refused_by
from cli.session import Session, connected, placed
from declare import leave
from declare.invocation import Invocation
from facts.shell import run
from fleet.batches import units
from fleet.declaration import Fleet, ServiceDeclaration
from fleet.nodes.node import Installed
from fleet.plan import Plan
from fleet.policy import ServicePolicy
from fleet.releases.command import NODE_SCRIPT
from fleet.releases.current import current_document
from operations.lock import LockError, Locks
from operations.prepare import probe_folders
from operations.show import console, print_gates
from operations.stored import StoredError, read_stored
from operations.survey import Survey
from probes.asking.load import load
from probes.evidence import Endpoint, Evidence, Limits


def _targets(session: Session, found: Survey, service: str) -> list[Plan]:
    """Plans of the service on nodes where a release of it lies; exit 1 where it was never rolled out."""
    _all_answered(found)
    plans = [plan for plan in found.plans if plan.service.name == service]
    missing = [p.node.name for p in plans if p.installed is None or p.installed.current is None]
    if missing:
        nodes = ", ".join(missing)
        fail(f"{service}: want a release on {nodes}, found none; roll out first: pyinfra inventory.py deploy.py -y")
    return plans


def _whole(fleet: Fleet, service: str, node: str | None) -> list[str]:
    """Nodes that a command is about, with all that run an engine of the service together with one of them."""
    names = placed(fleet, service, node)
    declared = [own for name in names for own in fleet.placement(name).services if own.name == service]
    more = sorted({name for own in declared for name in own.nodes or ()} - set(names))
    if more:
        typer.echo(f"{service} on {', '.join(names)} is one engine with {', '.join(more)}: all of it", err=True)
    return [*names, *more]


def _all_answered(found: Survey) -> None:
    if found.unread:
        fail("; ".join(f"{node}: {reason}" for node, reason in found.unread.items()))


def start(invocation: Invocation, service: str, node: str | None, as_json: bool = False) -> None:
    """Start a service on its nodes, after all gates."""
    with connected(invocation, _whole(invocation.fleet, service, node)) as session:
        found = session.survey()
        limits = {plan.node.name: _limit_s(plan.installed, plan.service) for plan in _targets(session, found, service)}
        about = [v for v in found.verdicts if v.service in (None, service)]
        if any(v.stops for v in about):
            print_gates(console(machine=True), about)
            refused_by(about)
        _change(session, "start", service, limits, {frozenset(plan.nodes) for plan in found.plans}, as_json)


def stop(invocation: Invocation, service: str, node: str | None, as_json: bool = False) -> None:
    """Stop a service on its nodes, also one that is no longer declared and still lies there."""
    declared = any(own.name == service for placement in invocation.fleet.placements for own in placement.services)
    nodes = _whole(invocation.fleet, service, node) if declared else placed(invocation.fleet, None, node)
    with connected(invocation, nodes) as session:
        found = session.survey()
        if declared:
            plans = _targets(session, found, service)
            limits = {plan.node.name: _limit_s(plan.installed, plan.service) for plan in plans}
        else:
            _all_answered(found)
            lies = {v.node.name: v.facts.installed(service) for v in found.views if v.facts is not None}
            limits = {name: _limit_s(there) for name, there in lies.items() if there is not None}
            if not limits:
                fail(f"service: want one that is declared or lies on {', '.join(sorted(lies))}, found {service!r}")
        _change(session, "stop", service, limits, {frozenset(plan.nodes) for plan in found.plans}, as_json)


def _change(
    session: Session,
    verb: str,
    service: str,
    limits: dict[str, int],
    together: Iterable[frozenset[str]] = (),
    as_json: bool = False,
) -> None:
    """Start or stop a service on nodes, each in at most so many seconds, under the same lock as a rollout.

    `together`: nodes that run one engine of it.
    """
    hosts = {name: session.hosts[name] for name in limits}
    leave.say(f"each node ends by itself the {verb} that it began")
    locks = Locks(hosts, random.token_hex(8), lambda reason: typer.echo(reason, err=True))
    rows: list[dict[str, Any]] = []

    def one(name: str) -> None:
        words = (NODE_SCRIPT, "holding", locks.run_id, verb, service)
        done = run(hosts[name], words, timeout_s=limits[name], show=True)
        typer.echo(f"{name}/{service}: {verb}: {done.reason or 'done'}", err=as_json)
        rows.append({"node": name, "service": service, "verb": verb, "done": not done.reason, "reason": done.reason})

    try:
        locks.acquire(session.invocation.fleet.rollout.lock_lease_s)
        for names in units(limits, together):  # the hosts of one engine wait for one another
            gevent.joinall([gevent.spawn(one, name) for name in names], raise_error=True)
    except LockError as error:
        fail(str(error))
    finally:
        locks.release()
    if as_json:
        typer.echo(json.dumps(sorted(rows, key=lambda row: str(row["node"])), indent=1))
    if not all(row["done"] for row in rows):
        raise typer.Exit(1)


def unlock(invocation: Invocation, node: str, sure: bool, holder: str | None = None, as_json: bool = False) -> None:
    """Take the lock of a run that died away: of any, or of that `holder`. Without `sure` only its holder is told."""
    with connected(invocation, placed(invocation.fleet, None, node)) as session:
        facts = session.survey().facts(node)
        if facts is None:
            fail(f"{node}: no answer over SSH, so its lock is unknown")
        lock = facts.lock
        held = {"node": node, "holder": lock.holder if lock else None, "run": lock.run if lock else None}
        if lock is None:
            typer.echo(json.dumps({**held, "unlocked": False}) if as_json else f"{node} is not locked")
            return
        typer.echo(f"{node} is held by {lock.holder}, run {lock.run}", err=as_json)
        if holder not in (None, lock.holder):
            fail(f"want a lock of {holder}; this one was left alone")
        if not sure:
            fail(
                "make sure that this run is dead, then add --yes; a release that it left pending the node undoes itself"
            )
        done = run(session.hosts[node], (NODE_SCRIPT, "unlock", lock.run))
        if done.reason is not None:
            fail(f"{node}: {done.reason}")
        typer.echo(json.dumps({**held, "unlocked": True}) if as_json else f"{node} is unlocked")


def _limit_s(lies: Installed | None, declared: ServiceDeclaration | None = None) -> int:
    """Seconds that a start or a stop may take, by the policy of what lies there and by the declared one, if any."""
    there = (current_document(lies) or {}).get("policy") or {}
    policy = declared.policy if declared else ServicePolicy()
    budgets = (there.get("start_budget_s", 0), policy.start_budget_s)
    graces = (there.get("stop_grace_s", 0), policy.stop_grace_s)
    return max(budgets) + max(graces) + 60


def wait(invocation: Invocation, service: str, node: str | None, as_json: bool) -> None:
    """Wait until the service answers on every node: /health within the start budget, then a real completion."""
    with connected(invocation, _whole(invocation.fleet, service, node)) as session:
        found = session.survey()
        plans = [plan for plan in _targets(session, found, service) if plan.serves]
        folders = probe_folders(invocation)
        endpoints = {plan.node.name: _endpoint(session, plan) for plan in plans}
    rows: list[dict[str, Any]] = []
    for plan in plans:
        evidence = _patiently(endpoints[plan.node.name], plan, folders)
        rows.append({"node": plan.node.name, "service": service, "passed": evidence.passed, "found": evidence.found})
        if not as_json:
            typer.echo(f"{plan.node.name}/{service}: {evidence}")
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    if not all(row["passed"] for row in rows):
        raise typer.Exit(1)


def _endpoint(session: Session, plan: Plan) -> Endpoint:
    """Where the release that lies there answers, with the key that it was given. Exits 1 where it cannot be read."""
    release = plan.installed.current if plan.installed else None
    try:
        return read_stored(session.hosts[plan.node.name], plan.node, plan.service.name, str(release)).endpoint
    except StoredError as error:
        fail(str(error))


def _patiently(endpoint: Endpoint, plan: Plan, folders: list[Path]) -> Evidence:
    """/health until it answers or the start budget is over, then one completion."""
    policy = plan.service.policy
    began, told = time.monotonic(), 0.0
    while True:
        health = load("health", folders)(endpoint, Limits(total_s=5))
        spent = time.monotonic() - began
        if health.passed:
            return load("completion", folders)(endpoint, Limits(total_s=policy.proof_s))
        if spent > policy.start_budget_s:
            return health
        if spent - told > 10:
            typer.echo(f"{plan.node.name}: {spent:.0f} s of {policy.start_budget_s}: {health.found}", err=True)
            told = spent
        time.sleep(1)
