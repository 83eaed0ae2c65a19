from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import reply, serving

from lab.standin.metrics import _escaped
from lab.standin.process import running
from probes.asking.metrics import MetricsError, cache_config, parse, running_requests

ENGINES = """
# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="glm"} 2.0
vllm:num_requests_running{engine="1",model_name="glm"} 1.0
vllm:num_requests_waiting{engine="0",model_name="glm"} 4.0
vllm:num_requests_waiting{engine="1",model_name="glm"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="glm",reason="capacity"} 4.0
vllm:cache_config_info{engine="0",kv_cache_size_tokens="1000"} 1.0
vllm:cache_config_info{engine="1",kv_cache_size_tokens="900",} 1.0
"""


def _served(text: str, status: str = "200 OK"):
    return serving(lambda connection, _: connection.sendall(reply(text, status, "text/plain")))


def test_an_engine_tells(model: Path) -> None:
    with running(model, "--served-model-name", 'a "quoted\\name"') as engine:
        assert running_requests(engine.url) == 0
        assert int(cache_config(engine.url)["kv_cache_size_tokens"]) > 0


def test_several_engines_are_summed_and_the_smallest_pool_counts() -> None:
    with _served(ENGINES) as endpoint:
        assert running_requests(endpoint.url) == 7
        assert cache_config(endpoint.url) == {"engine": "1", "kv_cache_size_tokens": "900"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no such metric"),
        ("vllm:num_requests_running 1\n", "wanted vllm:num_requests_waiting"),
        ("vllm:num_requests_running NaN\nvllm:num_requests_waiting 0\n", "wanted a count"),
        ("vllm:num_requests_running 0.5\nvllm:num_requests_waiting 0\n", "wanted a count"),
        ("<html>", "line 1: wanted a metric's name, found '<html>'"),
        ("\n# ok\nvllm:x many\n", "line 3: wanted a number after vllm:x, found 'many'"),
        ("vllm:x\n", "line 1: wanted a number"),
        ("vllm:x 1 2 3\n", "line 1: wanted a number"),
        ('vllm:x{a="1" 1\n', "line 1: wanted a closing brace"),
        ('vllm:x{a="1\n', 'line 1: wanted name="value"'),
        ("vllm:x{a=1} 1\n", 'line 1: wanted name="value"'),
    ],
)
def test_what_cannot_be_read_says_where(text: str, says: str) -> None:
    with _served(text) as endpoint, pytest.raises(MetricsError) as error:
        running_requests(endpoint.url)
    assert says in str(error.value)
    assert f"{endpoint.url}/metrics" in str(error.value)


@pytest.mark.parametrize("labels", ['engine="0"', 'kv_cache_size_tokens="None"'])
def test_a_pool_that_is_not_told_is_an_error(labels: str) -> None:
    with _served(f"vllm:cache_config_info{{{labels}}} 1.0\n") as endpoint, pytest.raises(MetricsError):
        cache_config(endpoint.url)
    with _served("vllm:x 1\n") as endpoint, pytest.raises(MetricsError, match="no such metric"):
        cache_config(endpoint.url)


def test_nobody_there_is_an_error() -> None:
    with _served("") as endpoint:
        pass
    with pytest.raises(MetricsError, match="no connection"):
        running_requests(endpoint.url)
    with _served("", "503 Oh") as endpoint, pytest.raises(MetricsError, match="HTTP 503"):
        running_requests(endpoint.url)


@given(
    st.dictionaries(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True), st.text(), max_size=4), st.floats()
)
def test_any_labels_and_value_survive(labels: dict[str, str], value: float) -> None:
    values = {name: " ".join(text.splitlines()) + "\n" for name, text in labels.items()}
    written = ",".join(f'{name}="{_escaped(text)}"' for name, text in values.items())
    (sample,) = parse(f"vllm:x{{{written}}} {value}\n")
    assert sample.labels == values
    assert sample.value == value or value != value
