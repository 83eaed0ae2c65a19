"""Take a replica out of traffic, wait for its requests, put it back. The owner's hooks do the first and the last."""

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facts.shell import run
from fleet.declaration import NodeDeclaration
from fleet.policy import Hook
from fleet.releases.command import unit_name
from fleet.span import serves
from operations.steps import Step, endpoint_of
from probes.asking.metrics import MetricsError, running_requests

if TYPE_CHECKING:
    from pyinfra.api.host import Host

HOOK_TIMEOUT_S = 120
TOLD_BYTES = 500
"""Of what a hook that failed said, at the end."""


class HookError(RuntimeError):
    """A hook of the owner failed: its words and what it said."""


def call_hook(host: "Host", hook: Hook, step: Step) -> None:
    """Run a hook on the controller or the node. Raises HookError where it does not exit 0 within two minutes."""
    values = {
        "node": step.node,
        "service": step.service,
        "address": str(host.data.get("ssh_hostname", "")),
        "port": step.endpoint.url.rpartition(":")[2],
    }
    called = words = tuple(_filled(word, values) for word in hook.command)
    if hook.on == "node":  # which ends it a little after we gave it up: nobody else would
        words = ("timeout", "--kill-after=5", str(HOOK_TIMEOUT_S + 5), *words)
        reason = run(host, words, timeout_s=HOOK_TIMEOUT_S).reason
    else:
        reason = _on_controller(words)
    if reason is not None:
        raise HookError(f"hook {shlex.join(called)} on the {hook.on}: {reason}")


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace("{" + name + "}", value)
    return word


def _on_controller(words: tuple[str, ...]) -> str | None:
    """Only the hook itself is waited for, and where it hangs, what it started goes with it.

    So its output is a file: of a pipe the end is seen when the last process that holds it has ended.
    """
    with tempfile.TemporaryFile() as said:
        try:
            # A session of its own: Ctrl-C is for the rollout, which ends its turn.
            hook = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            return str(error)
        try:
            code = hook.wait(HOOK_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(hook.pid, signal.SIGKILL)
            hook.wait()
            return f"it did not end within {HOOK_TIMEOUT_S} s"
        said.seek(max(0, said.seek(0, os.SEEK_END) - TOLD_BYTES))
        return None if code == 0 else f"exit {code}: {said.read().decode(errors='replace').strip()}"


def wait_for_requests(step: Step, say: Callable[[str], None]) -> int | None:
    """Wait until the engine runs no request or `drain_s` is over. How many still run then; None where it did not tell.

    Without a drain hook new requests keep coming, so there is nothing to wait for: what runs now is counted.
    """
    if step.old_endpoint is None or step.old is None or step.old.unit is None or step.old.unit.active != "active":
        return 0
    began, told, quiet = time.monotonic(), 0.0, 0
    while True:
        running = _running(step.old_endpoint.url, say)
        quiet = quiet + 1 if running == 0 else 0
        spent = time.monotonic() - began
        # A request that the proxy sent just before the hook may still be on its way: quiet means twice.
        if quiet == 2 or step.policy.drain is None or spent >= step.policy.drain_s:
            return running
        if spent - told >= 10:
            say(f"draining: {running} requests run, {spent:.0f} s of {step.policy.drain_s}")
            told = spent
        time.sleep(0.25)


def running_at_removal(
    host: "Host", node: NodeDeclaration, service: str, lies: dict[str, Any], say: Callable[[str], None]
) -> int | None:
    """Requests that run in a service which is about to go. 0: it does not run; None: it did not tell.

    `lies` is its plan.json. No hook takes it out of traffic: it is declared no longer, and its hooks with it.
    """
    if not lies or not serves(lies) or run(host, ("systemctl", "is-active", "--", unit_name(service))).reason:
        return 0
    return _running(endpoint_of(node, lies, None).url, say)


def _running(url: str, say: Callable[[str], None]) -> int | None:
    try:
        return running_requests(url)
    except MetricsError as error:
        say(f"running requests are unknown: {error}")
        return None
