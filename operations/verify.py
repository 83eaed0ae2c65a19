"""The story of verify.py, in the parts that it tells: ask, show, leave. What runs is asked, nothing is switched."""

import datetime
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gevent.pool import Pool

from declare.invocation import Invocation
from facts.shell import run
from fleet.ledger.started import Started
from fleet.nodes.node import Installed
from fleet.plan import Plan
from fleet.releases.command import NODE_SCRIPT
from fleet.releases.current import Figure, current_plan, side_by_side, started_of
from operations.prepare import hosts_of, observe, probe_folders, secrets_of
from operations.proof import found_before, measured_then, now_and_then
from operations.report_file import at_the_end, hand_over, writable
from operations.show import console, print_table
from operations.stored import StoredError, read_stored
from operations.survey import survey
from probes.asking.load import ProbeNotLoaded, load
from probes.evidence import Evidence, Limits

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

FOLDER = "verified"
_began: list[str] = []


@dataclass(frozen=True)
class Row:
    """One service on one node: what its probes found, or why nothing could be asked."""

    node: str
    service: str
    release: str
    endpoint: str
    evidence: tuple[Evidence, ...]
    measured: dict[str, Any] | None = None
    """What the engine said of its cache when it was proven."""
    gpus: tuple[dict[str, int], ...] = ()
    """Memory that is free on each GPU, in MiB, as the node was looked at before the probes."""
    started: Started | None = None
    """What its log and nvidia-smi said of its memory when it was proven."""
    figures: tuple[Figure, ...] = ()
    """What was predicted, beside what it logged."""
    context: int | None = None
    """Tokens that a request of this release may have."""

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {
            "node": self.node,
            "service": self.service,
            "release": self.release,
            "endpoint": self.endpoint,
            "measured": self.measured,
            "gpus": list(self.gpus),
            "started": self.started.model_dump(mode="json") if self.started else None,
            "predicted_and_logged": [one.document() for one in self.figures],
            "max_model_len": self.context,
            "evidence": [item.model_dump(mode="json") for item in self.evidence],
        }


@dataclass(frozen=True)
class Found:
    """What one run of verify.py found."""

    fleet: str
    when: str
    rows: tuple[Row, ...]

    @property
    def exit_code(self) -> int:
        """0: all passed, 1: one failed, 2: one is degraded and none failed."""
        statuses = {item.status for row in self.rows for item in row.evidence}
        return 1 if "failed" in statuses else 2 if "degraded" in statuses else 0

    def document(self) -> dict[str, Any]:
        """For machines."""
        code = self.exit_code
        rows = [row.document() for row in self.rows]
        return {"verb": "verify", "fleet": self.fleet, "when": self.when, "exit_code": code, "results": rows}


def first(host: str) -> bool:
    """Is this the first host that came?"""
    _began.append(host)
    return len(_began) == 1


def ask(state: "State", invocation: Invocation) -> Found:
    """Look at every node, then ask what runs there: nodes side by side, services of one node one after the other."""
    for name in ("report", "history"):
        writable(getattr(invocation.overrides, name), name)
    secret = secrets_of(invocation)
    hosts, silent = hosts_of(state)
    answers = {**observe(invocation, list(hosts.values()), secret), **silent}
    looked = survey(invocation.fleet, answers, secret, changing=False)
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    only = invocation.overrides.service
    chosen = [plan for plan in looked.plans if only in (None, plan.service.name) and plan.serves]
    by_node: dict[str, list[Plan]] = {}
    for plan in chosen:
        by_node.setdefault(plan.node.name, []).append(plan)

    def one_node(plans: list[Plan]) -> list[Row]:
        return [_row(hosts[plan.node.name], plan, invocation, when) for plan in plans]

    rows = [row for rows in Pool(256).imap(one_node, by_node.values()) for row in rows]
    rows += [Row(node, "-", "-", "-", (_unasked("an answer over SSH", why),)) for node, why in looked.unread.items()]
    if not rows:
        about = invocation.overrides.service or "any service"
        rows.append(Row("-", about, "-", "-", (_unasked(f"{about} on one of these nodes", "none declared"),)))
    return Found(invocation.fleet.name, when, tuple(rows))


def _unasked(wanted: str, found: str) -> Evidence:
    return Evidence(probe="-", passed=False, wanted=wanted, found=found, seconds=0)


