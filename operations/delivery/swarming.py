"""The delivery itself: every node takes what it lacks from whoever has it, and gives it on once verified."""

import time

import gevent
from gevent.pool import Pool

from operations.delivery.run import Delivery
from operations.delivery.turn import Turn


def deliver(run: Delivery) -> None:
    """All nodes at once, to the end of each; then every node gives up its lease and stops to listen."""
    turns = [Turn(run, run.hosts[name]) for name in run.taking_part]
    began = time.monotonic()
    watching = gevent.spawn(_watch, run, turns, began)
    try:
        Pool(1024).map(lambda turn: turn.bring(), turns)
    finally:
        watching.kill()
        Pool(256).map(lambda turn: turn.end(), turns)
    bad = [row for row in run.rows if not row.good and row.status != "untouched"]
    if bad:
        run.stop(f"{bad[0].node}: {run.found.items[bad[0].item].name}: {bad[0].reason}")


def _watch(run: Delivery, turns: list[Turn], began: float) -> None:
    """Renew the leases, and tell how far each node is."""
    pause = max(5.0, len(turns) / 10)
    while True:
        gevent.sleep(pause)
        Pool(256).map(lambda turn: turn.tell(time.monotonic() - began), [turn for turn in turns if turn.living])
