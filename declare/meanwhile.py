"""What can be done while pyinfra connects: hosts work longer on a connection than the controller does."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import gevent

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


def load_while_hosts_answer(operations: Sequence[str]) -> None:
    """Import what the verb's file will import, as soon as pyinfra has begun to connect.

    pyinfra loads that file when all hosts are connected; they would wait for it.
    """
    module = WORK.get(Path(operations[0]).name) if operations else None
    if module:
        gevent.spawn_later(HOSTS_HAVE_BEGUN_S, import_module, module)
