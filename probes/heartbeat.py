"""A token within a deadline: finds an engine that hangs while /health is green. For watching, not for judging.

On a node the same question is asked once a minute by `vllm-fleet-heartbeat@SERVICE.timer`: see docs/proof.md.
"""

from probes.asking.ask import ask
from probes.asking.exchange import Deadline, ExchangeError
from probes.evidence import Endpoint, Evidence, Limits

WITHIN_S = 30.0


def probe(endpoint: Endpoint, limits: Limits) -> Evidence:
    """Passes where the first token of a tiny answer comes within `limits.first_token_s`, by default 30 s."""
    within = limits.first_token_s or WITHIN_S
    deadline = Deadline(min(limits.total_s, within + limits.connect_s), limits.connect_s)
    wanted, passed = f"a token within {within:g} s", False
    try:
        few = limits.model_copy(update={"max_tokens": limits.max_tokens or 4, "first_token_s": within})
        answer = ask(endpoint, "Say yes.", few, deadline)
        found, passed = f"a token after {answer.first_token_s:.2f} s", True
    except ExchangeError as error:
        found = f"{error.found} (wanted {error.wanted})"
    return Evidence(
        probe="heartbeat", passed=passed, wanted=wanted, found=endpoint.hide(found), seconds=deadline.passed_s
    )
