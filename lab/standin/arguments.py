"""vLLM's command line, read leniently.

Every flag is taken, because the stand-in must start on any argv that a plan renders; whether the real parser
would accept it is another question. Only the flags listed in `Settings` have an effect.
"""

from __future__ import annotations

import json
import re

SHORT = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "ep": "enable-expert-parallel",
    "n": "nnodes",
    "r": "node-rank",
    "q": "quantization",
    "sc": "speculative-config",
    "cc": "compilation-config",
}
MANY_VALUES = {
    "served-model-name",
    "api-key",
    "lora-modules",
    "middleware",
    "logits-processors",
    "numa-bind-nodes",
    "numa-bind-cpus",
    "cudagraph-capture-sizes",
}
SWITCH_PREFIXES = ("enable-", "disable-", "enforce-", "trust-", "no-", "return-", "fully-", "skip-", "async-")
SWITCHES = {"headless", "language-model-only", "data-parallel-hybrid-lb", "data-parallel-external-lb"}
SECRET = {"api-key", "hf-token"}

_SIZES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class UsageError(Exception):
    """argv that cannot be read; the engine exits with 2, as the real parser does."""


class Settings:
    """The flags that have an effect here, with vLLM's defaults."""

    def __init__(self, model: str, flags: dict[str, list[str]]) -> None:
        self.model = model
        self.flags = flags
        self.host = _one(flags, "host", "0.0.0.0")
        self.port = _int(flags, "port", 8000)
        self.served_names = flags.get("served-model-name") or [model]
        self.max_model_len = _length(flags)
        self.tp = _int(flags, "tensor-parallel-size", 1)
        self.pp = _int(flags, "pipeline-parallel-size", 1)
        self.dp = _int(flags, "data-parallel-size", 1)
        self.nnodes = _int(flags, "nnodes", 1)
        self.node_rank = _int(flags, "node-rank", 0)
        self.master_addr = _one(flags, "master-addr", "127.0.0.1")
        self.master_port = _int(flags, "master-port", 29501)
        self.headless = "headless" in flags
        self.max_num_seqs = _int(flags, "max-num-seqs", 256)
        self.block_size = _int(flags, "block-size", 0)
        self.kv_cache_dtype = _one(flags, "kv-cache-dtype", "auto")
        self.gpu_memory_utilization = _float(flags, "gpu-memory-utilization", 0.92)
        self.hf_overrides = _json(flags, "hf-overrides")
        self.api_keys = flags.get("api-key", [])
        self.shutdown_timeout = _float(flags, "shutdown-timeout", 0.0)
        self.access_log = "disable-uvicorn-access-log" not in flags

    def shown(self) -> dict[str, object]:
        """What was asked for, for the log: names as vLLM prints them, secrets masked."""
        given: dict[str, object] = {"model_tag": self.model}
        for name, values in self.flags.items():
            value: object = values if name in MANY_VALUES else _plain(values[-1]) if values else True
            given[name.replace("-", "_")] = "***" if name in SECRET else value
        return given


def parse(argv: list[str]) -> Settings:
    """Settings of `serve MODEL --flag value ...`.

    Raises UsageError where there is no `serve`, no model, a word too many, or a value of the wrong type.
    """
    if not argv or argv[0] != "serve":
        raise UsageError(f"wanted `serve MODEL [flags]`, found {argv[:1] or 'no arguments'}")
    words, flags = _split(argv[1:])
    model = words[0] if words else _one(flags, "model", "")
    if len(words) > 1:
        raise UsageError(f"unrecognized arguments: {' '.join(words[1:])}")
    if not model:
        raise UsageError("no model given: the stand-in has no default model and downloads none")
    settings = Settings(model, flags)
    for name, size in (("tensor", settings.tp), ("pipeline", settings.pp), ("data", settings.dp)):
        if size < 1:
            raise UsageError(f"argument --{name}-parallel-size: wanted at least 1, found {size}")
    _check_nodes(settings)
    return settings


def _check_nodes(settings: Settings) -> None:
    world = settings.tp * settings.pp * settings.dp
    if settings.nnodes < 1 or world % settings.nnodes:
        raise UsageError(f"`--nnodes {settings.nnodes}` must evenly divide the total world size ({world}).")
    if not 0 <= settings.node_rank < settings.nnodes:
        raise UsageError(f"`--node-rank` must be between 0 and {settings.nnodes - 1}; got {settings.node_rank}.")


def _split(argv: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Words that belong to no flag, and the values of each flag, by its name with hyphens."""
    words: list[str] = []
    flags: dict[str, list[str]] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not _is_flag(word):
            words.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = SHORT.get(name, name).replace("_", "-")
        if equals:
            values = [value]
        elif name in SWITCHES or name.startswith(SWITCH_PREFIXES):
            values = []
        else:
            values = _take(rest, many=name in MANY_VALUES)
        flags[name] = values
    return words, flags


def _take(rest: list[str], many: bool) -> list[str]:
    values: list[str] = []
    while rest and not _is_flag(rest[0]) and (many or not values):
        values.append(rest.pop(0))
    return values


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not re.fullmatch(r"-|-[\d.]+", word)


def _one(flags: dict[str, list[str]], name: str, default: str) -> str:
    if name not in flags:
        return default
    if not flags[name]:
        raise UsageError(f"argument --{name}: expected one argument")
    return flags[name][-1]


def _int(flags: dict[str, list[str]], name: str, default: int) -> int:
    text = _one(flags, name, str(default))
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"argument --{name}: invalid int value: {text!r}") from None


def _float(flags: dict[str, list[str]], name: str, default: float) -> float:
    text = _one(flags, name, str(default))
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"argument --{name}: invalid float value: {text!r}") from None


def _json(flags: dict[str, list[str]], name: str) -> dict[str, object]:
    text = _one(flags, name, "{}")
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"argument --{name}: Value {text} cannot be converted to a JSON object")
    return value


def _plain(text: str) -> object:
    """A flag's value as the log shows it: a number or JSON as such, all else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _length(flags: dict[str, list[str]]) -> int | None:
    """Tokens of --max-model-len: a count, with vLLM's suffixes (1k = 1000, 1K = 1024), or None for `auto`."""
    text = _one(flags, "max-model-len", "auto")
    if text in ("auto", "-1"):
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgtKMGT]?)", text)
    if not match or int(float(match[1]) * _SIZES.get(match[2], 1)) < 1:
        raise UsageError(f"argument --max-model-len: invalid human_readable_int_or_auto value: {text!r}")
    return int(float(match[1]) * _SIZES.get(match[2], 1))
