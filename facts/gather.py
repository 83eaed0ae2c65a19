"""Ask many nodes at once, from inside one pyinfra run.

pyinfra's own `get_facts` deadlocks when deploy code calls it (it shares the pool), and a fact that fails leaves its
default value behind while the deploy goes on. Here each node gives its facts or the reason why there are none.
"""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gevent.pool import Pool

from facts.parse.probe import ProbeError, parse_probe
from facts.script import probe_script
from facts.shell import run
from fleet.frozen import Frozen
from fleet.node import NodeFacts, ProbeRequest

if TYPE_CHECKING:
    from pyinfra.api.host import Host

PROBE_TIMEOUT_S = 60
AT_ONCE = 256
_READ_WHOLE = """exec bash -c 'text=$(cat); eval "$text"'"""
"""`bash -s` reads what comes over a network byte by byte, a system call for each."""


class Answer(Frozen):
    """What one node said: its facts, or why there are none."""

    node: str
    facts: NodeFacts | None = None
    reason: str | None = None
    seconds: float = 0.0


def ask(host: "Host", request: ProbeRequest) -> Answer:
    """Run the probe on one host. Never raises for anything that the node did."""
    began = time.monotonic()
    script = probe_script(request)
    output = run(host, _READ_WHOLE, stdin=script.text, timeout_s=PROBE_TIMEOUT_S)
    seconds = time.monotonic() - began
    if output.reason:
        return Answer(node=host.name, reason=output.reason, seconds=seconds)
    try:
        return Answer(node=host.name, facts=parse_probe(output.stdout, script), seconds=seconds)
    except ProbeError as error:
        return Answer(node=host.name, reason=f"{error}{output.tail()}", seconds=seconds)


def gather(
    hosts: Iterable["Host"],
    request_of: Callable[[str], ProbeRequest],
    told: Callable[[Answer], Any] | None = None,
    ready: Callable[[str], None] | None = None,
) -> dict[str, Answer]:
    """Node name -> its answer, all nodes at the same time.

    `told` is called as each answer arrives; `ready` returns when a node, by its name, may be asked.
    """

    def one(host: "Host") -> Answer:
        if ready:
            ready(host.name)
        return ask(host, request_of(host.name))

    answers: dict[str, Answer] = {}
    for answer in Pool(AT_ONCE).imap_unordered(one, list(hosts)):
        answers[answer.node] = answer
        if told:
            told(answer)
    return answers
