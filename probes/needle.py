"""Facts hidden at depths of long contexts: what is still found, by length and depth, in tokens as the engine counts."""

import random

from pydantic import JsonValue

from probes.asking.ask import chat
from probes.asking.exchange import Deadline, ExchangeError, shortened
from probes.asking.load import Say
from probes.asking.served import max_model_len
from probes.asking.side_by_side import together
from probes.evidence import Endpoint, Evidence, Limits

DEPTHS = (0.05, 0.5, 0.95)
SHARES = (0.1, 0.5, 0.95)
"""Of the longest context that the service allows, where no lengths are given."""
TOKENS = 512
ROOM = 64
"""Tokens for the chat template."""
QUESTION = 4
"""Sentences of hay that the needle and the question are about as long as."""
SAMPLES = (2, 10)
"""Sentences whose tokens are counted: few, for a tokenizer may take a letter for a token."""
_WHO = ("archivist", "gardener", "navigator", "printer", "surveyor", "watchmaker", "beekeeper", "translator")
_DOES = (
    "counts the empty shelves",
    "writes a long letter",
    "walks to the harbour",
    "repairs an old gate",
    "boils water",
)
_WHEN = ("before the rain begins", "while the others sleep", "as every Tuesday", "without any hurry", "late at night")


def probe(endpoint: Endpoint, limits: Limits, say: Say = lambda _: None) -> Evidence:
    """Passes where every needle is found. Lengths: `limits.lengths`, or shares of the engine's max_model_len."""
    deadline = Deadline(limits.total_s, limits.connect_s)
    rows: list[dict[str, JsonValue]] = []
    try:
        longest = max_model_len(endpoint, deadline)
        if longest is None:
            raise ExchangeError(f"max_model_len of {endpoint.model} from {endpoint.url}/v1/models", "none")
        tokens = limits.max_tokens or min(TOKENS, longest // 4)
        lengths = limits.lengths or tuple(sorted({max(256, int(longest * share)) for share in SHARES}))
        lengths = tuple(sorted({min(length, longest - tokens) for length in lengths}))
        if lengths[0] < ROOM * 2:
            raise ExchangeError(f"a context of at least {ROOM * 2 + tokens} tokens", f"max_model_len {longest}")
        rate = _sentences_a_token(endpoint, deadline)
        jobs = [(length, depth) for length in lengths for depth in DEPTHS]

        def one(job: tuple[int, float]) -> dict[str, JsonValue]:
            row = _look(endpoint, *job, rate, tokens, deadline)
            say(f"{row['tokens']} tokens, depth {job[1]:.0%}: {'found' if row['found'] else 'NOT found'}")
            return row

        for each in together(one, jobs, max(limits.concurrency or (1,)), deadline):
            if each.error is not None:
                raise each.error
            if each.value is not None:
                rows.append(each.value)
        if len(rows) < len(jobs):
            raise ExchangeError(f"{len(jobs)} needles looked for", f"no time was left after {len(rows)}")
        lost = [f"{row['tokens']} tokens at {row['depth']}" for row in rows if not row["found"]]
        wanted, found = f"{len(rows)} needles in up to {lengths[-1]} tokens", f"{len(rows) - len(lost)} of {len(rows)}"
        found += f"; lost: {', '.join(lost)}" if lost else f", the longest context {rows[-1]['tokens']} tokens"
        passed, degraded = not lost, bool(lost)
    except ExchangeError as error:
        wanted, found, passed, degraded = error.wanted, error.found, False, False
    return Evidence(
        probe="needle",
        passed=passed,
        degraded=degraded,
        wanted=wanted,
        found=endpoint.hide(found),
        seconds=deadline.passed_s,
        details={"needles": rows, "found": sum(bool(row["found"]) for row in rows), "looked": len(rows)},
    )


def _haystack(rng: random.Random, sentences: int) -> list[str]:
    return [f"The {rng.choice(_WHO)} {rng.choice(_DOES)} {rng.choice(_WHEN)}." for _ in range(sentences)]


def _sentences_a_token(endpoint: Endpoint, deadline: Deadline) -> float:
    """How many sentences of hay a token is, by the engine's own count of two samples: the template falls out."""
    counts = []
    for sentences in SAMPLES:
        hay = " ".join(_haystack(random.Random(1), sentences))
        counts.append(chat(endpoint, [{"role": "user", "content": hay}], deadline, max_tokens=1).prompt_tokens)
    if counts[1] <= counts[0]:
        raise ExchangeError("more prompt tokens for more text", f"{counts[0]}, then {counts[1]}")
    return (SAMPLES[1] - SAMPLES[0]) / (counts[1] - counts[0])


def _look(
    endpoint: Endpoint, length: int, depth: float, rate: float, tokens: int, deadline: Deadline
) -> dict[str, JsonValue]:
    rng = random.Random(f"{length} {depth}")  # no two contexts begin alike, so no prefix is cached
    code, place = str(rng.randint(100_000, 999_999)), f"{rng.choice(_WHO)}s' vault {rng.randint(10, 99)}"
    hay = _haystack(rng, max(2, int((length - ROOM) * rate) - QUESTION))
    hay.insert(int(len(hay) * depth), f"The access code of the {place} is {code}.")
    question = f"What is the access code of the {place}? Answer with the number alone."
    content = f"{' '.join(hay)}\n\n{question}"
    answer = chat(endpoint, [{"role": "user", "content": content}], deadline, max_tokens=tokens)
    return {
        "wanted_tokens": length,
        "tokens": answer.prompt_tokens,
        "depth": f"{depth:.0%}",
        "found": code in answer.text.replace(",", "").replace(" ", ""),
        "said": endpoint.hide(shortened(answer.said)),
        "first_token_s": round(answer.first_token_s, 3),
    }
