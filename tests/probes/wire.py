"""Servers that misbehave on the level of bytes, which the stand-in engine does not."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from probes.evidence import Endpoint

Script = Callable[[socket.socket, bytes], None]


@contextmanager
def serving(script: Script) -> Iterator[Endpoint]:
    """A server on 127.0.0.1 that reads each request's head and then does what `script` says."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=converse, args=(connection,), daemon=True).start()

    def converse(connection: socket.socket) -> None:
        with connection:
            try:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(65536)
                script(connection, request)
            except OSError:
                pass

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield Endpoint(url=f"http://127.0.0.1:{listener.getsockname()[1]}", model="glm")
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # close alone would leave the accept that waits
        listener.close()


def reply(body: str, status: str = "200 OK", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n"
    return (head + "Connection: close\r\n\r\n" + body).encode()


def drip(connection: socket.socket, data: bytes, pause_s: float = 0.1) -> None:
    """One byte at a time, so that no time-out between bytes ever strikes."""
    for byte in data:
        connection.sendall(bytes([byte]))
        time.sleep(pause_s)
