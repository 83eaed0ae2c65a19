"""How often an answer decays: an agent's prompt, asked many times with sampling, each answer judged.

A wrong stage boundary gives right answers that never stop, one in five, from an engine that is healthy and fast.
"""

import random

from pydantic import JsonValue

from fleet.proof.degeneration import judge
from fleet.proof.lengths import Lengths, Shift, lengths_of, shift
from fleet.proof.proportion import Sample, chance_of_missing, degraded, interval, worse
from probes.asking.ask import Answer, chat
from probes.asking.exchange import Deadline, ExchangeError, shortened
from probes.asking.load import Say
from probes.asking.served import room
from probes.asking.side_by_side import Outcome, together
from probes.evidence import Endpoint, Evidence, Limits

TRIALS = 40
WIDTH = 8
MAX_TOKENS = 2048
"""What an answer of a few sentences never needs, thoughts included. One that gets there has not ended."""
SYSTEM = (
    "You are a careful software agent. You work on a task step by step with the tools read_file(path), "
    "run(command) and finish(summary). Before each step you say in at most five sentences what you know, what you do "
    "next and why. Then you stop and wait for the result."
)
_FILES = ("parser.py", "server.py", "queue.py", "config.yaml", "lock.py", "metrics.py", "README.md", "test_retry.py")
_TROUBLES = (
    "two workers take the same job about once an hour",
    "the retry test fails on every second run",
    "the service forgets its configuration after a reload",
    "a client sees a timeout although the server answered",
    "the metric of open connections never goes down again",
)


def probe(endpoint: Endpoint, limits: Limits, say: Say = lambda _: None) -> Evidence:
    """Passes where hardly an answer is degenerate, and they are no longer than those of a good engine.

    How many are too many: `fleet.proof.proportion.degraded`; how much longer is too long: `fleet.proof.lengths.Shift`.
    `limits.before` is the same run of a good engine. Any answer that fails (HTTP, a cut stream) fails the probe.
    """
    deadline = Deadline(limits.total_s, limits.connect_s)
    trials, error = limits.trials or TRIALS, None
    try:
        tokens = limits.max_tokens or room(endpoint, deadline, MAX_TOKENS)
    except ExchangeError as failed:
        tokens, error = MAX_TOKENS, failed
    width = max(limits.concurrency or (WIDTH,))
    before = baseline(limits.before)

    def one(number: int) -> Answer:
        return chat(endpoint, messages(number), deadline, max_tokens=tokens, temperature=0.8, top_p=0.95)

    step = max(1, trials // 5)
    outcomes = together(
        one,
        range(0 if error else trials),
        width,
        deadline,
        told=lambda n: say(f"{n} of {trials} answers") if n % step == 0 else None,
    )
    whys = [_why(each.value, tokens) for each in outcomes if each.value is not None]
    now = Sample(bad=sum(why is not None for why in whys), trials=max(1, len(whys)))
    missing = chance_of_missing(trials, 0.2, before)
    beside = f" beside {before.bad} of {before.trials} before" if before else ""
    wanted = f"{trials} answers that end and do not loop{beside}"
    moved = _moved(outcomes, tokens, limits.before)
    error = error or next((each.error for each in outcomes if each.error is not None), None)
    if error is not None or len(whys) < trials:
        found = f"{len(whys)} of {trials} answers, {now.bad} bad, then {_broke(error, deadline)}"
        too_bad = False
    else:
        too_bad = degraded(now, before) or (moved is not None and moved.longer)
        why = next((why for why in whys if why), None)
        found = f"{now}{beside}" + (f": {shortened(why)}" if why else "")
        found += f"; {'TOO LONG: ' if moved.longer else ''}{moved}" if moved else ""
        found += f"; chance to miss a fault in a fifth of the answers: {missing:.2g}"
    return Evidence(
        probe="degeneration",
        passed=error is None and len(whys) == trials and not too_bad,
        degraded=too_bad,
        wanted=wanted,
        found=endpoint.hide(found),
        seconds=deadline.passed_s,
        details={
            **_details(endpoint, now, before, missing, outcomes, whys),
            "max_tokens": tokens,
            "length": {**moved.model_dump(), "longer": moved.longer} if moved else None,
        },
    )


def messages(number: int) -> list[dict[str, str]]:
    """The prompt of a trial: the same kind of task, another one each time."""
    rng = random.Random(number)
    files = rng.sample(_FILES, 4)
    listing = "\n".join(f"{rng.randint(200, 9000):>6} {name}" for name in files)
    task = f"In this project {rng.choice(_TROUBLES)}. Find out why.\n\nThe result of run('ls -s') is:\n{listing}\n\n"
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": task + f"(task {number}) What is your first step?"},
    ]


def baseline(before: Evidence | None) -> Sample | None:
    """Bad answers and trials of an earlier run of this probe; None where it has none to show."""
    details = before.details if before is not None and before.probe == "degeneration" else {}
    bad, trials = details.get("bad"), details.get("trials")
    if not isinstance(bad, int) or not isinstance(trials, int) or not 0 <= bad <= trials or trials < 1:
        return None
    return Sample(bad=bad, trials=trials)


def _why(answer: Answer, tokens: int) -> str | None:
    judgement = judge(answer.said, answer.finish_reason, tokens)
    if judgement.degenerate:
        return judgement.why
    return f"did not end within {tokens} tokens" if answer.finish_reason == "length" else None


def _moved(outcomes: list[Outcome[Answer]], tokens: int, before: Evidence | None) -> Shift | None:
    """Lengths of these answers beside those of the baseline; None where there is none, or no answer."""
    counted = tuple(each.value.completion_tokens for each in outcomes if each.value is not None)
    then = lengths_of(before.details) if baseline(before) is not None and before is not None else None
    return shift(Lengths(tokens=counted, max_tokens=tokens), then) if counted and then else None


def _broke(error: ExchangeError | None, deadline: Deadline) -> str:
    return f"{error.found} (wanted {error.wanted})" if error else f"no time was left after {deadline.passed_s:.0f} s"


def _details(
    endpoint: Endpoint,
    now: Sample,
    before: Sample | None,
    missing: float,
    outcomes: list[Outcome[Answer]],
    whys: list[str | None],
) -> dict[str, JsonValue]:
    answers = [each.value for each in outcomes if each.value is not None]
    lengths = sorted(answer.completion_tokens for answer, why in zip(answers, whys, strict=True) if why is None)
    low, high = interval(now.bad, now.trials)
    bad = [(answer, why) for answer, why in zip(answers, whys, strict=True) if why is not None]
    return {
        "trials": len(answers),
        "bad": now.bad,
        "rate": now.rate,
        "low": low,
        "high": high,
        "unended": sum(answer.finish_reason == "length" for answer in answers),
        "tokens": [answer.completion_tokens for answer in answers],
        "tokens_of_sound_answers": {"median": lengths[len(lengths) // 2], "most": lengths[-1]} if lengths else None,
        "before": before.model_dump() if before else None,
        "chance_if_as_before": worse(now.bad, now.trials, before.bad, before.trials) if before else None,
        "chance_to_miss_a_fifth": missing,
        "examples": [{"why": why, "end": endpoint.hide(answer.said[-160:])} for answer, why in bad[:3]],
    }
