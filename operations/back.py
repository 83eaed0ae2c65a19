"""The run of rollback.py: every service with a release before the current one goes back to it."""

import json
import shlex
from typing import TYPE_CHECKING, Any

from gevent.pool import Pool
from pyinfra.api.exceptions import DeployError

from declare.invocation import Invocation
from facts.shell import run
from fleet.batches import batches
from fleet.command import STATE
from fleet.node import Installed
from fleet.plan import Plan
from fleet.release import PLAN
from operations.prepare import api_key, hosts_of, observe, report_path, secrets_of, serving
from operations.run import Run
from operations.show import console, print_gates
from operations.steps import Step, back_step
from operations.survey import survey

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State


def prepare(state: "State", invocation: Invocation) -> Run:
    """Look, judge the nodes (not the declared plan, which is not what will run), and find what each can go back to."""
    secret = secrets_of(invocation)
    hosts, silent = hosts_of(state)
    found = survey(invocation.fleet, {**observe(invocation, list(hosts.values()), secret), **silent}, secret)
    out = console(invocation.json)
    about_nodes = [v for v in found.verdicts if v.service is None and v.gate != "last-replica"]
    print_gates(out, about_nodes)
    if any(v.stops for v in about_nodes):
        raise DeployError("refused by failing gates; nothing was changed")
    only = invocation.overrides.service
    plans = [p for p in found.plans if only in (None, p.service.name) and p.installed and p.installed.previous]
    documents = dict(Pool(256).imap_unordered(lambda plan: _document(hosts[plan.node.name], plan), plans))
    steps: dict[str, list[Step]] = {}
    for plan in plans:
        lies, document = _known(plan), documents[plan.node.name, plan.service.name]
        steps.setdefault(plan.node.name, []).append(back_step(plan, lies, document, api_key(plan, secret)))
        out.print(f"{plan.node.name}/{plan.service.name}: {lies.current} -> {lies.previous}")
    if not steps:
        raise DeployError(
            "rollback: want a release before the current one, found none on these nodes; nothing was changed"
        )
    if invocation.dry:
        out.print("\nDry run: nothing was changed, no lock was taken.")
    keep = frozenset(p.service.name for p in plans if p.service.policy.last_replica == "keep")
    return Run(
        verb="rollback",
        survey=found,
        hosts=hosts,
        steps=steps,
        dry=invocation.dry,
        report=report_path(invocation),
        batches=batches(sorted(steps), invocation.fleet.rollout.batches, serving(found), keep),
        apply=lambda rollout, host: None,
        again=lambda: survey(invocation.fleet, {**observe(invocation, list(hosts.values()), secret), **silent}, secret),
    )


def _known(plan: Plan) -> Installed:
    if plan.installed is None:
        raise DeployError(f"{plan.node.name}/{plan.service.name}: nothing lies there")
    return plan.installed


def _document(host: "Host", plan: Plan) -> tuple[tuple[str, str], dict[str, Any]]:
    """plan.json of the release before. Raises DeployError where the node does not have it."""
    path = f"{STATE}/{plan.service.name}/releases/{_known(plan).previous}/{PLAN}"
    output = run(host, ("cat", "--", path))
    try:
        document = json.loads(output.stdout)
        return (plan.node.name, plan.service.name), dict(document)
    except (ValueError, TypeError):
        found = output.reason or "no JSON"
        raise DeployError(f"{plan.node.name}: want {shlex.quote(path)}, found {found}; deploy again instead") from None
