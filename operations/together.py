"""The turn of an engine that several hosts run: all stop, all start, the head proves it, all confirm; or all go back.

Its parts wait for one another when they start, and an engine that runs takes none in. So the old parts are gone on
every host before the first new one starts, and before an old one is put back.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import gevent
from gevent.pool import Pool

from facts.shell import Output
from fleet.releases.current import current_document
from fleet.span import serves
from operations.cycle import (
    LockLost,
    Turn,
    cut_off,
    doubt,
    failure,
    first_error,
    not_back,
    proof_document,
    summary,
    undrain,
)
from operations.drain import HookError, call_hook, wait_for_requests
from operations.steps import Step
from probes.evidence import Evidence


@dataclass(frozen=True)
class Part:
    """One host of the engine."""

    turn: Turn
    step: Step

    @property
    def node(self) -> str:
        """The host's name."""
        return self.step.node

    @property
    def served(self) -> bool:
        """Does what runs here now answer over HTTP?"""
        old = self.step.old
        return old is not None and old.current is not None and serves(current_document(old))

    def call(self, verb: str, *words: str, **how: Any) -> Output:
        """A verb of the node script for the service."""
        return self.turn.node(verb, self.step.service, *words, **how)

    def bring(self, verb: str, deadline_s: int, release: str | None = None) -> Output:
        """`switch` or `activate`, to the new release or another that lies there."""
        words = (release or self.step.release, str(deadline_s), self.turn.rollout.id)
        return self.call(verb, *words, timeout_s=deadline_s + 60, show=True)


@dataclass(frozen=True)
class Engine:
    """All hosts of one engine, the new head first."""

    parts: Sequence[Part]

    @property
    def head(self) -> Part:
        """The host that serves."""
        return self.parts[0]

    @property
    def name(self) -> str:
        """`a1+a2/glm`."""
        return f"{'+'.join(part.node for part in self.parts)}/{self.head.step.service}"

    @property
    def deadline_s(self) -> int:
        """After so many seconds without a proof every host undoes by itself: the same for all."""
        return max(part.step.deadline_s for part in self.parts)

    @property
    def before(self) -> list[Part]:
        """Hosts that serve the old engine, or engines; the new head where none does."""
        return [part for part in self.parts if part.served] or [self.head]

    def stop(self, why: str) -> None:
        """End the run, with the engine's name."""
        self.head.turn.rollout.stop(f"{self.name}: {why}")

    def keep(self, status: str | dict[str, str], proof: str, began: float) -> None:
        """Remember what came of every host; `status` may differ by host."""
        for part in self.parts:
            part.turn.keep(part.step, status if isinstance(status, str) else status[part.node], proof, began)

    def each(self, work: Callable[[Part], Output]) -> dict[str, Output]:
        """Do it on all hosts at once; raises what one of them raised, when all have ended."""
        jobs = {part.node: gevent.spawn(work, part) for part in self.parts}
        gevent.joinall(jobs.values())
        return {node: job.get() for node, job in jobs.items()}

    def say(self, text: str) -> None:
        """One line of progress, under the head's name."""
        self.head.turn.say(self.head.step, text)


def roll_together(parts: Sequence[Part]) -> bool:
    """Take one engine through its change, on all of its hosts. True: proven. False: not, and all went back."""
    engine, began = Engine(parts), time.monotonic()
    try:
        return _roll(engine, began)
    except LockLost as error:
        story = f"{error}; nothing more was done, and what is unproven its hosts undo by themselves"
        engine.stop(story)
        engine.keep("failed", story, began)
        return False


def _roll(engine: Engine, began: float) -> bool:
    try:
        for part in engine.before:
            if part.step.policy.drain:
                call_hook(part.turn.host, part.step.policy.drain, part.step)
    except HookError as error:
        why = f"not drained, nothing changed: {error}{_undrain(engine.before)}"
        engine.stop(why)
        engine.keep("failed", why, began)
        return False
    running = _running(engine)
    left = "left during its turn; its hosts put back what was proven by themselves, within "
    engine.keep("unproven", f"{left}{engine.deadline_s + 10} s", began)
    starting = Pool(len(engine.parts))
    why, evidence = _activate_and_prove(engine, starting)
    noted: frozenset[str] = frozenset()
    if why is None:
        why, noted = _confirm(engine, evidence, running)
    if why is not None:
        status, now = _undo(engine, why, noted)
        engine.keep(status, f"{why}{cut_off(running)}; {now}", began)
        starting.join(timeout=60)  # an activation ends by itself where an undo took its release away
        return False
    after = _undrain([engine.head])
    if after:
        engine.stop(f"{engine.head.step.release} proved itself{after}")
    engine.keep("proven", summary(evidence) + cut_off(running) + after, began)
    return True


