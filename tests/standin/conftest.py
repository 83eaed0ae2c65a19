"""A model for the stand-in engine: only config.json is ever read."""

import json
from pathlib import Path

import pytest

MLA = {
    "architectures": ["GlmMoeDsaForCausalLM"],
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "hidden_size": 6144,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(MLA))
    return folder
