"""From a pyinfra state to a Run: observe every node at once, decide, judge, show; refuse before anything changes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyinfra.api.exceptions import DeployError

from declare.invocation import Invocation
from facts.gather import Answer, gather
from facts.script import UNIT_FOLDER
from facts.shell import run
from fleet.batches import batches
from fleet.engines.patch import PatchError
from fleet.gate import EVERYWHERE
from fleet.gates.replicas import proves
from fleet.plan import Plan
from fleet.policy import RolloutPolicy
from fleet.releases.command import unit_name
from fleet.releases.difference import Change, wrong_files
from fleet.releases.release import UNIT
from fleet.releases.systemd import environment_file
from fleet.verdict import Verdict
from operations.hosts import reached
from operations.node_script import Call, apply_command, outdated_support, read_replies, stage_call
from operations.patching import patch_files
from operations.report_file import report_path
from operations.run import Ready, Run
from operations.secrets import SecretError
from operations.show import console, print_changes, print_gates, print_support
from operations.steps import API_KEY, Step, deploy_step, release_files
from operations.survey import Secrets, Survey, request_for, resolve_secrets, survey

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

PROJECT = Path(__file__).resolve().parent.parent


def hosts_of(state: "State") -> tuple[dict[str, "Host"], dict[str, Answer]]:
    """Connected hosts of this run by node name, and an answer for each that could not be reached."""
    hosts, silent = reached(state)
    return hosts, {name: Answer(node=name, reason=why) for name, why in silent.items()}


def observe(
    invocation: Invocation, hosts: list["Host"], secret: Secrets, ready: Ready | None = None, **also: bool
) -> dict[str, Answer]:
    """One probe a node, all nodes at once, or each as soon as `ready` returns for it. `also`: see `request_for`."""
    fleet = invocation.fleet
    return gather(hosts, lambda name: request_for(fleet.placement(name), secret.key, **also), ready=ready)


def deploy(state: "State", invocation: Invocation) -> Run:
    """The run of deploy.py. Raises DeployError where the gates refuse, with the whole table printed before."""
    secret = secrets_of(invocation)
    hosts, silent = hosts_with(invocation, *hosts_of(state))

    def look(ready: Ready | None = None) -> Survey:
        answers = {**observe(invocation, list(hosts.values()), secret, ready), **silent}
        return survey(invocation.fleet, answers, secret, invocation.prune).about(invocation.overrides.service)

    if invocation.overrides.deliver:
        from operations.delivery.verb import beforehand  # which imports this module

        beforehand(state, invocation)
    found = look()
    out = console(invocation.json)
    print_gates(out, found.verdicts, found.not_asked)
    print_changes(out, found.changes, invocation.diff)
    print_support(out, outdated_on(found, hosts.keys() - found.failing))
    rollout = _run(invocation, found, hosts, secret, look)
    refuse_unless_passed(rollout)
    leave_out(state, rollout)
    for one in found.kept(invocation.prune):
        out.print(f"{one.node}/{one.service} stays until what replaces its engine has proven itself; then prune again")
    if invocation.dry:
        out.print("\n[bold]Dry run[/]: nothing was changed, no lock was taken.")
    elif not rollout.active:
        what = invocation.overrides.service or "every service"
        whole = f"{what} is as declared" if not found.failing else f"{what} of the other nodes is as declared"
        gone = sum(change.kind == "remove" for change in found.changes)
        stays = f" {gone} no longer declared stay (--data prune=true removes them)." if gone else ""
        out.print(f"\n[green]Nothing to change[/]: {whole}, nothing was restarted.{stays}")
    return rollout


def outdated_on(found: Survey, nodes: Collection[str]) -> dict[str, list[str]]:
    """Node -> paths of the node script and the undo units that this run puts right there."""
    facts = {name: found.facts(name) for name in sorted(found.support & set(nodes))}
    return {name: sorted(outdated_support(told)) for name, told in facts.items() if told is not None}


def hosts_with(
    invocation: Invocation, hosts: dict[str, "Host"], silent: dict[str, Answer]
) -> tuple[dict[str, "Host"], dict[str, Answer]]:
    """Those that have the service which the run is about; all, where it is about every service.

    DeployError where that leaves none.
    """
    only = invocation.overrides.service
    if only is None:
        return hosts, silent
    nodes = {p.node.name for p in invocation.fleet.placements if any(s.name == only for s in p.services)}
    if not nodes & {*hosts, *silent}:
        raise DeployError(f"--data service: want a node of this run that {only} is declared for, found none")
    return (
        {name: host for name, host in hosts.items() if name in nodes},
        {name: answer for name, answer in silent.items() if name in nodes},
    )


def secrets_of(invocation: Invocation) -> Secrets:
    """Every secret of the fleet; DeployError names the reference that cannot be read."""
    try:
        return resolve_secrets(invocation.fleet)
    except SecretError as error:
        raise DeployError(str(error)) from None


def refuse_unless_passed(rollout: Run) -> None:
    """By policy a failing host stops everything or only itself; with no host left there is nothing to do.

    Raises DeployError, after the report was written.
    """
    found = rollout.survey
    stopping = [
        v for v in found.verdicts if v.stops and (v.node == EVERYWHERE or _on(found.fleet.rollout, v) == "stop")
    ]
    if stopping:
        nodes = sorted({v.node for v in stopping})
        rollout.stop(f"refused by {len(stopping)} failing gates on {', '.join(nodes)}; nothing was changed")
    elif not {view.node.name for view in found.views} - found.failing:
        rollout.stop("refused: no node is left whose gates pass; nothing was changed")
    if rollout.stopped:
        rollout.write_report()
        raise DeployError(rollout.stopped)


def leave_out(state: "State", rollout: Run) -> None:
    """Hosts that the gates refuse take no part, and the run will end with exit code 1."""
    refused = [host for host in state.active_hosts if host.name in rollout.survey.failing]
    if refused:
        names = ", ".join(sorted(host.name for host in refused))
        console(rollout.json).print(f"\n[bold red]Left out[/]: {names}, by rollout.on_failed_gate and on_unreachable")
        state.fail_hosts(set(refused))


def _on(policy: RolloutPolicy, verdict: Verdict) -> str:
    return policy.on_unreachable if verdict.gate == "reachable" else policy.on_failed_gate


def api_key(plan: Plan, secret: Secrets) -> str:
    """The key that clients of this service send; empty where it asks for none."""
    return secret.of(plan.node.name, plan.service.name).get(API_KEY, plan.service.env.get(API_KEY, ""))


def _step(found: Survey, change: Change, secret: Secrets) -> Step:
    plan = found.plan(change.node, change.service)
    key = api_key(plan, secret)
    release = found.releases[change.node, change.service]
    return deploy_step(plan, change, release, key)


def serving(found: Survey) -> dict[str, frozenset[str]]:
    """Service -> nodes that serve it now with a proven release."""
    nodes: dict[str, set[str]] = {}
    views = {view.node.name: view for view in found.views}
    for plan in found.plans:
        if plan.serves and proves(views[plan.node.name], plan.service.name):
            nodes.setdefault(plan.service.name, set()).add(plan.node.name)
    return {service: frozenset(names) for service, names in nodes.items()}


def joined(steps: Mapping[str, Sequence[Step]]) -> set[frozenset[str]]:
    """Nodes that take a step together."""
    return {frozenset(step.nodes) for own in steps.values() for step in own}


def _run(
    invocation: Invocation,
    found: Survey,
    hosts: dict[str, "Host"],
    secret: Secrets,
    again: Callable[[Ready | None], Survey],
) -> Run:
    work = found.work(invocation.prune)
    steps: dict[str, list[Step]] = {}
    removes: dict[str, list[str]] = {}
    tidies: dict[str, list[str]] = {}
    for change in work:
        if change.kind == "tidy":
            tidies.setdefault(change.node, []).append(change.service)
        elif change.kind == "remove":
            removes.setdefault(change.node, []).append(change.service)
        else:
            steps.setdefault(change.node, []).append(_step(found, change, secret))
    keep = frozenset(p.service.name for p in found.plans if p.service.policy.last_replica == "keep")
    good = {name: host for name, host in hosts.items() if name not in found.failing}
    return Run(
        verb="deploy",
        survey=found,
        hosts=good,
        steps=steps,
        dry=invocation.dry,
        json=invocation.json,
        report=report_path(invocation),
        removes=removes,
        tidies=tidies,
        batches=batches(
            sorted({*steps, *removes}), invocation.fleet.rollout.batches, serving(found), keep, joined(steps)
        ),
        apply=lambda rollout, host: _stage(rollout, host, secret),
        again=again,
    )


def _stage(rollout: Run, host: "Host", secret: Secrets) -> str | None:
    """Read and patch what is to be patched, and bring every new release to the host; the reason on failure."""
    try:
        return carry(rollout, host, _stagings(rollout, host, secret))
    except PatchError as error:
        return str(error)


def _stagings(rollout: Run, host: "Host", secret: Secrets) -> list[Call]:
    """The call that stages each new release of a node, and each whose files are to be put right. Raises PatchError."""
    calls, node = [], host.name
    for service in (*(step.service for step in rollout.steps.get(node, [])), *rollout.tidies.get(node, [])):
        release = rollout.survey.releases[node, service]
        patched = patch_files(host, rollout.survey.plan(node, service))
        files = release_files(release, environment_file(secret.of(node, service)), patched)
        calls.append(stage_call(service, release.id, files).held_by(rollout.id))
    return calls


def _units_put_right(rollout: Run, node: str) -> dict[str, tuple[str, str]]:
    """Installed units that only have another mode or owner than they should: staging does not reach these."""
    files = {}
    for service in rollout.tidies.get(node, []):
        path = f"{UNIT_FOLDER}/{unit_name(service)}"
        release, lies = rollout.survey.releases[node, service], rollout.survey.plan(node, service).installed
        if lies is not None and any(wrong.path == path for wrong in wrong_files(lies, release)):
            files[path] = ("644", release.files[UNIT])
    return files


def carry(rollout: Run, host: "Host", calls: list[Call]) -> str | None:
    """Bring the node script, the undo units and these calls to the host in one command; the reason on failure."""
    facts = rollout.survey.facts(host.name)
    files = {**outdated_support(facts), **_units_put_right(rollout, host.name)} if facts is not None else {}
    if facts is None or not (calls or files):
        return None
    apply = apply_command(files, calls)
    output = run(host, apply.command, stdin=apply.stdin, timeout_s=120)
    replies = read_replies(output.stdout.splitlines(), calls)
    wrong = next((reply.error for reply in replies if reply.error), None)
    if wrong or output.reason:
        return wrong or output.reason
    return None if len(replies) == len(calls) else f"want {len(calls)} releases staged, found {len(replies)}"


def probe_folders(invocation: Invocation) -> list[Path]:
    """Where probes are looked for: the site's own first."""
    return [invocation.site.root / "probes", PROJECT / "probes"]
