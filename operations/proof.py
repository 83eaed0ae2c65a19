"""proof.json as it lies beside a proven release: who looked, when, and what they found."""

import datetime
import json
from typing import Any


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
