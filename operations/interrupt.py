"""Ctrl-C and SIGTERM: the first lets the turns that have begun end, the second leaves at once. Both exit with 1."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from operations.run import Run


def listen(current: Callable[[], "Run | None"]) -> None:
    """Take the signals over. `current` gives the run, once there is one; before it nothing was changed."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        name, rollout = signal.Signals(number).name, current()
        if rollout is None or rollout.interrupted or not rollout.locks.held:
            sys.exit(1)
        from operations.show import console  # a delivery takes signals over too, and has no table to print

        rollout.interrupted = True
        rollout.stop(f"interrupted by {name}")
        told = "turns that have begun are ended, no other begins; once more to leave at once"
        console(rollout.json).print(f"\n{name}: {told}", style="bold yellow", markup=False, soft_wrap=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)


def say(text: str) -> None:
    """From now on a signal ends the run with 1 and says this, for something was begun."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        click.echo(f"\n{signal.Signals(number).name}: {text}", err=True)
        sys.exit(1)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)


@contextmanager
def saying(text: str) -> Iterator[None]:
    """The same for a part of a run, which afterwards does with signals what it did before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    say(text)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
