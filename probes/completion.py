"""The proof of a start: the engine serves the model under its name, answers a question, and lives on.

`/health` is 200 before the first forward pass ever ran, so only a real completion proves an engine.
"""

import time

from pydantic import JsonValue

from fleet.proof.degeneration import judge
from probes.asking.ask import Answer, ask
from probes.asking.exchange import Deadline, ExchangeError, get, shortened
from probes.asking.served import models
from probes.evidence import Endpoint, Evidence, Limits

SETTLE_S = 0.3
"""An engine that dies of its last answer takes a moment to be gone."""
QUESTION = "What is 2 + 2? Answer with the number alone."


def probe(endpoint: Endpoint, limits: Limits) -> Evidence:
    """Passes where the model is served, `limits.answers` answers are whole, and the engine is healthy after them."""
    deadline = Deadline(limits.total_s, limits.connect_s)
    details: dict[str, JsonValue] = {}
    times = f"{limits.answers} answers" if limits.answers > 1 else "an answer"
    wanted, passed = f"{times} of {endpoint.model} within {limits.total_s:g} s", False
    try:
        details["models"] = list(models(endpoint, deadline))
        for _ in range(limits.answers):
            answer = ask(endpoint, QUESTION, limits, deadline)
            details.update(_told(endpoint, answer))
            refuse_loop(answer)
        time.sleep(SETTLE_S)
        get(f"{endpoint.url}/health", deadline)
        found, passed = f"{times}, the last {answer}", True
    except ExchangeError as error:
        wanted, found = error.wanted, error.found
    return Evidence(
        probe="completion",
        passed=passed,
        wanted=wanted,
        found=endpoint.hide(found),
        seconds=deadline.passed_s,
        details=details,
    )


def refuse_loop(answer: Answer) -> None:
    """An answer that ends by itself is no loop, whatever it repeats."""
    judgement = judge(answer.said, answer.finish_reason) if answer.finish_reason == "length" else None
    if judgement is not None and judgement.degenerate:
        raise ExchangeError("an answer that ends or goes on", f"a loop: {shortened(judgement.why)}")


def _told(endpoint: Endpoint, answer: Answer) -> dict[str, JsonValue]:
    return {
        "text": endpoint.hide(shortened(answer.said)),
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "first_token_s": round(answer.first_token_s, 3),
        "answer_s": round(answer.seconds, 3),
    }
