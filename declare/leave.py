"""Ctrl-C and SIGTERM end a run with 1. pyinfra's own handler exits with 0, in the middle of whatever there is."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from declare import machine


def say(text: str) -> None:
    """From now on a signal ends the run with 1 and says this: what was begun by now, or that nothing was."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        told = f"{signal.Signals(number).name}: {text}"
        click.echo(f"\n{told}", err=True)
        machine.because(told)
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
