"""proof.json as it lies beside a proven release: who looked, when, what they found, and what a next one is beside."""

import datetime
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from probes.evidence import Evidence

TELL_S = 10


def now_and_then(say: Callable[[str], None]) -> Callable[[str], None]:
    """How far a probe is, told only where the last line is a while ago."""
    told = [time.monotonic()]

    def tell(text: str) -> None:
        if time.monotonic() - told[0] > TELL_S:
            told[0] = time.monotonic()
            say(text)

    return tell


def _read(text: str) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
        return document if isinstance(document, dict) else None
    except ValueError:
        return None


def proven_at(text: str) -> datetime.datetime | None:
    """When the proof was written, by the controller's clock; None where the file does not tell."""
    document = _read(text)
    try:
        return datetime.datetime.fromisoformat(document["when"]) if document else None
    except (KeyError, TypeError, ValueError):
        return None


def stored_proof(text: str) -> str:
    """The proof in a few words for a table: `completion 2026-11-30 05:03:40Z`."""
    document, when = _read(text), proven_at(text)
    if document is None or when is None:
        return "proof.json is unreadable"
    evidence = document.get("evidence")
    probes = [str(item.get("probe")) for item in evidence if isinstance(item, dict)] if evidence else ["health"]
    return f"{', '.join(probes)} {when:%Y-%m-%d %H:%M:%S}Z"


def found_before(texts: Iterable[str | None], probe: str) -> Evidence | None:
    """What a probe found of a release, by its proof.json and verify.json: the run with most trials, then the latest.

    Only a run that passed is a baseline. What cannot be read is none.
    """
    best: tuple[int, int, Evidence] | None = None
    for number, text in enumerate(texts):
        items = (_read(text) or {}).get("evidence") if text else None
        for item in items if isinstance(items, list) else []:
            try:
                evidence = Evidence.model_validate(item)
            except ValidationError:
                continue
            trials = evidence.details.get("trials")
            rank = (trials if isinstance(trials, int) else 0, number)
            if evidence.probe == probe and evidence.passed and (best is None or rank >= best[:2]):
                best = (*rank, evidence)
    return best[2] if best else None


def measured_then(text: str | None) -> dict[str, Any] | None:
    """What the engine's metrics said of its cache when it was proven; None where proof.json does not tell."""
    measured = (_read(text) or {}).get("measured") if text else None
    return measured if isinstance(measured, dict) else None
