"""One host's turn: drain, activate, prove, confirm; or undo and prove the old release. Nothing stays unproven."""

import datetime
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from facts.parse.start_log import parse_start
from facts.shell import Output, run
from fleet.releases.command import NODE_SCRIPT
from fleet.span import serves
from operations.drain import HookError, call_hook, wait_for_requests
from operations.proof import found_before, now_and_then
from operations.run import Result, Run
from operations.steps import Step
from operations.stored import StoredError, read_stored
from probes.asking.load import ProbeNotLoaded, load
from probes.asking.metrics import MetricsError, cache_config
from probes.evidence import Endpoint, Evidence, Limits

if TYPE_CHECKING:
    from pyinfra.api.host import Host


class LockLost(RuntimeError):
    """The node refused this run: another one has taken over, or may at any moment."""


@dataclass
class Turn:
    """One host in one run."""

    rollout: Run
    host: "Host"
    probes: list[Path]

    def say(self, step: Step, text: str) -> None:
        """One line of progress under the host's name."""
        self.host.log(f"{step.service}: {text}")

    def keep(self, step: Step, status: str, proof: str, began: float) -> None:
        """Remember what came of a step."""
        self.rollout.keep(
            Result(
                node=step.node,
                service=step.service,
                status=status,
                layout=step.layout,
                partition=step.partition,
                release=(step.old.proven if step.old else None) or "-" if status == "restored" else step.release,
                endpoint=step.endpoint.url,
                proof=proof,
                seconds=time.monotonic() - began,
            )
        )

    def node(self, *words: str, stdin: str | None = None, timeout_s: float = 60, show: bool = False) -> Output:
        """Call a verb of the node script. Raises LockLost where the lock of the node is no longer this run's."""
        held = (NODE_SCRIPT, "holding", self.rollout.id, *words)
        output = run(self.host, held, stdin=stdin, timeout_s=timeout_s, show=show)
        if output.reason is not None and output.value("held") is not None:
            raise LockLost(output.reason)
        return output

    def prove(self, endpoint: Endpoint, step: Step) -> list[Evidence]:
        """Every probe of the policy in order, up to the first that fails."""
        evidence: list[Evidence] = []
        for name in step.policy.proof:
            limits = Limits(
                total_s=step.policy.proof_s,
                trials=step.policy.proof_trials if name == "degeneration" else None,
                before=found_before([step.old.proof, step.old.verified] if step.old else [], name),
            )
            try:
                evidence.append(
                    load(name, self.probes)(endpoint, limits, now_and_then(lambda text: self.say(step, text)))
                )
            except ProbeNotLoaded as error:
                evidence.append(Evidence(probe=name, passed=False, wanted="a probe", found=str(error), seconds=0))
            self.say(step, str(evidence[-1]))
            if not evidence[-1].passed:
                break
        return evidence


def summary(evidence: list[Evidence]) -> str:
    """The proof in a few words for a table."""
    return "; ".join(f"{item.probe}: {item.found}" for item in evidence) or "health only"


def roll(turn: Turn, step: Step) -> bool:
    """Take one service through its change. True: proven. False: not, and what ran before was put back."""
    began = time.monotonic()
    try:
        return _roll(turn, step, began)
    except LockLost as error:
        story = f"{error}; nothing more was done, and what is unproven here the node undoes by itself"
        story += "; the drain hook was called, the undrain hook was not" if step.policy.drain else ""
        turn.rollout.stop(f"{step.node}/{step.service}: {story}")
        turn.keep(step, "failed", story, began)
        return False


def _roll(turn: Turn, step: Step, began: float) -> bool:
    try:
        if step.policy.drain:
            call_hook(turn.host, step.policy.drain, step)
    except HookError as error:
        after = undrain(turn, step)
        turn.rollout.stop(f"{step.node}/{step.service}: not drained, nothing changed: {error}{after}")
        turn.keep(step, "failed", f"not drained, nothing changed: {error}{after}", began)
        return False
    running = wait_for_requests(step, lambda text: turn.say(step, text))
    if running:
        turn.say(step, f"{running} running requests get {step.grace_s} s to end, then they are cut")
    why, evidence = _activate_and_prove(turn, step)
    if why is None:
        why = _confirm(turn, step, evidence, running)
    if why is not None:
        status, now = _undo(turn, step, why)
        turn.keep(step, status, f"{why}{cut_off(running)}; {now}", began)
        return False
    after = undrain(turn, step)
    if after:  # the next node's turn would take one more replica away
        turn.rollout.stop(f"{step.node}/{step.service}: {step.release} proved itself{after}")
    turn.keep(step, "proven", summary(evidence) + cut_off(running) + after, began)
    return True


def cut_off(running: int | None) -> str:
    """What is to be told of the requests that ran when the engine was stopped; None: how many is unknown."""
    if running is None:
        return "; how many requests were running at the stop is unknown"
    return f"; {running} requests ran at the stop and were cut unless they ended in time" if running else ""


def _activate_and_prove(turn: Turn, step: Step) -> tuple[str | None, list[Evidence]]:
    """The reason why the release did not prove itself, or None; and what the probes said."""
    left = f"left during its turn; the node puts back what was proven by itself, within {step.deadline_s + 10} s"
    turn.keep(step, "unproven", left, time.monotonic())  # the last word only where this process ends before the next
    turn.say(step, f"activating {step.release}, at most {step.policy.start_budget_s} s until /health answers")
    started = turn.node(
        "activate",
        step.service,
        step.release,
        str(step.deadline_s),
        turn.rollout.id,
        timeout_s=step.deadline_s + 60,
        show=True,
    )
    if started.reason is not None:
        return f"it did not start: {started.reason}{first_error(started)}", []
    evidence = turn.prove(step.endpoint, step)
    return failure(evidence), evidence


