"""Ctrl-C and SIGTERM: the first lets the turns that have begun end, the second leaves at once. Both exit with 1."""

import signal
import sys
from collections.abc import Callable
from types import FrameType

from operations.run import Run
from operations.show import console


def listen(current: Callable[[], Run | None]) -> None:
    """Take the signals over. `current` gives the run, once there is one; before it nothing was changed."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        name, rollout = signal.Signals(number).name, current()
        if rollout is None or rollout.interrupted or not rollout.locks.held:
            sys.exit(1)
        rollout.interrupted = True
        rollout.stop(f"interrupted by {name}")
        told = "turns that have begun are ended, no other begins; once more to leave at once"
        console(rollout.json).print(f"\n{name}: {told}", style="bold yellow", markup=False, soft_wrap=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
