"""Where the recorded outputs of real machines lie: VLLM_FLEET_SHARED, or `shared` beside the checkout."""

import csv
import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("VLLM_FLEET_SHARED", CHECKOUT.parent / "shared"))
CAPTURES = SHARED / "captures"


def index() -> list[dict[str, str]]:
    """The rows of topo/index.tsv: one real output each, with what must be read from it."""
    table = CAPTURES / "topo" / "index.tsv"
    if not table.exists():
        return []
    with table.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def topology_text(name: str) -> str:
    """One recorded topology, byte for byte."""
    return (CAPTURES / "topo" / f"{name}.txt").read_bytes().decode("utf-8")


def require_captures() -> None:
    """Skip with the reason where the recordings are absent; on CI their absence is a failure."""
    if CAPTURES.exists():
        return
    reason = f"no recorded outputs at {CAPTURES}; point VLLM_FLEET_SHARED at them"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
