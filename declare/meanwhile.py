"""What can be done while pyinfra connects: hosts work longer on a connection than the controller does."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import gevent

from declare.invocation import Invocation

if TYPE_CHECKING:
    from pyinfra.api.state import State

WORK = {
    "audit.py": "operations.audit",
    "bootstrap.py": "operations.bootstrap.verb",
    "deliver.py": "operations.delivery.verb",
    "deploy.py": "operations.prepare",
    "gates.py": "operations.judging",
    "rollback.py": "operations.back",
    "verify.py": "operations.verify",
}
"""The module that each verb's file imports, and that brings nearly all that the verb needs."""
HOSTS_HAVE_BEGUN_S = 0.05


def work_while_hosts_answer(operations: Sequence[str], state: "State", invocation: Invocation) -> None:
    """Import what the verb's file will import, as soon as pyinfra has begun to connect, and begin what it can begin.

    pyinfra loads that file when all hosts are connected; they would wait for it. A module that has something to do
    before has a function `while_connecting`.
    """
    module = WORK.get(Path(operations[0]).name) if operations else None
    if module:
        gevent.spawn_later(HOSTS_HAVE_BEGUN_S, _work, module, state, invocation)


def _work(module: str, state: "State", invocation: Invocation) -> None:
    begin = getattr(import_module(module), "while_connecting", None)
    if begin is not None:
        begin(state, invocation)
