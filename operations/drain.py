"""Take a replica out of traffic, wait for its requests, put it back. The owner's hooks do the first and the last."""

import shlex
import subprocess
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
    words = tuple(_filled(word, values) for word in hook.command)
    on_node = hook.on == "node"
    reason = run(host, words, timeout_s=HOOK_TIMEOUT_S).reason if on_node else _on_controller(words)
    if reason is not None:
        raise HookError(f"hook {shlex.join(words)} on the {hook.on}: {reason}")


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace("{" + name + "}", value)
    return word


def _on_controller(words: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=HOOK_TIMEOUT_S,
            start_new_session=True,  # Ctrl-C is for the rollout, which ends its turn
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else f"exit {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}"


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
