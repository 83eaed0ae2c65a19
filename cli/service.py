"""`fleet start | stop | wait | status`: the daily verbs on services that were rolled out."""

import json
import secrets as random
from typing import Any

import typer

from cli.session import Session, connected, fail, placed
from declare.invocation import Invocation
from facts.shell import run
from fleet.command import NODE_SCRIPT
from fleet.node import Installed, NodeFacts
from fleet.plan import Plan
from operations.lock import LockError, Locks
from operations.prepare import probe_folders
from operations.show import console, print_gates, result_table
from operations.steps import current_plan, endpoint_of
from operations.survey import Survey
from probes.evidence import Limits
from probes.load import load


def _targets(session: Session, found: Survey, service: str) -> list[Plan]:
    """Plans of the service on nodes where a release of it lies; exit 1 where it was never rolled out."""
    if found.unread:
        fail("; ".join(f"{node}: {reason}" for node, reason in found.unread.items()))
    plans = [plan for plan in found.plans if plan.service.name == service]
    missing = [p.node.name for p in plans if p.installed is None or p.installed.current is None]
    if missing:
        fail(
            f"{service}: want a release on {', '.join(missing)}, found none; roll out first: pyinfra inventory.py deploy.py"
        )
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
            words = (NODE_SCRIPT, verb, service)
            done = run(hosts[plan.node.name], words, timeout_s=budget, show=True)
            typer.echo(f"{plan.node.name}/{service}: {verb}: {done.reason or 'done'}")
            failed += [plan.node.name] if done.reason else []
        locks.release()
    if failed:
        raise typer.Exit(1)


def wait(invocation: Invocation, service: str, node: str | None, as_json: bool) -> None:
    """Wait until the service answers on every node: its unit active within the start budget, then a real completion."""
    rows: list[dict[str, Any]] = []
    with connected(invocation, placed(invocation.fleet, service, node)) as session:
        plans = _targets(session, session.survey(), service)
        for plan in plans:
            budget = plan.service.policy.start_budget_s
            words = (NODE_SCRIPT, "wait", service, str(budget))
            active = run(session.hosts[plan.node.name], words, timeout_s=budget + 30, show=not as_json)
            row = {"node": plan.node.name, "service": service, "passed": False, "found": active.reason}
            if active.reason is None:
                document = current_plan(plan.installed) or {}
                secret = session.secret.of(f"{plan.node.name}/{service}").get("VLLM_API_KEY", "")
                evidence = load("completion", probe_folders(invocation))(
                    endpoint_of(plan.node, document, secret), Limits(total_s=plan.service.policy.proof_s)
                )
                row |= {"passed": evidence.passed, "found": evidence.found}
            rows.append(row)
            if not as_json:
                typer.echo(
                    f"{row['node']}/{service}: {'answers' if row['passed'] else 'does NOT answer'}: {row['found']}"
                )
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    if not all(row["passed"] for row in rows):
        raise typer.Exit(1)


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
