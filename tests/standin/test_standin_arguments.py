import pytest

from lab.standin.arguments import UsageError, parse


def test_a_whole_command_line() -> None:
    settings = parse(
        [
            *("serve", "/models/glm", "--host", "127.0.0.1", "--port=8001", "--served-model-name", "glm", "glm-5"),
            *("-tp", "4", "--pipeline_parallel_size", "2", "-dp=3", "--max-model-len", "512K", "--enforce-eager"),
            *("--kv-cache-dtype", "fp8_ds_mla", "--hf-overrides", '{"index_topk_freq": 1}', "-O3", "-cc.mode=2"),
            *("--speculative-config.method", "mtp", "--no-enable-prefix-caching", "--shutdown-timeout", "30"),
        ]
    )
    assert (settings.model, settings.host, settings.port) == ("/models/glm", "127.0.0.1", 8001)
    assert settings.served_names == ["glm", "glm-5"]
    assert (settings.tp, settings.pp, settings.dp) == (4, 2, 3)
    assert settings.max_model_len == 524288
    assert settings.kv_cache_dtype == "fp8_ds_mla"
    assert settings.hf_overrides == {"index_topk_freq": 1}
    assert settings.shutdown_timeout == 30


@pytest.mark.parametrize(
    ("argv", "model"),
    [
        (["serve", "--port", "8000", "/models/a"], "/models/a"),
        (["serve", "--model", "/models/a"], "/models/a"),
        (["serve", "--enforce-eager", "/models/a"], "/models/a"),
        (["serve", "-tp", "2", "/models/a"], "/models/a"),
        (["serve", "/models/a", "--load-format=dummy", "-dp=8", "-ep", "--headless"], "/models/a"),
    ],
)
def test_the_model_is_found_wherever_it_stands(argv: list[str], model: str) -> None:
    assert parse(argv).model == model


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("1000", 1000), ("1k", 1000), ("1K", 1024), ("25.6k", 25600), ("1M", 2**20), ("auto", None), ("-1", None)],
)
def test_lengths(text: str, tokens: int | None) -> None:
    assert parse(["serve", "m", "--max-model-len", text]).max_model_len == tokens


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "wanted `serve MODEL"),
        (["bench"], "wanted `serve MODEL"),
        (["serve"], "no model"),
        (["serve", "serve", "/models/a"], "unrecognized arguments: /models/a"),
        (["serve", "m", "--port", "http"], "--port: invalid int value: 'http'"),
        (["serve", "m", "--port"], "--port: expected one argument"),
        (["serve", "m", "--max-model-len", "lots"], "--max-model-len"),
        (["serve", "m", "--hf-overrides", "{a: 1}"], "--hf-overrides"),
        (["serve", "m", "-tp", "0"], "wanted at least 1, found 0"),
    ],
)
def test_what_cannot_be_read_is_refused(argv: list[str], says: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(argv)
    assert says in str(error.value)


def test_the_log_shows_flags_and_no_secret() -> None:
    shown = parse(["serve", "m", "--api-key", "hush", "--port", "1", "--enforce-eager"]).shown()
    assert shown == {"model_tag": "m", "api_key": "***", "port": 1, "enforce_eager": True}
