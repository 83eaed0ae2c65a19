"""The story of an audit, in the parts that audit.py tells: look, show, leave. Nothing on a node is changed by it."""

import datetime
import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from declare.invocation import Invocation
from fleet.audit import Audit
from fleet.drift import Case, audit, checks
from operations import secrets
from operations.node_script import outdated_support
from operations.prepare import hosts_of, observe, secrets_of
from operations.report_file import at_the_end, hand_over, writable
from operations.show import console
from operations.show_audit import print_audit
from operations.survey import Secrets, Survey, survey

if TYPE_CHECKING:
    from pyinfra.api.state import State

_began: list[str] = []


def first(host: str) -> bool:
    """Is this the first host that came?"""
    _began.append(host)
    return len(_began) == 1


def look(state: "State", invocation: Invocation) -> Audit:
    """Ask every node once, and compare. Raises DeployError where a secret or a path to write to cannot be used."""
    gc.disable()  # what is read stays until the process ends
    for name in ("report", "html", "history"):
        writable(getattr(invocation.overrides, name), name)
    secret = secrets_of(invocation)
    hosts, silent = hosts_of(state)
    answers = {**observe(invocation, list(hosts.values()), secret, deep=True, audit=True), **silent}
    return compared(survey(invocation.fleet, answers, secret, changing=False), secret)


def compared(found: Survey, secret: Secrets) -> Audit:
    """What was found, against what should be."""
    changes = {(change.node, change.service): change for change in found.changes}
    cases = [
        Case(
            plan=plan,
            release=found.releases[key],
            change=changes[key],
            digests=_digests(plan.node.recording, secret, key),
        )
        for plan in found.plans
        if (key := (plan.node.name, plan.service.name)) in found.releases
    ]
    support = {
        view.node.name: tuple(sorted(outdated_support(view.facts))) for view in found.views if view.facts is not None
    }
    return Audit(
        fleet=found.fleet.name,
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        views=found.views,
        unread=found.unread,
        cases=tuple(cases),
        verdicts=found.verdicts,
        drifts=audit(cases, found.views, found.verdicts, support),
    ).without(secret.all_values)


def _digests(recording: str | None, secret: Secrets, key: tuple[str, str]) -> dict[str, str] | None:
    return None if recording else secrets.digests(secret.of(*key), secret.key)


def show(found: Audit, invocation: Invocation) -> None:
    """The table for people, JSON where `--json` asks for it, and the files that were asked for."""
    overrides = invocation.overrides
    print_audit(console(invocation.json), found, len(checks()))
    with at_the_end():
        hand_over(found.document, Path(overrides.report) if overrides.report else None)
        history = _history(overrides.history, found)
        if overrides.html:
            from templates.report import page  # the drawing is not needed for a look

            Path(overrides.html).write_text(page(found, history), encoding="utf-8")
            console(invocation.json).print(f"report: {overrides.html}", markup=False, soft_wrap=True)


def _history(folder: str | None, found: Audit) -> list[dict[str, Any]]:
    """Audits that the folder keeps, oldest first, with this one, which is added to it."""
    if folder is None:
        return []
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    document = found.document()
    name = f"{found.when.replace(':', '').replace('+0000', 'Z')}.json"
    (place / name).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    kept = []
    for path in sorted(place.glob("*.json"))[-30:]:
        try:
            told = json.loads(path.read_text())
        except (OSError, ValueError):
            continue  # a file of somebody else
        if isinstance(told, dict) and told.get("verb") == "audit" and told.get("fleet") == found.fleet:
            kept.append(told)
    return kept


def leave(found: Audit) -> NoReturn:
    """End pyinfra's run with the audit's exit code: there is nothing to execute."""
    sys.stdout.flush()
    sys.exit(found.exit_code)
