"""Ctrl-C, SIGTERM, SIGHUP end a run with 1. pyinfra's own handler exits with 0, in the middle of whatever there is."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import click
from gevent.pool import Pool
from pyinfra import state
from pyinfra.context import ctx_state

from declare import machine


def signals() -> tuple[signal.Signals, ...]:
    """What ends a run. SIGHUP is a terminal that was closed; who has it ignored (nohup) wants the run to go on."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if ignored else (signal.SIGHUP,)))


def at_once() -> NoReturn:
    """End the process with 1 from a signal's handler, whatever still runs on the hosts.

    pyinfra says good-bye to every host through the pool whose places those hold that still run: with all of them taken
    it would wait for their end.
    """
    if ctx_state.isset() and state.initialised:
        state.pool = Pool()
    sys.exit(1)


def say(text: str) -> None:
    """From now on a signal ends the run with 1 and says this: what was begun by now, or that nothing was."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        told = f"{signal.Signals(number).name}: {text}"
        with suppress(OSError):  # nobody reads any more
            click.echo(f"\n{told}", err=True)
        machine.because(told)
        at_once()

    for number in signals():
        signal.signal(number, on_signal)


@contextmanager
def saying(text: str) -> Iterator[None]:
    """The same for a part of a run, which afterwards does with signals what it did before."""
    before = {number: signal.getsignal(number) for number in signals()}
    say(text)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
