import json
import re
from pathlib import Path

import pytest

from lab.standin.arguments import parse
from lab.standin.model import check_heads, context_length, read, stages
from lab.standin.pool import Pool


@pytest.mark.parametrize(
    ("layers", "pp", "parts"),
    [(78, 1, [78]), (78, 2, [39, 39]), (78, 4, [19, 20, 20, 19]), (79, 2, [40, 39]), (7, 4, [2, 2, 2, 1])],
)
def test_the_remainder_goes_to_the_middle_first(layers: int, pp: int, parts: list[int]) -> None:
    assert stages(layers, pp, None) == parts


@pytest.mark.parametrize(
    ("wanted", "pp", "says"),
    [
        ("41,37", 4, "len(partitions)=2 does not match pp_size=4."),
        ("41,37", 1, "len(partitions)=2 does not match pp_size=1."),
        ("41,36", 2, "sum(partitions)=77 does not match num_hidden_layers=78."),
        ("41;37", 2, "Invalid partition string: 41;37"),
    ],
)
def test_a_wrong_partition_is_a_value_error(wanted: str, pp: int, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        stages(78, pp, wanted)


def test_a_right_partition(model: Path) -> None:
    assert stages(78, 2, "41,37") == [41, 37]


def test_heads_must_divide(model: Path) -> None:
    check_heads(read(parse(["serve", str(model)])), 8)
    with pytest.raises(ValueError, match=r"attention heads \(64\) must be divisible by tensor parallel size \(3\)"):
        check_heads(read(parse(["serve", str(model)])), 3)


def test_overrides_reach_the_model(model: Path) -> None:
    overridden = read(parse(["serve", str(model), "--hf-overrides", '{"num_hidden_layers": 4}']))
    assert overridden.layers == 4


def test_the_text_part_of_a_multimodal_model_is_read(tmp_path: Path) -> None:
    config = {"model_type": "x", "text_config": {"num_hidden_layers": 6, "num_attention_heads": 8}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = read(parse(["serve", str(tmp_path)]))
    assert (found.layers, found.heads) == (6, 8)


@pytest.mark.parametrize("text", ["{", "[]", '{"num_hidden_layers": "many"}', "{}"])
def test_a_bad_config_is_a_value_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config\.json"):
        read(parse(["serve", str(tmp_path)]))


def test_context_beyond_the_model_needs_consent(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 2, "max_position_embeddings": 4096}')
    settings = parse(["serve", str(tmp_path), "--max-model-len", "8192"])
    found = read(settings)
    with pytest.raises(ValueError, match="greater than the derived"):
        context_length(found, settings, {})
    assert context_length(found, settings, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}) == 8192
    assert context_length(found, parse(["serve", str(tmp_path)]), {}) == 4096


def _pool(model: Path, *flags: str, partition: str | None = None) -> Pool:
    settings = parse(["serve", str(model), "--max-model-len", "131072", *flags])
    found = read(settings)
    return Pool(found, settings, stages(found.layers, settings.pp, partition), 131072)


def test_the_pool_moves_as_a_real_one_does(model: Path) -> None:
    even = _pool(model, "-tp", "4", "-pp", "2")
    assert even.tokens == _pool(model, "-tp", "4", "-pp", "2").tokens
    assert even.tokens == int(even.concurrency * 131072)
    assert even.tokens > _pool(model, "-tp", "4", "-pp", "2", partition="45,33").tokens
    assert even.tokens == _pool(model, "-tp", "8", "-pp", "2").tokens, "TP adds no room to a latent"
    assert even.tokens < _pool(model, "-pp", "2", "--kv-cache-dtype", "fp8_ds_mla").tokens
    assert even.tokens > _pool(model, "-pp", "2", "--gpu-memory-utilization", "0.8").tokens
    assert even.block_size == 64
