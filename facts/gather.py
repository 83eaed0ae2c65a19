"""Ask many nodes at once, from inside one pyinfra run.

pyinfra's own `get_facts` deadlocks when deploy code calls it (it shares the pool), and a fact that fails leaves its
default value behind while the deploy goes on. Here each node gives its facts or the reason why there are none.
"""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gevent.pool import Pool

from facts.parse.probe import ProbeError, parse_probe
from facts.script import probe_script
from facts.shell import READ_WHOLE, run
from fleet.frozen import Frozen
from fleet.nodes.node import NodeFacts
from fleet.nodes.request import ProbeRequest

if TYPE_CHECKING:
    from pyinfra.api.host import Host

PROBE_TIMEOUT_S = 60
AT_ONCE = 256


class Answer(Frozen):
    """What one node said: its facts, or why there are none."""

    node: str
    facts: NodeFacts | None = None
    reason: str | None = None


def ask(host: "Host", request: ProbeRequest) -> Answer:
    """Run the probe on one host. Never raises for anything that the node did."""
    script = probe_script(request)
    asked = time.time()
    output = run(host, READ_WHOLE, stdin=script.text, timeout_s=PROBE_TIMEOUT_S)
    if output.reason:
        return Answer(node=host.name, reason=output.reason)
    try:
        facts = parse_probe(output.stdout, script)
        ahead = clock_ahead(facts.now, asked, time.time())
        return Answer(node=host.name, facts=facts.model_copy(update={"clock_ahead_s": ahead}))
    except ProbeError as error:
        return Answer(node=host.name, reason=f"{error}{output.tail()}")


def clock_ahead(now: int, asked: float, answered: float) -> float:
    """Seconds that a node's clock, which said `now` between two times of ours, is ahead of it; negative: behind."""
    if now > answered:
        return now - answered
    return min(0.0, now + 1 - asked)  # a whole second was told, and a part of it may have gone by


def gather(
    hosts: Iterable["Host"],
    request_of: Callable[[str], ProbeRequest],
    ready: Callable[[str], None] | None = None,
) -> dict[str, Answer]:
    """Node name -> its answer, all nodes at the same time; each as soon as `ready` returns for its name."""

    def one(host: "Host") -> Answer:
        if ready:
            ready(host.name)
        return ask(host, request_of(host.name))

    return {answer.node: answer for answer in Pool(AT_ONCE).imap_unordered(one, list(hosts))}
