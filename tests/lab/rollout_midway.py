"""A rollout in the middle of its way: started in the background, slowed down, looked at and killed."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml
from rollout_site import Ran, RolloutSite

from probes.asking.ask import ask
from probes.evidence import Endpoint, Limits


def until(true: Callable[[], Any], limit_s: float, what: str) -> None:
    """Wait for it."""
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, f"want within {limit_s:g} s: {what}"
        time.sleep(0.2)


def expect(site: RolloutSite, node: str, limit_s: float, **wanted: str) -> None:
    """What lies on a node becomes what is wanted."""
    until(lambda: wanted.items() <= site.state(node, "chat").items(), limit_s, f"{node}: {wanted}")


def expect_pending(site: RolloutSite, node: str, active: str, limit_s: float = 60) -> None:
    """A node has switched to a release that is not proven: it is activating (it loads) or active."""

    def pending() -> bool:
        state = site.state(node, "chat")
        return state.get("pending", "") != "" and state["active"] == active

    until(pending, limit_s, f"{node} has an unproven release that is {active}")


def set_faults(site: RolloutSite, faults: dict[str, str]) -> None:
    """A fault of a node's next release: it is part of its environment, so the release before does not have it."""
    for node in site.nodes:
        path = site.fleet / f"{node}.yaml"
        declared = {name: value for name, value in yaml.safe_load(path.read_text()).items() if name != "services"}
        if node in faults:
            declared["services"] = {"chat": {"env": {"VLLM_STANDIN_FAULT": faults[node]}}}
        path.write_text(yaml.safe_dump(declared))


def serves(site: RolloutSite, node: str) -> bool:
    """A completion is answered."""
    endpoint = Endpoint(url=f"http://{site.lab.node(node).address}:8000", model="chat")
    return "4" in ask(endpoint, "What is 2 + 2?", Limits(total_s=10)).text


def states(site: RolloutSite) -> dict[str, dict[str, str]]:
    """What lies on every node."""
    return {node: site.state(node, "chat") for node in site.nodes}


def kill(run: "subprocess.Popen[str]") -> None:
    """The whole process group at once, as a power cut of the controller would."""
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()


def ended(run: "subprocess.Popen[str]", limit_s: float = 150) -> Ran:
    """What a run in the background ended with."""
    out, _ = run.communicate(timeout=limit_s)
    return Ran(code=run.returncode, out=out)


def results(site: RolloutSite) -> dict[str, Any]:
    """What the report of the last run tells of each node."""
    return {row["node"]: row for row in json.loads((site.root / "report.json").read_text())["results"]}


@contextmanager
def slow_once(site: RolloutSite, node: str, program: str, seconds: float) -> Iterator[Callable[[], bool]]:
    """The next call of /usr/bin/PROGRAM on a node takes so much longer. Gives a test for that call being under way."""
    mark, real = f"/run/slow-{program}", f"/usr/bin/{program}.real"
    text = f'#!/bin/sh\nmv {mark} {mark}-now 2>/dev/null && sleep {seconds}\nexec {real} "$@"\n'
    site.on(node, f"touch {mark}; rm -f {mark}-now; mv /usr/bin/{program} {real}")
    site.lab.ssh(node, f"cat >/usr/bin/{program} && chmod 755 /usr/bin/{program}", input=text)
    try:
        yield lambda: site.on(node, f"ls {mark}-now 2>/dev/null || true") != ""
    finally:
        site.on(node, f"mv {real} /usr/bin/{program}; rm -f {mark}*")
