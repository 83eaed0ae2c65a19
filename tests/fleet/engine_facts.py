"""Where the engine's recorded figures lie: VLLM_FLEET_SHARED, or `shared` beside the checkout."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
ENGINE = Path(os.environ.get("VLLM_FLEET_SHARED", CHECKOUT.parent / "shared")) / "engine"

needs_engine_facts = pytest.mark.skipif(
    not ENGINE.exists(), reason=f"no recorded figures at {ENGINE}; point VLLM_FLEET_SHARED at them"
)


def config(name: str) -> dict[str, Any]:
    """The fields of one public model's config.json."""
    document = json.loads((ENGINE / "configs" / f"{name}.json").read_text())
    assert isinstance(document, dict)
    return document


def pairs() -> dict[str, Any]:
    """One operator's measurements on GPUs with NVLink in pairs."""
    document = yaml.safe_load((ENGINE / "a100-pairs.yaml").read_text())
    assert isinstance(document, dict)
    return document


def cases() -> list[dict[str, Any]]:
    """Start-up figures of real engines; none where they are absent."""
    path = ENGINE / "logs" / "cases.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def models() -> dict[str, dict[str, Any]]:
    """Architecture numbers of the models of these figures."""
    path = ENGINE / "logs" / "models.json"
    return json.loads(path.read_text()) if path.exists() else {}