def _running(engine: Engine) -> int | None:
    """Requests that will be cut; None where one did not tell."""
    counts = [
        wait_for_requests(part.step, lambda text, part=part: part.turn.say(part.step, text))  # type: ignore[misc]
        for part in engine.before
    ]
    return None if None in counts else sum(count or 0 for count in counts)


def _activate_and_prove(engine: Engine, starting: Pool) -> tuple[str | None, list[Evidence]]:
    """The reason why the engine did not prove itself, or None; and what the probes said."""
    engine.say(f"stopping it on {', '.join(part.node for part in engine.parts)}")
    stopped = engine.each(lambda part: part.bring("switch", engine.deadline_s))
    if bad := _reasons(stopped):
        return f"it could not be switched: {bad}", []
    budget = engine.head.step.policy.start_budget_s
    engine.say(f"activating it on all hosts, at most {budget} s until /health answers on {engine.head.node}")
    for node, output in starting.imap_unordered(
        lambda part: (part.node, part.bring("activate", engine.deadline_s)), engine.parts
    ):
        if output.reason is not None:
            return f"it did not start: {node}: {output.reason}{first_error(output)}", []
    evidence = engine.head.turn.prove(engine.head.step.endpoint, engine.head.step)
    return failure(evidence), evidence


def _reasons(outputs: dict[str, Output]) -> str:
    return "; ".join(f"{node}: {output.reason}" for node, output in outputs.items() if output.reason is not None)


def _confirm(engine: Engine, evidence: list[Evidence], running: int | None) -> tuple[str | None, frozenset[str]]:
    """Mark the release as proven on every host. The reason where one could not note it, and the hosts that did."""

    def confirm(part: Part) -> Output:
        document = proof_document(part.turn, part.step, evidence, running, measured=part is engine.head)
        return part.call("confirm", part.step.release, stdin=json.dumps(document) + "\n")

    outputs = engine.each(confirm)
    if bad := _reasons(outputs):
        noted = frozenset(node for node, output in outputs.items() if output.reason is None)
        return f"it proved itself, but not every host could note it: {bad}", noted
    return None, frozenset()


def _take_back(part: Part) -> Output:
    """Let a host that has noted the new release count what it had proven before as proven again, or have nothing.

    It would not go back by itself any more. What it counts as proven now, the undo starts.
    """
    old = part.step.old.proven if part.step.old else None
    if old is None:
        return part.call("drop", timeout_s=part.step.policy.stop_grace_s + 120)
    switched = part.bring("switch", part.step.deadline_s, old)
    if old == part.step.release or switched.reason is not None:
        return switched
    return part.call("confirm", old, stdin=(part.step.old.proof if part.step.old else None) or '{"format": 1}\n')


def _undo(engine: Engine, why: str, noted: frozenset[str]) -> tuple[dict[str, str], str]:
    """Put back on every host what was proven there, and prove what serves. Status of each, and what is true now.

    The run stops with it. `noted`: hosts that count the new release as proven.
    """
    engine.say(f"FAILED: {why}; restoring what ran before on all hosts")
    engine.each(lambda part: part.call("stop", timeout_s=part.step.policy.stop_grace_s + 90))
    limit_s = max(part.step.undo_s for part in engine.parts)
    taken = engine.each(lambda part: _take_back(part) if part.node in noted else Output())
    undone = engine.each(
        lambda part: (
            Output(stdout="undone=none", reason=taken[part.node].reason)
            if part.node in noted and (part.step.old is None or part.step.old.proven is None)
            else part.call("undo", why[:200], timeout_s=limit_s, show=True)
        )
    )
    status, now = _restored(engine, undone)
    engine.stop(f"{why}; {now}")
    return status, now


def _restored(engine: Engine, undone: dict[str, Output]) -> tuple[dict[str, str], str]:
    failed = dict.fromkeys(undone, "failed")
    if bad := {node: output for node, output in undone.items() if output.reason is not None}:
        return failed, "; ".join(f"{node}: {not_back(output, engine.deadline_s)}" for node, output in bad.items())
    back = {part.node: undone[part.node].value("undone") for part in engine.parts}
    restored = [part for part in engine.parts if back[part.node] not in (None, "none")]
    if not restored:
        return failed, "nothing served here before, so nothing was restored and the engine is stopped"
    words = ", ".join(f"{back[part.node]} on {part.node}" for part in restored)
    doubts = [text for part in restored if (text := doubt(part.turn, part.step, str(back[part.node]))) is not None]
    if doubts:
        return failed, f"{words} was restored and does NOT prove itself: {'; '.join(doubts)}"
    told = f"{words} was restored and proved itself{_undrain(engine.before)}"
    return {**failed, **{part.node: "restored" for part in restored}}, told


def _undrain(parts: Iterable[Part]) -> str:
    return "".join(undrain(part.turn, part.step) for part in parts)
