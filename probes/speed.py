"""How fast an engine answers: TTFT, TPOT, end to end and tokens a second, at several loads, prefix cache apart.

Every prompt begins with words of its own, so that nothing is taken from the prefix cache; what the cache gives is
measured by itself. Answers have a fixed length (`ignore_eos`), so that two runs do the same work.
"""

import random
import time
from collections.abc import Callable, Sequence

from pydantic import JsonValue

from fleet.proof.speed import Level, Request, percentile
from probes.asking.arrivals import arrivals
from probes.asking.ask import Answer, chat
from probes.asking.exchange import Deadline, ExchangeError
from probes.asking.load import Say
from probes.asking.served import max_model_len
from probes.asking.side_by_side import Outcome, together
from probes.evidence import Endpoint, Evidence, Limits

LEVELS = (1, 4, 8, 16)
PROMPT_TOKENS = 512
TOKENS = 128
A_LEVEL = 8
"""Requests of each place at once, where no number of trials is given."""
BUSY = 0.7
"""Share of a core from which on the client may be what is slow."""
_WORDS = "river stone lamp window paper engine cloud garden market signal harbour winter letter bridge copper".split()  # noqa: SIM905


def probe(endpoint: Endpoint, limits: Limits, say: Say = lambda _: None) -> Evidence:
    """Passes where every request of every level is answered in full. How fast is for the reader, or for a verdict.

    `limits.concurrency` are the levels of the closed loop (default 1, 4, 8, 16), `limits.rate` adds an open loop of
    so many requests a second, sent as `limits.arrivals` and `limits.seed` say; `limits.trials` are the requests of a
    level, `limits.lengths` (one) the prompt's tokens.
    """
    deadline = Deadline(limits.total_s, limits.connect_s)
    load = _Load(endpoint, limits, deadline, say)
    details: dict[str, JsonValue] = {}
    levels: list[JsonValue] = []
    details["levels"] = levels
    wanted, passed = "every answer in full", False
    try:
        load.fit()
        for width in limits.concurrency or LEVELS:
            level = load.closed(width)
            levels.append(level.figures())
            say(told(level))
        if limits.rate is not None:
            level = load.open(limits.rate)
            levels.append(level.figures())
            say(told(level))
        details["prefix_cache"] = load.prefix()
        passed, found = True, f"{told(level)}; {_cached(details['prefix_cache'])}"
        busy = [level["client_busy"] for level in levels if isinstance(level, dict)]
        if any(isinstance(share, float) and share > BUSY for share in busy):
            found += f"; the client itself was busy (up to {max(busy):.0%} of a core), so the engine may be faster"
    except ExchangeError as error:
        wanted, found = f"{wanted}; {error.wanted}", error.found
        details["failed"] = endpoint.hide(str(error))
    return Evidence(
        probe="speed",
        passed=passed,
        wanted=wanted,
        found=endpoint.hide(found),
        seconds=deadline.passed_s,
        details=details,
    )


def told(level: Level) -> str:
    """One level in a line."""
    name = f"{level.rate:g} requests/s" if level.rate else f"{level.concurrency} at once"
    whole = f", {level.in_one_piece} came in one piece" if level.in_one_piece else ""
    return (
        f"{name}: {level.tokens_a_second:.0f} tokens/s, "
        f"TTFT {_ms([each.first_token_s for each in level.requests], 0)}, "
        f"TPOT {_ms(level.per_token_s, 1)} ({len(level.requests)} requests{whole})"
    )


def _ms(seconds: Sequence[float], digits: int) -> str:
    if not seconds:
        return "unknown"
    middle, late = (percentile(seconds, percent) * 1000 for percent in (50, 99))
    return f"P50 {middle:.{digits}f} ms P99 {late:.{digits}f} ms"


def _cached(found: JsonValue) -> str:
    if not isinstance(found, dict):
        return "prefix cache not measured"
    return f"a cached prefix: TTFT {found['cold_ttft_s']} s cold, {found['warm_ttft_s']} s warm"


