import json
from pathlib import Path

import pytest

from probes.evidence import Limits


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 4, "num_attention_heads": 8}))
    return folder


@pytest.fixture
def limits() -> Limits:
    return Limits(total_s=5)
