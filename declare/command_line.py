"""What `inventory.py` does under pyinfra: the fleet, pyinfra's settings for a rollout, errors without a traceback."""

import atexit
import gc
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from pyinfra import config, logger, state
from pyinfra.api.exceptions import InventoryError
from pyinfra.api.state import MAX_PARALLEL
from pyinfra_cli.cli import cli

from declare import leave, machine
from declare.garbage import search_seldom
from declare.guard import has_terminal, refused_data
from declare.inventory import Host, hosts, unusable_keys
from declare.invocation import Invocation, enter
from declare.meanwhile import load_while_hosts_answer
from declare.operation_order import read_no_source_lines
from declare.problem import DeclarationError
from declare.quiet import name_no_code


def open_inventory() -> tuple[list[Host], dict[str, list[str]]]:
    """Hosts and groups of the fleet that FLEET names. Raises InventoryError, which pyinfra prints and exits 1 for."""
    _obey_no_color()
    name_no_code()
    speak_to_machines()
    try:
        invocation = enter(os.environ.get("FLEET"), _options())
        if unusable := _unusable_keys(invocation):
            raise DeclarationError(unusable)
    except DeclarationError as error:
        raise InventoryError(_told(error.lines)) from None
    read_no_source_lines()
    everyone, groups = hosts(invocation.fleet)
    for warning in invocation.fleet.warnings:
        logger.warning(f"--> {warning}")
    _settle(len(everyone))
    load_while_hosts_answer(_options().get("operations") or ())
    return everyone, groups


def speak_to_machines() -> None:
    """With `--json` our verbs print one document of their own, also where they are refused."""
    options = _options()
    if options.get("json_output") and not options.get("debug_operations"):
        machine.speak(options.get("operations") or ())


def leave_with_one() -> None:
    """Ctrl-C and SIGTERM while pyinfra still connects exit with 1; pyinfra's own handler exits with 0."""
    leave.say("left before anything was looked at; nothing was changed")


def refuse_malformed_call() -> None:
    """Raises InventoryError where `--data` is no NAME=VALUE, or a verb of ours is asked of another inventory."""
    name_no_code()
    options = _options()
    wrong = refused_data(options.get("data") or ())
    verb, inventory = next(iter(options.get("operations") or ()), ""), str(options.get("inventory") or "")
    if machine.is_ours(verb) and Path(inventory).name != "inventory.py":
        wrong.append(f"want `pyinfra inventory.py {verb}`, whose fleet FLEET names, found the inventory {inventory!r}")
    if wrong:
        raise InventoryError(_told(wrong))


def _told(lines: Iterable[str]) -> str:
    return "\n".join(("refused, nothing was changed", *(f"    {line}" for line in lines)))


def _options() -> dict[str, Any]:
    """Options of pyinfra's own command by click's names; empty where something else loads the inventory."""
    context = click.get_current_context(silent=True)
    return dict(context.params) if context is not None and context.command is cli else {}


def _unusable_keys(invocation: Invocation) -> list[str]:
    """What is wrong with the keys that this run would use: its own, or those that are declared."""
    options = _options()
    if (options.get("operations") or ("",))[0] == "debug-inventory":
        return []
    own = dict(word.split("=", 1) for word in options.get("data") or ())
    key = options.get("ssh_key") or own.get("ssh_key")
    password = options.get("ssh_key_password") or own.get("ssh_key_password")
    return unusable_keys(invocation.fleet, invocation.nodes, key, bool(password) or has_terminal())


def _settle(hosts: int) -> None:
    """All hosts at once, and no question on stdin: without -y pyinfra would ask whether to go on when a host fails.

    What a failed host means is the rollout's policy, which must unlock and report whatever the answer.
    """
    if not config.PARALLEL:
        config.PARALLEL = max(1, min(hosts, MAX_PARALLEL))
    config.FAIL_PERCENT = None
    state.should_raise_failed_hosts = None
    search_seldom()
    atexit.register(gc.freeze)  # Python would look for cycles in all that lives, at its very end


class _Plain(logging.Formatter):
    """What another formatter makes of a record, without its colours."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return click.unstyle(self._inner.format(record))


def _obey_no_color() -> None:
    """pyinfra colours its own lines on every terminal; NO_COLOR (no-color.org) asks it not to."""
    for handler in logger.handlers if os.environ.get("NO_COLOR") else ():
        if handler.formatter is not None and not isinstance(handler.formatter, _Plain):
            handler.setFormatter(_Plain(handler.formatter))
