"""Ctrl-C, SIGTERM, SIGHUP: the first lets the turns that have begun end, the second leaves at once. All exit with 1."""

import signal
from collections.abc import Callable
from types import FrameType

from declare import leave, machine
from operations.run import Run
from operations.show import console, unread


def _take(on_signal: Callable[[int, FrameType | None], None]) -> None:
    """SIGHUP is a terminal that was closed; who has it ignored (nohup) wants the run to go on."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    for number in (signal.SIGINT, signal.SIGTERM, *(() if ignored else (signal.SIGHUP,))):
        signal.signal(number, on_signal)


def leave_by(say: Callable[[str], None]) -> None:
    """Leave with 1 at the first of the signals, through every `finally`, after its name was told."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        with unread():
            say(signal.Signals(number).name)
        sys.exit(1)

    _take(on_signal)


def listen(current: Callable[[], Run | None]) -> None:
    """Take the signals over. `current` gives the run, once there is one; before it nothing was changed."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        name, rollout = signal.Signals(number).name, current()
        if rollout is not None:
            rollout.stop(f"interrupted by {name}")
        else:
            with unread():
                console(machine=True).print(f"{name}: left before anything was changed")
        if rollout is None or rollout.interrupted or not rollout.locks.held:
            machine.because(f"{name}: left before anything was changed")  # else the run tells for itself
            leave.at_once()
        rollout.interrupted = True
        told = "turns that have begun are ended, no other begins; once more to leave at once"
        with unread():
            console(rollout.json).print(f"\n{name}: {told}", style="bold yellow", markup=False, soft_wrap=True)

    _take(on_signal)
