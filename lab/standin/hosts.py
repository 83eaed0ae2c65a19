"""One engine over several hosts, as vLLM's backend `mp` joins them.

The head listens on the master port and waits until every other host has come; the others, headless, try until it lets
them in. What vLLM 0.30.0 does when one of them goes was seen on its CPU build, and is done here in the same way: a head
that lost a host stays healthy and answers no completion any more, and a host that lost its head does not notice.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable

from .arguments import Settings
from .startup import log

RETRY_S = 0.2
HELLO = b"standin "


class Hosts:
    """The head's side: who has come, and whether all are still there. Raises OSError where the port is taken."""

    def __init__(self, settings: Settings) -> None:
        self.complete = settings.nnodes == 1
        self._wanted = settings.nnodes - 1
        self._there: dict[int, socket.socket] = {}
        self._guard = threading.Condition()
        self._steps = threading.Lock()
        self._late: list[socket.socket] = []
        self.lost = False
        if self.complete:
            return
        family = socket.AF_INET6 if ":" in settings.master_addr else socket.AF_INET
        self._listener = socket.create_server(("", settings.master_port), family=family)
        threading.Thread(target=self._accept, daemon=True).start()

    def wait(self) -> None:
        """Return when every host has come."""
        with self._guard:
            while len(self._there) < self._wanted:
                self._guard.wait()
        self.complete = True

    def step(self) -> bool:
        """Let every host do its part of an answer; False where one did not, now or before."""
        with self._steps:
            for connection in list(self._there.values()):
                try:
                    connection.sendall(b"s")
                    if connection.recv(1) != b"d":
                        self.lost = True
                except OSError:
                    self.lost = True
            self.lost = self.lost or len(self._there) < self._wanted
            return not self.lost

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._welcome, args=(connection,), daemon=True).start()

    def _welcome(self, connection: socket.socket) -> None:
        """Let a host in; who says nothing, as a node that only looks whether the port answers, is none.

        An engine that runs takes no one in: its groups were made when it started. Who comes then waits in vain.
        """
        try:
            hello = connection.recv(64)
            rank = int(hello[len(HELLO) :]) if hello.startswith(HELLO) else 0
            if not rank:
                return connection.close()
            if not self.complete:
                connection.sendall(b"w")
                log(f"node {rank} has joined", who="EngineCore")
        except (OSError, ValueError):
            return connection.close()
        with self._guard:
            if self.complete:
                self._late.append(connection)
            else:
                self._there[rank] = connection
                self._guard.notify_all()
        return None


def follow(settings: Settings, dies: Callable[[int], bool]) -> None:
    """A headless host: join the head and do a part of each answer, until a signal ends the process.

    `dies`: does it die in its N-th part?
    """
    where = (settings.master_addr, settings.master_port)
    log(f"Launching headless multiproc executor, with head node address {where[0]}:{where[1]}")
    connection = _connected(where)
    connection.sendall(HELLO + str(settings.node_rank).encode())
    for number in itertools.count():
        word = connection.recv(1)
        if not word:
            break
        if word == b"s":
            if dies(number):
                log("Worker proc died unexpectedly, shutting down executor.", level="ERROR")
                os._exit(1)
            connection.sendall(b"d")
    while True:
        time.sleep(3600)  # it does not notice that its head is gone


def _connected(where: tuple[str, int]) -> socket.socket:
    while True:
        try:
            return socket.create_connection(where)
        except OSError:
            time.sleep(RETRY_S)
