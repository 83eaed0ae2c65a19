"""Reads an engine's /metrics: the Prometheus text format, with vLLM's names."""

import math
import re
from typing import NamedTuple

from probes.asking.exchange import Deadline, ExchangeError, get, shortened

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
CACHE = "vllm:cache_config_info"

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,?)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class MetricsError(Exception):
    """/metrics cannot be read: not answered, not parseable, or without what was looked for."""


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def running_requests(url: str, within_s: float = 5.0) -> int:
    """Requests that run or wait, over all engines of the endpoint `url` (http://HOST:PORT).

    Raises MetricsError; a metric that is not there is an error, never 0.
    """
    samples = fetch(url, within_s)
    total = 0.0
    for name in (RUNNING, WAITING):
        values = [sample.value for sample in samples if sample.name == name]
        if not values:
            raise MetricsError(f"{url}/metrics: wanted {name}, found no such metric; is this an engine?")
        total += sum(values)
    if not math.isfinite(total) or total < 0 or total != int(total):
        raise MetricsError(f"{url}/metrics: wanted a count of requests, found {total}")
    return int(total)


def cache_config(url: str, within_s: float = 5.0) -> dict[str, str]:
    """Labels of vllm:cache_config_info: kv_cache_size_tokens, kv_cache_max_concurrency, num_gpu_blocks, block_size.

    Of several data-parallel engines the one with the smallest pool, because a promise must hold on each.
    Raises MetricsError.
    """
    configs = [sample.labels for sample in fetch(url, within_s) if sample.name == CACHE]
    if not configs:
        raise MetricsError(f"{url}/metrics: wanted {CACHE}, found no such metric; is this an engine?")
    try:
        return min(configs, key=lambda labels: int(labels["kv_cache_size_tokens"]))
    except (KeyError, ValueError):
        found = [labels.get("kv_cache_size_tokens") for labels in configs]
        raise MetricsError(f"{url}/metrics: wanted kv_cache_size_tokens as a number, found {found}") from None


def fetch(url: str, within_s: float = 5.0) -> list[Sample]:
    """All samples of an endpoint. Raises MetricsError."""
    try:
        text = get(f"{url.rstrip('/')}/metrics", Deadline(within_s))
    except ExchangeError as error:
        raise MetricsError(f"{url}/metrics: {error}") from error
    try:
        return parse(text)
    except MetricsError as error:
        raise MetricsError(f"{url}/metrics: {error}") from None


def parse(text: str) -> list[Sample]:
    """Samples of a Prometheus text, or MetricsError with the line that is none."""
    samples = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            samples.append(_sample(line.strip(), number))
    return samples


def _sample(line: str, number: int) -> Sample:
    name = _NAME.match(line)
    if name is None:
        raise MetricsError(f"line {number}: wanted a metric's name, found {shortened(line)!r}")
    labels: dict[str, str] = {}
    rest = line[name.end() :].lstrip()
    if rest.startswith("{"):
        labels, rest = _labels(rest[1:], number)
    words = rest.split()  # a value, and perhaps a timestamp
    try:
        value = float(words[0]) if len(words) in (1, 2) else None
    except ValueError:
        value = None
    if value is None:
        raise MetricsError(f"line {number}: wanted a number after {name[0]}, found {shortened(rest)!r}")
    return Sample(name[0], labels, value)


def _labels(text: str, number: int) -> tuple[dict[str, str], str]:
    """Labels up to the closing brace, and what follows it."""
    labels: dict[str, str] = {}
    rest, more = text, True
    while more and not rest.lstrip().startswith("}"):
        label = _LABEL.match(rest)
        if label is None:
            raise MetricsError(f'line {number}: wanted name="value", found {shortened(rest)!r}')
        labels[label[1]] = re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), label[2])
        rest, more = rest[label.end() :], bool(label[3])
    rest = rest.lstrip()
    if not rest.startswith("}"):
        raise MetricsError(f"line {number}: wanted a closing brace, found {shortened(rest)!r}")
    return labels, rest[1:]