class _Load:
    """Requests of one probe: unlike each other, all of one size."""

    def __init__(self, endpoint: Endpoint, limits: Limits, deadline: Deadline, say: Say) -> None:
        self._say = say
        self._arrivals, self._at = limits.arrivals, limits.seed
        self._endpoint = endpoint
        self._deadline = deadline
        self._trials = limits.trials
        self._seed = random.Random(time.time_ns())  # a run must not find the prompts of the run before in the cache
        self.tokens = limits.max_tokens or TOKENS
        self._words = limits.lengths[0] if limits.lengths else PROMPT_TOKENS
        self._prefix_words = 4 * self._words

    def fit(self) -> None:
        """Less of both where a request may not have so many tokens: a tokenizer may take a letter for one."""
        longest = max_model_len(self._endpoint, self._deadline)
        if longest is not None:
            self.tokens = min(self.tokens, max(2, longest // 8))
            self._words = min(self._words, max(1, longest // 16))
            self._prefix_words = min(self._prefix_words, max(1, longest // 12))

    def _prompt(self, words: int) -> str:
        return " ".join(self._seed.choice(_WORDS) for _ in range(words))

    def _ask(self, prompt: str, tokens: int | None = None) -> Answer:
        tokens = tokens or self.tokens
        messages = [{"role": "user", "content": prompt}]
        answer = chat(self._endpoint, messages, self._deadline, max_tokens=tokens, ignore_eos=True)
        if answer.completion_tokens != tokens:
            raise ExchangeError(f"{tokens} tokens, as ignore_eos says", str(answer))
        return answer

    def closed(self, width: int) -> Level:
        """As many requests under way as `width`, each followed by the next; the first of each place is warm-up."""
        count = max(self._trials or A_LEVEL * width, width)
        self._answers(width, width)
        return self._measured(count, width)

    def open(self, rate: float) -> Level:
        """So many requests a second, whether or not those before are answered."""
        return self._measured(self._trials or max(A_LEVEL, int(10 * rate)), None, rate)

    def _prompts(self, count: int) -> list[str]:
        return [self._prompt(self._words) for _ in range(count)]

    def _answers(
        self, count: int, width: int | None, rate: float | None = None, told: Callable[[int], None] = lambda _: None
    ) -> list[Outcome[Answer]]:
        """All of them. Raises ExchangeError where one failed or no time was left."""
        starts = arrivals(count, rate, self._arrivals, self._at) if rate is not None else None
        outcomes = together(self._ask, self._prompts(count), width or count, self._deadline, starts=starts, told=told)
        for each in outcomes:
            if each.error is not None:
                raise each.error
        if len(outcomes) < count:
            raise ExchangeError(f"{count} answers", f"no time was left after {len(outcomes)}")
        return outcomes

    def _measured(self, count: int, width: int | None, rate: float | None = None) -> Level:
        began, cpu, step = time.monotonic(), time.process_time(), max(1, count // 4)
        name = f"{rate:g} requests/s" if rate else f"{width} at once"

        def told(done: int) -> None:
            if done % step == 0 and done < count:
                self._say(f"{name}: {done} of {count} answered after {time.monotonic() - began:.1f} s")

        outcomes = self._answers(count, width, rate, told)
        busy = (time.process_time() - cpu) / max(time.monotonic() - began, 1e-9)
        requests = [
            Request(
                began_s=each.began_s,
                first_token_s=each.value.first_token_s,
                seconds=each.value.seconds,
                prompt_tokens=each.value.prompt_tokens,
                completion_tokens=each.value.completion_tokens,
            )
            for each in outcomes
            if each.value is not None
        ]
        sent = self._arrivals if rate else None
        return Level(requests=tuple(requests), concurrency=width, rate=rate, arrivals=sent, client_busy=busy)

    def prefix(self) -> dict[str, JsonValue]:
        """A long beginning that is new, then again with other ends: the first token's time without and with cache."""
        cold, warm, cached = [], [], []
        for _ in range(3):
            prefix = self._prompt(self._prefix_words)
            answers = [self._ask(f"{prefix} {self._prompt(16)}", 2) for _ in range(3)]
            cold.append(answers[0].first_token_s)
            warm += [answer.first_token_s for answer in answers[1:]]
            cached += [answer.cached_tokens for answer in answers[1:] if answer.cached_tokens is not None]
        return {
            "prompt_tokens": answers[0].prompt_tokens,
            "cold_ttft_s": round(_median(cold), 4),
            "warm_ttft_s": round(_median(warm), 4),
            "cached_tokens": _median(cached) if cached else None,
        }


def _median(values: Sequence[float]) -> float:
    return percentile(values, 50)
