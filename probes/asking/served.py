"""What an engine says that it serves: its models, and how many tokens a request may have."""

import json
from typing import Any

from probes.asking.exchange import Deadline, ExchangeError, get, shortened
from probes.evidence import Endpoint


def models(endpoint: Endpoint, deadline: Deadline) -> dict[str, Any]:
    """Name -> what /v1/models says of it. Raises ExchangeError unless the wanted one is among them."""
    url = f"{endpoint.url}/v1/models"
    text = get(url, deadline, endpoint.headers)
    try:
        found = {str(model["id"]): model for model in json.loads(text)["data"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ExchangeError(f"a list of models from {url}", shortened(text) or "no text") from None
    if endpoint.model not in found:
        raise ExchangeError(f"model {endpoint.model} at {url}", ", ".join(found) or "no model")
    return found


def max_model_len(endpoint: Endpoint, deadline: Deadline) -> int | None:
    """Tokens of prompt and answer together; None where the engine does not tell."""
    length = models(endpoint, deadline)[endpoint.model].get("max_model_len")
    return length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else None


def room(endpoint: Endpoint, deadline: Deadline, tokens: int) -> int:
    """So many tokens for an answer, or half of what a request may have where that is less."""
    longest = max_model_len(endpoint, deadline)
    return tokens if longest is None else max(1, min(tokens, longest // 2))