def failure(evidence: list[Evidence]) -> str | None:
    """What the first probe that did not pass wanted and found; None where all passed."""
    bad = next((item for item in evidence if not item.passed), None)
    return f"{bad.probe}: want {bad.wanted}, found {bad.found}" if bad else None


_ERROR = re.compile(r"^\| .*?(\w*(?:Error|Exception): .+)$", re.MULTILINE)


def first_error(output: Output) -> str:
    """The first error that the engine's own log names: what comes after it are its consequences."""
    found = _ERROR.search(output.stdout)
    return f" ({found[1][:200]})" if found else ""


def _confirm(turn: Turn, step: Step, evidence: list[Evidence], running: int | None) -> str | None:
    """Mark the release as proven on the node, with what was measured. The reason where that failed."""
    document = proof_document(turn, step, evidence, running)
    done = turn.node("confirm", step.service, step.release, stdin=json.dumps(document) + "\n")
    return f"it proved itself, but the node could not note it: {done.reason}" if done.reason else None


def proof_document(
    turn: Turn, step: Step, evidence: list[Evidence], running: int | None, measured: bool = True
) -> dict[str, Any]:
    """proof.json: who looked, and what was found and measured. `measured`: the engine on this node tells its pool."""
    cache = _measured(step) if evidence and measured else None
    return {
        "format": 1,
        "release": step.release,
        "run": turn.rollout.id,
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "summary": summary(evidence),
        "evidence": [item.model_dump(mode="json") for item in evidence],
        "running_at_stop": running,
        "measured": cache,
        "started": _started(turn, step, cache or {}) if evidence else None,
        "model_config_sha256": _model_config(turn, step),
    }


def _model_config(turn: Turn, step: Step) -> str | None:
    """Digest of the checkpoint's config.json, as the node was last looked at."""
    folder = turn.rollout.survey.plan(step.node, step.service).model_folder
    return folder.config_sha256 if folder else None


def _measured(step: Step) -> dict[str, str] | None:
    """The pool that the engine really got, from its metrics; None where it exports none."""
    try:
        return cache_config(step.endpoint.url)
    except MetricsError:
        return None


def _started(turn: Turn, step: Step, measured: dict[str, str]) -> dict[str, Any] | None:
    """What the engine's log and its GPUs say of its memory; None where the node cannot tell."""
    told = turn.node("measured", step.service)
    if told.reason is not None:
        return None
    blocks = measured.get("num_gpu_blocks", "")
    started = parse_start(told.stdout.splitlines())
    return started.model_copy(update={"blocks": int(blocks) if blocks.isdecimal() else None}).model_dump(mode="json")


def _undo(turn: Turn, step: Step, why: str) -> tuple[str, str]:
    """Put the proven release back and prove it. The status, and what is true now; the run stops with both.

    The run keeps one reason: of a second host, or of one that fails after Ctrl-C, only its own result tells.
    """
    turn.say(step, f"FAILED: {why}; restoring what ran before")
    undone = turn.node("undo", step.service, why[:200], timeout_s=step.undo_s, show=True)
    status, now = _restored(turn, step, undone)
    turn.rollout.stop(f"{step.node}/{step.service}: {why}; {now}")
    return status, now


def _restored(turn: Turn, step: Step, undone: Output) -> tuple[str, str]:
    if undone.reason is not None:
        return "failed", not_back(undone, step.deadline_s)
    back = undone.value("undone")
    if back in (None, "none"):
        return "failed", "nothing served here before, so nothing was restored and the service is stopped"
    unproven = doubt(turn, step, back)
    if unproven is not None:
        return "failed", f"{back} was restored and does NOT prove itself: {unproven}"
    return "restored", f"{back} was restored and proved itself{undrain(turn, step)}"


def not_back(undone: Output, deadline_s: int) -> str:
    """What is true where an undo failed, by how far it came on the node."""
    back = undone.value("undone")
    if back not in (None, "none"):  # it is no longer pending, and nothing waits for a deadline
        return f"{back} was put back and does NOT start: {undone.reason}; systemd tries again, up to restart_limit"
    return (
        f"the old release could NOT be restored from here: {undone.reason}; "
        f"the node tries it by itself, at the latest {deadline_s} s after the activation"
    )


def doubt(turn: Turn, step: Step, release: str) -> str | None:
    """Why a release that was put back does not prove itself, or None. It is asked at its own port, with its own key.

    A part of an engine that another host serves is proven there.
    """
    node = turn.rollout.survey.plan(step.node, step.service).node
    try:
        stored = read_stored(turn.host, node, step.service, release)
    except StoredError as error:
        return str(error)
    if not serves(stored.document):
        return None
    endpoint = stored.endpoint
    bad = next((item for item in turn.prove(endpoint, step) if not item.passed), None)
    return f"{bad.probe} found {bad.found}" if bad else None


def undrain(turn: Turn, step: Step) -> str:
    """Back into traffic. A failing hook does not undo a proven release; it is told."""
    try:
        if step.policy.undrain:
            call_hook(turn.host, step.policy.undrain, step)
    except HookError as error:
        turn.say(step, f"NOT back in traffic: {error}")
        return f"; NOT back in traffic: {error}"
    return ""