def _row(host: "Host", plan: Plan, invocation: Invocation, when: str) -> Row:
    node, service = plan.node.name, plan.service.name
    lies = plan.installed
    if lies is None or lies.current is None:
        return Row(node, service, "-", "-", (_unasked("a release", "none; roll it out first"),))
    if lies.pending is not None:
        why = f"{lies.pending.release}, which a rollout is about to prove"
        return Row(node, service, lies.current, "-", (_unasked("a proven release", why),))
    try:
        endpoint = read_stored(host, plan.node, service, lies.current).endpoint
    except StoredError as error:
        return Row(node, service, lies.current, "-", (_unasked("a release that can be read", str(error)),))
    folders = probe_folders(invocation)
    names = invocation.overrides.probes or plan.service.policy.proof or ("smoke",)
    evidence: list[Evidence] = []
    for name in names:
        limits = Limits(
            total_s=invocation.overrides.seconds or plan.service.policy.proof_s,
            trials=invocation.overrides.trials,
            before=found_before([lies.proof, lies.verified], name),
        )
        try:
            evidence.append(
                load(name, folders)(endpoint, limits, now_and_then(lambda text: host.log(f"{service}: {text}")))
            )
        except ProbeNotLoaded as error:
            evidence.append(Evidence(probe=name, passed=False, wanted="a probe", found=str(error), seconds=0))
        host.log(f"{service}: {evidence[-1]}")
    free = [
        {"index": gpu.index, "free_mib": gpu.memory_mib - gpu.memory_used_mib}
        for gpu in (plan.facts.nvidia.gpus if plan.facts else ())
        if gpu.memory_mib is not None and gpu.memory_used_mib is not None
    ]
    running = current_plan(plan)
    row = Row(
        node,
        service,
        lies.current,
        endpoint.url,
        tuple(evidence),
        measured_then(lies.proof),
        tuple(free),
        started_of(plan),
        side_by_side(plan),
        running.service.max_model_len if running else None,
    )
    return _kept(host, row, lies, when)


def _kept(host: "Host", row: Row, lies: Installed, when: str) -> Row:
    """The row, noted on the node beside its release; a node that cannot note it is told as a failure."""
    evidence = [_without_samples(item) for item in row.document()["evidence"]]
    document = {"format": 1, "release": row.release, "when": when, "evidence": evidence}
    words = (NODE_SCRIPT, "verified", row.service, str(lies.current))
    done = run(host, words, stdin=json.dumps(document) + "\n")
    if done.reason is None:
        return row
    wrong = Evidence(probe="-", passed=False, wanted="the result kept on the node", found=done.reason, seconds=0)
    return replace(row, evidence=(*row.evidence, wrong))


def _without_samples(evidence: dict[str, Any]) -> dict[str, Any]:
    """Without the single values of a speed run: a node's file of more than 64 KiB is not read back."""
    levels = evidence["details"].get("levels")
    if not isinstance(levels, list):
        return evidence
    few = [{name: value for name, value in level.items() if name != "samples"} for level in levels]
    return {**evidence, "details": {**evidence["details"], "levels": few}}


def _lines(rows: Iterable[Row]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        for item in row.evidence:
            yield row.node, row.service, row.release, item.probe, item.status, item.wanted, item.found


def show(found: Found, invocation: Invocation) -> None:
    """The table for people, JSON where `--json` asks for it, and the files."""
    names = ["node", "service", "release", "probe", "status", "wanted", "found"]
    print_table(console(invocation.json), "Verify", names, list(_lines(found.rows)))
    for row in found.rows:
        for one in row.figures:
            if one.far:
                console(invocation.json).print(
                    f"finding: {row.service} on {row.node}: {one.finding}", markup=False, soft_wrap=True
                )
    folder = Path(invocation.overrides.history or FOLDER)
    path = folder / f"{found.fleet}-{found.when.replace(':', '').replace('+0000', 'Z')}.json"
    report = invocation.overrides.report
    with at_the_end():
        hand_over(found.document, Path(report) if report else None)
        folder.mkdir(parents=True, exist_ok=True)
        hand_over(found.document, path)
    console(invocation.json).print(f"kept: {path}", markup=False, soft_wrap=True)


def leave(found: Found) -> NoReturn:
    """End pyinfra's run with the exit code: there is nothing to execute."""
    sys.stdout.flush()
    sys.exit(found.exit_code)
