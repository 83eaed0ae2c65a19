"""Asks whether the engine process lives. It does not show that the engine can answer: see completion."""

from probes.asking.exchange import Deadline, ExchangeError, get
from probes.evidence import Endpoint, Evidence, Limits


def probe(endpoint: Endpoint, limits: Limits) -> Evidence:
    """Passes where /health is 200. Asks once: to wait for it is the caller's part."""
    deadline = Deadline(limits.total_s, limits.connect_s)
    url = f"{endpoint.url}/health"
    wanted, found, passed = f"HTTP 200 to GET {url}", "HTTP 200", False
    try:
        get(url, deadline)
        passed = True
    except ExchangeError as error:
        wanted, found = error.wanted, endpoint.hide(error.found)
    return Evidence(probe="health", passed=passed, wanted=wanted, found=found, seconds=deadline.passed_s)
