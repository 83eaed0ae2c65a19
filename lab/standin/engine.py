"""vllm-standin: `vllm serve MODEL ...`, a stand-in for vLLM, not vLLM.

Exit codes: 0 stopped as asked, 1 could not start or died, 2 argv that cannot be read, 128 + N at once on a second
signal N.

SIGTERM and SIGINT do what vLLM 0.30 does: no new request is taken, requests that run get --shutdown-timeout
seconds to finish (default 0: they are cut), then the process ends. So a rollout that does not drain loses
requests here too.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from . import startup
from .api import Api
from .arguments import Settings, UsageError, parse
from .faults import FaultError, Faults
from .hosts import Hosts, follow
from .metrics import Load
from .model import check_heads, context_length, read, stages
from .pool import Pool
from .server import Server


def main(argv: list[str]) -> int:
    if argv == ["--version"]:
        print(startup.VERSION)
        return 0
    environ = dict(os.environ)
    try:
        settings = parse(argv)
        faults = Faults(environ)
    except UsageError as error:
        print(f"vllm serve: error: {error}", file=sys.stderr)
        return 2
    except FaultError as error:
        print(f"vllm-standin: {error}", file=sys.stderr)
        return 1
    try:
        return Engine(settings, faults, environ).run()
    except (ValueError, OSError) as error:
        startup.failed(error)
        return 1


class Stopped(Exception):
    """A signal came before the engine was ready."""


class Engine:
    """One process group of the real engine, as one process."""

    def __init__(self, settings: Settings, faults: Faults, environ: dict[str, str]) -> None:
        self._settings = settings
        self._faults = faults
        self._environ = environ
        self._api: Api | None = None
        self._server: Server | None = None
        self._signals = 0

    def run(self) -> int:
        """Starts, serves, and gives the exit code. Raises ValueError or OSError where the start fails."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        startup.banner(self._settings)
        try:
            if self._settings.headless:
                self._load_weights()
                follow(self._settings, self._dies)
            self._start()
        except Stopped:
            startup.log("Stopped while starting", level="WARNING")
            return 0
        return self._serve()

    def _start(self) -> None:
        settings, began = self._settings, time.monotonic()
        server = Server(settings.host, settings.port, lambda exchange: self._api.handle(exchange))
        model = read(settings)
        check_heads(model, settings.tp)
        max_model_len = context_length(model, settings, self._environ)
        startup.begin(model, settings, max_model_len)
        parts = stages(model.layers, settings.pp, self._environ.get("VLLM_PP_LAYER_PARTITION"))
        pool = Pool(model, settings, parts, max_model_len)
        hosts = Hosts(settings)
        self._load_weights()
        hosts.wait()
        startup.loaded(pool, max_model_len, time.monotonic() - began)
        load = Load(settings, pool)
        self._api = Api(settings, load, self._faults, max_model_len, self._environ, hosts)
        self._server = server

    def _dies(self, answers: int) -> bool:
        """Does a headless part die in this answer?"""
        crash = self._faults.now().get("crash-after")
        return crash is not None and answers >= crash.amount and self._faults.strikes(crash)

    def _load_weights(self) -> None:
        faults = self._faults.now()
        slow = faults["slow-start"].amount if "slow-start" in faults else 0.0
        crash = self._faults.strikes(faults.get("crash-start"))
        for done in range(startup.SHARDS + 1):
            startup.shard(done)
            if crash and done == startup.SHARDS // 2:
                raise ValueError("fault crash-start: the worker died while it loaded the model")
            if slow and done < startup.SHARDS:
                self._load_slowly(slow / startup.SHARDS)

    def _load_slowly(self, seconds: float) -> None:
        """So long, or until the fault is taken back."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and "slow-start" in self._faults.now():
            time.sleep(min(left, 0.2))

    def _serve(self) -> int:
        self._server.listen()  # before the log says so: who reads it connects at once
        startup.serving(self._settings.host, self._server.port)
        cut = self._server.serve(self._settings.shutdown_timeout)
        if cut:
            startup.log(f"Shut down with {cut} requests unfinished", level="WARNING")
        startup.uvicorn("Application shutdown complete.")
        sys.stdout.flush()
        os._exit(0)  # threads that still stream must not hold the process

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + number)
        if self._server is None or self._api is None:
            raise Stopped
        self._api.stopping = True
        self._server.stop()
