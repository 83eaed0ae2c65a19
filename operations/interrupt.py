"""Ctrl-C, SIGTERM, SIGHUP: the first lets the turns that have begun end, the second leaves at once. All exit with 1."""

import signal
from collections.abc import Callable
from types import FrameType

from declare import leave, machine
from operations.run import Run
from operations.show import console, unread


def listen(current: Callable[[], Run | None]) -> None:
    """Take the signals over. `current` gives the run, once there is one; before it nothing was changed."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        name, rollout = signal.Signals(number).name, current()
        if rollout is None:
            told = f"{name}: left before anything was changed"
            machine.because(told)
            with unread():
                console(machine=True).print(f"\n{told}")
            leave.at_once()
        rollout.stop(f"interrupted by {name}")
        if rollout.interrupted or not rollout.locks.held:
            leave.at_once()  # the run tells for itself
        rollout.interrupted = True
        told = "turns that have begun are ended, no other begins; once more to leave at once"
        with unread():
            console(rollout.json).print(f"\n{name}: {told}", style="bold yellow", markup=False, soft_wrap=True)

    for number in leave.signals():
        signal.signal(number, on_signal)
