"""The run of rollback.py: every service with a release before the current one goes back to it."""

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from gevent.pool import Pool
from pyinfra.api.exceptions import DeployError

from declare.invocation import Invocation
from facts.shell import run
from fleet.batches import batches
from fleet.plan import Plan
from fleet.releases.current import current_document
from fleet.releases.places import RUNTIMES
from fleet.span import StoredSpan, span_in
from operations.prepare import (
    carry,
    hosts_of,
    hosts_with,
    joined,
    leave_out,
    observe,
    outdated_on,
    refuse_unless_passed,
    secrets_of,
    serving,
)
from operations.report_file import report_path
from operations.run import Ready, Run
from operations.show import console, print_gates, print_support
from operations.steps import Step, back_step
from operations.stored import Stored, StoredError, read_stored
from operations.survey import Survey, survey

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State


def prepare(state: "State", invocation: Invocation) -> Run:
    """Look, judge the nodes (not the declared plan, which is not what will run), and find what each can go back to."""
    secret = secrets_of(invocation)
    hosts, silent = hosts_with(invocation, *hosts_of(state))

    def look(ready: Ready | None = None) -> Survey:
        answers = {**observe(invocation, list(hosts.values()), secret, ready), **silent}
        return _about_nodes(survey(invocation.fleet, answers, secret)).about(invocation.overrides.service)

    found = look()
    out = console(invocation.json)
    print_gates(out, found.verdicts)
    rollout = Run(
        verb="rollback",
        survey=found,
        hosts={name: host for name, host in hosts.items() if name not in found.failing},
        steps={},
        batches=[],
        dry=invocation.dry,
        json=invocation.json,
        report=report_path(invocation),
        apply=lambda rollout, host: carry(rollout, host, []),
        again=look,
    )
    refuse_unless_passed(rollout)
    leave_out(state, rollout)
    _find_steps(rollout, invocation)
    for step in (step for steps in rollout.steps.values() for step in steps):
        now = step.old.current if step.old else "none"
        out.print(f"{step.node}/{step.service}: {now} -> {step.release} ({step.layout}, {step.endpoint.url})")
    print_support(out, outdated_on(found, rollout.hosts))
    if invocation.dry:
        out.print("\nDry run: nothing was changed, no lock was taken.")
    return rollout


def _about_nodes(found: Survey) -> Survey:
    verdicts = tuple(v for v in found.verdicts if v.service is None and v.gate != "last-replica")
    return replace(found, verdicts=verdicts)


def _find_steps(rollout: Run, invocation: Invocation) -> None:
    """A step for each service that has a release before its current one. Raises DeployError where none has."""
    found, only = rollout.survey, invocation.overrides.service
    plans = [
        plan
        for plan in found.plans
        if plan.node.name in rollout.hosts and only in (None, plan.service.name) and _previous(plan)
    ]
    answers = list(Pool(256).imap(lambda plan: _step(rollout.hosts[plan.node.name], plan), plans))
    found_steps = [answer for answer in answers if not isinstance(answer, StoredError)]
    for step in (step for step, _ in found_steps):
        rollout.steps.setdefault(step.node, []).append(step)
    lost = [(plan, str(answer)) for plan, answer in zip(plans, answers, strict=True) if isinstance(answer, StoredError)]
    for plan, why in lost:
        rollout.keep(rollout.row((plan.node.name, plan.service.name), "refused", proof=why))
    if lost:
        _refuse(rollout, f"{'; '.join(why for _, why in lost)}; nothing was changed; deploy again instead")
    if not plans:
        where = f"of {only} " if only else ""
        _refuse(
            rollout, f"want a release {where}before the current one, found none on these nodes; nothing was changed"
        )
    if halves := _halves(found_steps):
        _refuse(rollout, f"{'; '.join(halves)}; nothing was changed; deploy instead what shall run")
    keep = frozenset(p.service.name for p in plans if p.service.policy.last_replica == "keep")
    policy, together = invocation.fleet.rollout.batches, joined(rollout.steps)
    rollout.batches = batches(sorted(rollout.steps), policy, serving(found), keep, together)


def _refuse(rollout: Run, why: str) -> NoReturn:
    """Stop before anything was changed, with the report written. Raises DeployError."""
    rollout.stop(why)
    rollout.write_report()
    raise DeployError(f"rollback: {why}")


def _halves(steps: list[tuple[Step, Stored]]) -> list[str]:
    """Engines over several hosts that would go, or come back, on some of their hosts only."""
    coming = {(step.node, step.service): span_in(stored.document) for step, stored in steps}
    lines = []
    for step, _ in steps:
        now, then = span_in(current_document(step.old)), coming[step.node, step.service]
        missing = [node for node in (now.nodes if now else ()) if (node, step.service) not in coming]
        if then is not None:
            missing += [node for node in then.nodes if not _same(coming.get((node, step.service)), then)]
        for node in dict.fromkeys(missing):
            want = f"a release before of {step.service} on {node}, which runs or ran it with {step.node}"
            lines.append(f"want {want}, found none that belongs to it")
    return list(dict.fromkeys(lines))


def _same(there: StoredSpan | None, then: StoredSpan) -> bool:
    return there is not None and there.digest == then.digest


def _previous(plan: Plan) -> str | None:
    """The release to go back to; None where there is none before the current one.

    From one that was never proven (its rollout died) that is the proven one, which the node would put back as well.
    """
    lies = plan.installed
    if lies is None:
        return None
    before = lies.proven if lies.proven not in (None, lies.current) else lies.previous
    return before if before != lies.current else None


def _step(host: "Host", plan: Plan) -> tuple[Step, Stored] | StoredError:
    """The step back, and the release that it goes to; or why that cannot run on the node any more."""
    lies, previous, where = plan.installed, _previous(plan), f"{plan.node.name}/{plan.service.name}"
    if lies is None or previous is None:
        return StoredError(f"{where}: nothing to go back to")
    try:
        stored = read_stored(host, plan.node, plan.service.name, previous)
    except StoredError as error:  # raised in a greenlet, it would be printed with its traceback
        return error
    image = str(stored.document.get("image"))
    # Asked of the node: the one look of a rollout asks for the declared images only.
    asked = run(host, (RUNTIMES[plan.node.runtime], "image", "inspect", "--format", "{{.Id}}", image))
    if asked.reason is not None:
        return StoredError(f"{where}: want the image {image} of release {previous}, found {asked.reason}")
    return back_step(plan, lies, previous, stored.document, stored.endpoint), stored
