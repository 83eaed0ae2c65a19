"""What runs and what was done, and vLLM's /metrics text of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .arguments import Settings
from .pool import Pool


class Counters:
    """One engine's (one data-parallel rank's) numbers since the start."""

    def __init__(self) -> None:
        self.running = 0
        self.waiting = 0
        self.held_tokens = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.finished = {"stop": 0, "length": 0, "abort": 0, "error": 0}


class Load:
    """The requests of all engines. Thread-safe."""

    def __init__(self, settings: Settings, pool: Pool) -> None:
        self._settings = settings
        self._pool = pool
        self._changed = threading.Condition()
        self.engines = [Counters() for _ in range(settings.dp)]

    @contextmanager
    def request(self, prompt_tokens: int) -> Iterator[Counters]:
        """A place in the least busy engine; waits while max_num_seqs requests run there."""
        with self._changed:
            engine = min(self.engines, key=lambda each: each.running + each.waiting)
            engine.waiting += 1
            self._changed.wait_for(lambda: engine.running < self._settings.max_num_seqs)
            engine.waiting -= 1
            engine.running += 1
            engine.held_tokens += prompt_tokens
            engine.prompt_tokens += prompt_tokens
        try:
            yield engine
        finally:
            with self._changed:
                engine.running -= 1
                engine.held_tokens -= prompt_tokens
                self._changed.notify_all()

    def finish(self, engine: Counters, reason: str, tokens: int) -> None:
        with self._changed:
            engine.finished[reason] += 1
            engine.generation_tokens += tokens

    def text(self) -> str:
        """The Prometheus text format, with the names and labels of vLLM 0.30."""
        with self._changed:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        gauges = {
            "num_requests_running": lambda each: each.running,
            "num_requests_waiting": lambda each: each.waiting,
            "kv_cache_usage_perc": lambda each: min(1.0, each.held_tokens / self._pool.tokens),
        }
        for name, read in gauges.items():
            yield f"# HELP vllm:{name} Of the stand-in engine."
            yield f"# TYPE vllm:{name} gauge"
            for number, engine in enumerate(self.engines):
                yield f"vllm:{name}{{{self._labels(number)}}} {float(read(engine))}"
        for name in ("prompt_tokens", "generation_tokens"):
            yield f"# HELP vllm:{name}_total Of the stand-in engine."
            yield f"# TYPE vllm:{name}_total counter"
            for number, engine in enumerate(self.engines):
                yield f"vllm:{name}_total{{{self._labels(number)}}} {float(getattr(engine, name))}"
        yield "# HELP vllm:request_success_total Of the stand-in engine."
        yield "# TYPE vllm:request_success_total counter"
        for number, engine in enumerate(self.engines):
            for reason, done in engine.finished.items():
                labels = self._labels(number, finished_reason=reason)
                yield f"vllm:request_success_total{{{labels}}} {float(done)}"
        yield "# HELP vllm:cache_config_info Of the stand-in engine; the figures are made up."
        yield "# TYPE vllm:cache_config_info gauge"
        for number in range(len(self.engines)):
            yield f"vllm:cache_config_info{{{_join(self._cache_config(number))}}} 1.0"

    def _labels(self, engine: int, **more: str) -> str:
        return _join({"engine": str(engine), **more, "model_name": self._settings.served_names[0]})

    def _cache_config(self, engine: int) -> dict[str, str]:
        return {
            "block_size": str(self._pool.block_size),
            "cache_dtype": self._settings.kv_cache_dtype,
            "engine": str(engine),
            "gpu_memory_utilization": str(self._settings.gpu_memory_utilization),
            "kv_cache_max_concurrency": str(self._pool.concurrency),
            "kv_cache_memory_bytes": "None",
            "kv_cache_size_tokens": str(self._pool.tokens),
            "num_gpu_blocks": str(self._pool.blocks),
            "num_gpu_blocks_override": "None",
        }


def _join(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
