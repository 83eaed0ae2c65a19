"""Only the gates: look at every node deeply, judge, show, and end. Nothing is locked and nothing is changed."""

import gc
import sys
from typing import TYPE_CHECKING

from declare.invocation import Invocation
from operations.prepare import hosts_of, observe, secrets_of
from operations.report_file import at_the_end, hand_over, report_path
from operations.show import console, print_gates
from operations.survey import Survey, survey

if TYPE_CHECKING:
    from pyinfra.api.state import State

_begun: list[bool] = []


def judge(state: "State", invocation: Invocation) -> None:
    """Ask every gate of every node of this run, print the table, and leave: exit 1 where one stops a rollout, else 0.

    Only the first host that comes gets here; the others, which may come while it looks or before the process has ended,
    find that it did.
    """
    if _begun:
        return
    _begun.append(True)
    gc.disable()  # what is read stays until the process ends: the collector would go through it again and again
    path = report_path(invocation)
    secret = secrets_of(invocation)
    hosts, silent = hosts_of(state)
    answers = {**observe(invocation, list(hosts.values()), secret, deep=True), **silent}
    found = survey(invocation.fleet, answers, secret, invocation.prune)
    out = console(invocation.json)
    print_gates(out, found.verdicts, found.not_asked)
    with at_the_end():
        hand_over(lambda: document(found), path)
    sys.stdout.flush()
    sys.exit(0 if passed(found) else 1)


def passed(found: Survey) -> bool:
    """Would a rollout of every node go on?"""
    return not any(verdict.stops for verdict in found.verdicts)


def document(found: Survey) -> dict[str, object]:
    """What machines read: whether all passed, how often each status was given, and every verdict."""
    counts = {status: sum(v.status == status for v in found.verdicts) for status in ("pass", "warn", "fail", "waived")}
    return {
        "verb": "gates",
        "fleet": found.fleet.name,
        "passed": passed(found),
        "counts": counts,
        "not_asked": list(found.not_asked),
        "verdicts": [verdict.model_dump() for verdict in found.verdicts],
    }
