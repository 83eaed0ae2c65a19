"""The delivery itself: every node takes what it lacks from whoever has it, and gives it on once verified."""

import gevent
from gevent.pool import Pool

from operations.delivery.run import Delivery
from operations.delivery.turn import Turn


def deliver(run: Delivery) -> None:
    """All nodes at once, to the end of each; then every node gives up its lease and stops to listen."""
    turns = [Turn(run, run.hosts[name]) for name in run.taking_part]
    pause = min(max(5.0, len(turns) / 10), run.fleet.delivery.lease_s / 3)
    watching = [gevent.spawn(_watch, turn, pause) for turn in turns]
    try:
        Pool(1024).map(lambda turn: turn.bring(), turns)
    finally:
        gevent.killall(watching)
        Pool(256).map(lambda turn: turn.end(), turns)
    bad = [row for row in run.rows if not row.good and row.status != "untouched"]
    if bad:
        item = run.found.items.get(bad[0].item)  # None: the node did not answer, and nobody knows what it lacks
        run.stop(": ".join((bad[0].node, *((item.name,) if item else ()), bad[0].reason)))


def _watch(turn: Turn, pause: float) -> None:
    """Renew the lease of one node, and tell how far it is. Each for itself: none waits for a silent one."""
    while turn.living:
        gevent.sleep(pause)
        turn.tell()
