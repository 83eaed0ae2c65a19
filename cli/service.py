"""`fleet start | stop | wait | status`: the daily verbs on services that were rolled out."""

import json
import secrets as random
import time
from pathlib import Path
from typing import Any

import typer
from pydantic import SecretStr

from cli.session import Session, connected, fail, placed
from declare.invocation import Invocation
from facts.shell import run
from fleet.command import NODE_SCRIPT
from fleet.node import Installed, NodeFacts
from fleet.plan import Plan
from operations.lock import LockError, Locks
from operations.prepare import probe_folders
from operations.show import console, print_gates, result_table
from operations.steps import API_KEY, current_plan, endpoint_of
from operations.survey import Survey
from probes.evidence import Endpoint, Evidence, Limits
from probes.load import load


def _targets(session: Session, found: Survey, service: str) -> list[Plan]:
    """Plans of the service on nodes where a release of it lies; exit 1 where it was never rolled out."""
    if found.unread:
        fail("; ".join(f"{node}: {reason}" for node, reason in found.unread.items()))
    plans = [plan for plan in found.plans if plan.service.name == service]
    missing = [p.node.name for p in plans if p.installed is None or p.installed.current is None]
    if missing:
        nodes = ", ".join(missing)
        fail(f"{service}: want a release on {nodes}, found none; roll out first: pyinfra inventory.py deploy.py -y")
    return plans


def change(invocation: Invocation, verb: str, service: str, node: str | None) -> None:
    """Start (after all gates) or stop a service on its nodes, under the same lock as a rollout."""
    with connected(invocation, placed(invocation.fleet, service, node)) as session:
        found = session.survey()
        plans = _targets(session, found, service)
        if verb == "start":
            about = [v for v in found.verdicts if v.service in (None, service)]
            if any(v.stops for v in about):
                print_gates(console(machine=True), about)
                raise typer.Exit(1)
        hosts = {plan.node.name: session.hosts[plan.node.name] for plan in plans}
        locks = Locks(hosts, random.token_hex(8), lambda reason: typer.echo(reason, err=True))
        try:
            locks.acquire(invocation.fleet.rollout.lock_lease_s)
        except LockError as error:
            fail(str(error))
        failed = []
        for plan in plans:
            budget = plan.service.policy.start_budget_s + 60
            words = (NODE_SCRIPT, "holding", locks.run_id, verb, service)
            done = run(hosts[plan.node.name], words, timeout_s=budget, show=True)
            typer.echo(f"{plan.node.name}/{service}: {verb}: {done.reason or 'done'}")
            failed += [plan.node.name] if done.reason else []
        locks.release()
    if failed:
        raise typer.Exit(1)


def wait(invocation: Invocation, service: str, node: str | None, as_json: bool) -> None:
    """Wait until the service answers on every node: /health within the start budget, then a real completion."""
    with connected(invocation, placed(invocation.fleet, service, node)) as session:
        found = session.survey()
        plans = _targets(session, found, service)
        folders = probe_folders(invocation)
        secrets = {plan.node.name: session.secret.of(f"{plan.node.name}/{service}") for plan in plans}
    rows: list[dict[str, Any]] = []
    for plan in plans:
        key = secrets[plan.node.name].get(API_KEY)
        endpoint = endpoint_of(plan.node, current_plan(plan.installed) or {}, SecretStr(key) if key else None)
        evidence = _patiently(endpoint, plan, folders)
        rows.append({"node": plan.node.name, "service": service, "passed": evidence.passed, "found": evidence.found})
        if not as_json:
            typer.echo(f"{plan.node.name}/{service}: {evidence}")
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    if not all(row["passed"] for row in rows):
        raise typer.Exit(1)


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


def _status_row(facts: NodeFacts, lies: Installed) -> dict[str, str]:
    unit = lies.unit
    return {
        "node": facts.hostname,
        "service": lies.name,
        "unit": f"{unit.active} ({unit.sub})" if unit else "no unit",
        "release": lies.current or "-",
        "proven": "yes" if lies.proven and lies.proven == lies.current else f"no, last was {lies.proven or 'none'}",
        "previous": lies.previous or "-",
        "restarts": str(unit.restarts) if unit and unit.restarts is not None else "-",
        "since": (unit.active_since if unit else None) or "-",
        "pending": f"{lies.pending.release} until {lies.pending.deadline}" if lies.pending else "-",
    }


def status(invocation: Invocation, service: str | None, node: str | None, as_json: bool) -> None:
    """What runs where: unit, release, proof, lock. Exit 2 where a service does not run a proven release."""
    with connected(invocation, placed(invocation.fleet, service, node)) as session:
        found = session.survey()
    rows = [
        {**_status_row(view.facts, lies), "node": view.node.name}
        for view in found.views
        if view.facts
        for lies in view.facts.services
        if service in (None, lies.name)
    ]
    locks = {
        view.node.name: f"{view.facts.lock.holder}"
        for view in found.views
        if view.facts is not None and view.facts.lock
    }
    if as_json:
        typer.echo(json.dumps({"services": rows, "locks": locks, "unread": found.unread}, indent=1))
    else:
        console().print(result_table(rows, "Services") if rows else "No service was rolled out here yet.")
        for name, held in locks.items():
            typer.echo(f"{name} is locked by {held}")
        for name, reason in found.unread.items():
            typer.echo(f"{name}: {reason}")
    if found.unread:
        raise typer.Exit(1)
    if any(not row["unit"].startswith("active") or row["proven"] != "yes" for row in rows):
        raise typer.Exit(2)
