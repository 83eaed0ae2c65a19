"""The lines that vLLM 0.30 prints while it starts, in its order and to its streams."""

from __future__ import annotations

import os
import sys
import time

from .arguments import Settings
from .model import Model
from .pool import Pool

# the image of another engine version says so in its launcher
VERSION = os.environ.get("VLLM_STANDIN_VERSION", "0.30.0") + "+standin"
SHARDS = 4


def log(text: str, who: str = "APIServer", where: str = "standin.py:1", level: str = "INFO") -> None:
    """One line as vLLM's logger writes it: to stdout, with the process that speaks."""
    now = time.strftime("%m-%d %H:%M:%S")
    # one write a line, so that threads do not tear each other's lines
    print(f"({who} pid={os.getpid()}) {level} {now} [{where}] {text}\n", end="", flush=True)


def uvicorn(text: str) -> None:
    """One line as uvicorn writes it: to stderr."""
    print(f"(APIServer pid={os.getpid()}) INFO:     {text}\n", end="", file=sys.stderr, flush=True)


def banner(settings: Settings) -> None:
    print(f"vllm-standin (a stand-in, not vLLM) version {VERSION}", flush=True)
    log(f"non-default args: {settings.shown()}", where="api_utils.py:286")


def begin(model: Model, settings: Settings, max_model_len: int) -> None:
    log(f"Resolved architecture: {model.architecture}", where="model.py:684")
    log(f"Using max model len {max_model_len}", where="model.py:2021")
    shape = f"tensor_parallel_size={settings.tp}, pipeline_parallel_size={settings.pp}"
    log(
        f"Initializing a V1 LLM engine (v{VERSION}) with config: model={settings.model!r}, "
        f"max_seq_len={max_model_len}, {shape}, data_parallel_size={settings.dp}, "
        f"kv_cache_dtype={settings.kv_cache_dtype}",
        who="EngineCore",
        where="core.py:123",
    )


def shard(done: int) -> None:
    """The loader's progress bar goes to stderr and has no logger's prefix."""
    percent = 100 * done // SHARDS
    print(
        f"Loading safetensors checkpoint shards: {percent:3d}% Completed | {done}/{SHARDS}",
        file=sys.stderr,
        flush=True,
    )


def loaded(pool: Pool, max_model_len: int, seconds: float) -> None:
    log(
        f"Model loading took {pool.weights_gib:.2f} GiB memory and {seconds:.6f} seconds",
        who="Worker",
        where="gpu_model_runner.py:4412",
    )
    log(
        f"Available KV cache memory: {pool.available_gib:.2f} GiB",
        who="Worker",
        where="gpu_worker.py:480",
    )
    log(
        f"GPU KV cache size: {pool.tokens:,} tokens, "
        f"Maximum concurrency for {max_model_len:,} tokens per request: {pool.concurrency:.2f}x",
        who="EngineCore",
        where="kv_cache_utils.py:1879",
    )
    log(
        f"init engine (profile, create kv cache, warmup model) took {seconds:.2f} s",
        who="EngineCore",
        where="core.py:368",
    )


def serving(host: str, port: int) -> None:
    log("Supported tasks: ['generate']", where="entry.py:135")
    log(f"Starting vLLM server on http://{host}:{port}", where="entry.py:139")
    uvicorn(f"Started server process [{os.getpid()}]")
    uvicorn("Waiting for application startup.")
    uvicorn("Application startup complete.")


def failed(error: Exception) -> None:
    """What is last seen of an engine that could not start: the cause, then vLLM's own summary."""
    log(f"EngineCore failed to start. {type(error).__name__}: {error}", "EngineCore", "core.py:1178", "ERROR")
    print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    print(
        "RuntimeError: Engine core initialization failed. See root cause above.",
        file=sys.stderr,
        flush=True,
    )
