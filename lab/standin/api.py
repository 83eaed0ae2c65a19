"""vLLM's HTTP interface: which path does what, who may ask, and vLLM's error bodies."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time

from . import completions
from .arguments import Settings
from .faults import FaultError, Faults
from .hosts import Hosts
from .metrics import Load
from .server import REASONS, Disconnected, Exchange, Pace
from .startup import VERSION, log, uvicorn

AT_START = ("slow-start", "crash-start", "crash-after", "first-completion-500", "completion-500")
"""Faults that are not drawn once for each answer."""
ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class Api:
    """Answers each exchange. `stopping` tells whether new completions are refused."""

    def __init__(
        self,
        settings: Settings,
        load: Load,
        faults: Faults,
        max_model_len: int,
        environ: dict[str, str],
        hosts: Hosts,
    ) -> None:
        self._hosts = hosts
        self._settings = settings
        self._load = load
        self._faults = faults
        self._max_model_len = max_model_len
        self._tokens_per_s = float(environ.get("VLLM_STANDIN_TOKENS_PER_S", "2000"))
        self._prefill_tokens_per_s = float(environ.get("VLLM_STANDIN_PREFILL_TOKENS_PER_S", "0"))
        self._prefixes = Prefixes()
        env_key = environ.get("VLLM_API_KEY", "")
        self._keys = [key for key in (*settings.api_keys, env_key) if key]
        self._created = int(time.time())
        self._asked = itertools.count(1)  # next() is atomic, += is not
        self._answered = itertools.count(1)
        self.stopping = False

    def handle(self, exchange: Exchange) -> None:
        try:
            self._route(exchange)
        except completions.Refused as error:
            exchange.json(error.status, error.body())
        if self._settings.access_log:
            status = f"{exchange.status} {REASONS.get(exchange.status, '')}"
            uvicorn(f'{exchange.client} - "{exchange.method} {exchange.path} HTTP/1.1" {status}')

    def _route(self, exchange: Exchange) -> None:
        routes = {
            "/health": ("GET", self._health),
            "/ping": ("GET", self._health),
            "/version": ("GET", self._version),
            "/metrics": ("GET", self._metrics),
            "/v1/models": ("GET", self._models),
            "/v1/chat/completions": ("POST", self._complete),
            "/v1/completions": ("POST", self._complete),
            "/v1/responses": ("POST", self._complete),
        }
        if exchange.path.startswith("/v1") and not self._allowed(exchange):
            return exchange.json(401, {"error": "Unauthorized"})
        if exchange.path not in routes:
            return exchange.json(404, {"detail": "Not Found"})
        method, answer = routes[exchange.path]
        asked = "GET" if exchange.method == "HEAD" else exchange.method
        if asked != method:
            return exchange.json(405, {"detail": "Method Not Allowed"})
        return answer(exchange)

    def _allowed(self, exchange: Exchange) -> bool:
        scheme, _, given = exchange.headers.get("authorization", "").partition(" ")
        if not self._keys:
            return True
        return scheme.lower() == "bearer" and given.strip() in self._keys

    def _health(self, exchange: Exchange) -> None:
        exchange.answer(200, b"")

    def _version(self, exchange: Exchange) -> None:
        exchange.json(200, {"version": VERSION})

    def _metrics(self, exchange: Exchange) -> None:
        exchange.answer(200, self._load.text().encode(), "text/plain; version=0.0.4; charset=utf-8")

    def _prefill(self, exchange: Exchange, asked: completions.Asked) -> None:
        """The time that a prompt takes, less what is cached; none unless VLLM_STANDIN_PREFILL_TOKENS_PER_S says so."""
        if self._prefill_tokens_per_s > 0:
            exchange.pause((asked.prompt_tokens - asked.cached_tokens) / self._prefill_tokens_per_s)

    def _models(self, exchange: Exchange) -> None:
        models = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": "vllm-standin",
                "root": self._settings.model,
                "parent": None,
                "max_model_len": self._max_model_len,
            }
            for name in self._settings.served_names
        ]
        exchange.json(200, {"object": "list", "data": models})

    def _complete(self, exchange: Exchange) -> None:
        if self.stopping:
            raise completions.Refused(503, "the engine is shutting down", "ServiceUnavailableError")
        try:
            faults = self._faults.now()
        except FaultError as error:  # a typo must not look like a healthy engine
            raise completions.Refused(500, f"vllm-standin: {error}", "InternalServerError") from None
        asked = completions.read(exchange, self._settings, self._max_model_len)
        first = next(self._asked) == 1
        if "completion-500" in faults or ("first-completion-500" in faults and first):
            raise completions.Refused(500, ENGINE_DEAD, "InternalServerError")
        struck = {kind for kind, fault in faults.items() if kind not in AT_START and self._faults.strikes(fault)}
        if "busy" in struck:
            raise completions.Refused(503, "the engine is overloaded", "ServiceUnavailableError")
        if "throttle" in struck:
            raise completions.Refused(429, "too many requests", "TooManyRequestsError")
        with self._load.request(asked.prompt_tokens) as engine:
            while "hang" in struck or not self._hosts.step():
                exchange.pause(3600)
            asked.cached_tokens = self._prefixes.take(asked.prompt)
            self._prefill(exchange, asked)
            plan = completions.plan(asked, struck)
            writer = completions.Writer(exchange, asked, plan, Pace(exchange, self._tokens_per_s), struck)
            try:
                writer.write()
            except Disconnected:
                self._load.finish(engine, "abort", writer.tokens)
                raise
            self._load.finish(engine, plan.finish_reason, writer.tokens)
        answered = next(self._answered)
        crash = faults.get("crash-after")
        if crash and answered >= crash.amount and self._faults.strikes(crash):
            die(f"fault crash-after: {answered} requests answered")


class Prefixes:
    """What a prefix cache would hold: blocks of 16 words, each with all that stands before it."""

    BLOCK = 16
    MOST = 200_000

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._guard = threading.Lock()

    def take(self, prompt: str) -> int:
        """Tokens of the prompt that are cached; all of its whole blocks are from now on."""
        words, so_far, cached = prompt.split(), 0, 0
        with self._guard:
            if len(self._seen) > self.MOST:
                self._seen.clear()
            for end in range(self.BLOCK, len(words), self.BLOCK):  # the last token is always computed
                so_far = hash((so_far, *words[end - self.BLOCK : end]))
                cached = end if so_far in self._seen and cached == end - self.BLOCK else cached
                self._seen.add(so_far)
        return cached


def die(why: str) -> None:
    """The way an engine goes whose core process died: at once, with every other stream cut."""
    log(f"EngineCore encountered a fatal error. {why}", "EngineCore", "core.py:1201", "ERROR")
    print(f"vllm.v1.engine.exceptions.EngineDeadError: {ENGINE_DEAD}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(1)
