"""How the stand-in is told to misbehave.

VLLM_STANDIN_FAULT is a comma-separated list; the file named by VLLM_STANDIN_FAULT_FILE adds to it and is read
again at every request, and while weights are loaded slowly, so that an engine can be broken and mended. A missing file
means no fault.

    slow-start:SECONDS        listens only after that long
    crash-start[:p=P]         dies while it loads
    first-completion-500      healthy, but the first completion since the start answers 500
    completion-500            healthy, but every completion answers 500
    hang[:p=P]                healthy, but completions are never answered
    crash-after:K[:p=P]       dies as soon as the K-th completion is answered, and at each later one if it lived;
                              a headless part of an engine dies in its K-th part of an answer
    loop[:p=P]                answers repeat themselves and stop only at max_tokens
    ramble[:p=P]              answers go on with something new and stop only at max_tokens
    dull[:p=P]                sums, facts and repetitions are wrong
    bad-arguments[:p=P]       arguments of a tool call are no JSON
    busy[:p=P]                completions answer 503
    throttle[:p=P]            completions answer 429
    not-json[:p=P]            what should be JSON is not
    cut[:p=P]                 the connection ends in the middle of an answer
    absurd-usage[:p=P]        usage counts that cannot be true
    ignore-stop               stop texts have no effect
    ignore-max-tokens         an answer is as long as it is

P is a probability between 0 and 1, drawn each time the fault could strike; VLLM_STANDIN_SEED makes the draws
repeatable. An unknown fault is an error: a typo must not look like a healthy engine.
"""

from __future__ import annotations

import random
import threading

AMOUNT = {"slow-start": "seconds", "crash-after": "requests"}
CHANCE = {
    "hang",
    "crash-start",
    "crash-after",
    "loop",
    "ramble",
    "dull",
    "bad-arguments",
    "busy",
    "throttle",
    "not-json",
    "cut",
    "absurd-usage",
}
PLAIN = {"first-completion-500", "completion-500", "ignore-stop", "ignore-max-tokens"}


class FaultError(ValueError):
    """A fault text that means nothing."""


class Fault:
    """One way to misbehave. `amount` is seconds or requests, `chance` a probability."""

    def __init__(self, kind: str, amount: float = 0.0, chance: float = 1.0) -> None:
        self.kind = kind
        self.amount = amount
        self.chance = chance


def parse(text: str) -> list[Fault]:
    """The faults of a list, or FaultError with the part that means nothing."""
    return [_parse_one(part.strip()) for part in text.replace("\n", ",").split(",") if part.strip()]


def _parse_one(text: str) -> Fault:
    kind, *rest = text.split(":")
    if kind not in CHANCE | PLAIN | set(AMOUNT):
        known = ", ".join(sorted(CHANCE | PLAIN | set(AMOUNT)))
        raise FaultError(f"unknown fault {text!r}: wanted one of {known}")
    fault = Fault(kind)
    if kind in AMOUNT:
        fault.amount = _number(text, rest.pop(0) if rest else "", AMOUNT[kind])
        if kind == "crash-after" and (fault.amount < 1 or fault.amount != int(fault.amount)):
            raise FaultError(f"fault {text!r}: wanted a whole number of requests, 1 or more")
    if rest and kind in CHANCE and rest[0].startswith("p="):
        fault.chance = _number(text, rest.pop(0)[2:], "probability")
        if fault.chance > 1:
            raise FaultError(f"fault {text!r}: wanted a probability between 0 and 1, found {fault.chance}")
    if rest:
        raise FaultError(f"fault {text!r}: cannot read {':'.join(rest)!r}")
    return fault


def _number(text: str, number: str, what: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise FaultError(f"fault {text!r}: wanted {what} as a number, found {number!r}")
    return value


class Faults:
    """The faults that hold now. Thread-safe."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._fixed = parse(environ.get("VLLM_STANDIN_FAULT", ""))
        self._file = environ.get("VLLM_STANDIN_FAULT_FILE", "")
        self._random = random.Random(environ.get("VLLM_STANDIN_SEED"))
        self._lock = threading.Lock()
        self.now()

    def now(self) -> dict[str, Fault]:
        """Faults by kind, the file read again. Raises FaultError."""
        listed = list(self._fixed)
        if self._file:
            try:
                with open(self._file, encoding="utf-8") as file:
                    listed += parse(file.read())
            except FileNotFoundError:
                pass
            except OSError as error:
                raise FaultError(f"{self._file}: {error.strerror}") from None
        return {fault.kind: fault for fault in listed}

    def strikes(self, fault: Fault | None) -> bool:
        """Whether it happens this time."""
        if fault is None:
            return False
        with self._lock:
            return self._random.random() < fault.chance
