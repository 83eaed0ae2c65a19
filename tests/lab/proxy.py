"""A real HAProxy before the nodes of a service, the hooks that drain it, and clients that stream through it."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rollout_site import RolloutSite

HOOK = Path(__file__).parent / "proxy_hook.py"
CONFIGURATION = """
global
    stats socket {admin} mode 600 level admin
defaults
    mode http
    retries 0
    timeout connect 2s
    timeout client 30s
    timeout server 30s
frontend clients
    bind 127.0.0.1:{port}
    default_backend chat
backend chat
    balance roundrobin
"""
TOKENS = 40


class Proxy:
    """One HAProxy; `hook` gives the words that drain a node or let it serve again."""

    def __init__(self, folder: Path, port: int) -> None:
        self.admin, self.port = folder / "admin", port

    def hook(self, state: str) -> dict[str, list[str]]:
        """As a policy declares it: `drain` or `ready`."""
        return {"command": [sys.executable, str(HOOK), str(self.admin), "{service}/{node}", state]}


@contextmanager
def running_proxy(site: RolloutSite, nodes: tuple[str, ...]) -> Iterator[Proxy]:
    """HAProxy as a child of this process, with these nodes behind it; installed where it is missing."""
    if shutil.which("haproxy") is None:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        words = ["apt-get", "-q", "install", "-y", "--no-install-recommends", "haproxy"]
        subprocess.run(["apt-get", "-q", "update"], env=environment, check=True, capture_output=True)
        subprocess.run(words, env={**environment, "RUNLEVEL": "1"}, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    proxy = Proxy(site.root, port)
    servers = "".join(f"    server {node} {site.lab.node(node).address}:8000\n" for node in nodes)
    file = site.root / "haproxy.cfg"
    file.write_text(CONFIGURATION.format(admin=proxy.admin, port=port) + servers)
    process = subprocess.Popen(["haproxy", "-db", "-q", "-f", str(file)])
    try:
        deadline = time.monotonic() + 10
        while not _listens(port):
            assert process.poll() is None and time.monotonic() < deadline, "HAProxy did not start"
            time.sleep(0.05)
        yield proxy
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class Clients:
    """Clients that stream one completion after the other. `outcomes`: whole, cut, or what was answered instead."""

    def __init__(self, port: int, number: int, host: str = "127.0.0.1") -> None:
        self._host, self._port, self._stop = host, port, threading.Event()
        self.outcomes: list[str] = []
        self._threads = [threading.Thread(target=self._ask_on) for _ in range(number)]

    def _ask_on(self) -> None:
        while not self._stop.is_set():
            self.outcomes.append(self._ask())
            if self.outcomes[-1] != "whole":
                time.sleep(0.1)  # a refused client must not fill the time between with refusals

    def _ask(self) -> str:
        asked = {"messages": [{"role": "user", "content": "Tell."}], "stream": True, "ignore_eos": True}
        body = json.dumps({**asked, "max_tokens": TOKENS})
        connection = http.client.HTTPConnection(self._host, self._port, timeout=30)
        try:
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                return f"status {answer.status}"
            text = ""
            with suppress(http.client.IncompleteRead, OSError):
                for line in answer:
                    text += line.decode()
            whole = text.count('"content": ') == TOKENS + 1 and text.rstrip().endswith("data: [DONE]")
            return "whole" if whole else "cut"
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
            time.sleep(0.25)  # not in step: at any moment some stream has just begun
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """No client asks once more."""
        self._stop.set()

    @property
    def counted(self) -> Counter[str]:
        """How often each outcome was."""
        return Counter(self.outcomes)
