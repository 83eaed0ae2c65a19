"""A small HTTP/1.1 server: one thread a connection, keep-alive, chunked streams.

Threads and blocking sockets rather than asyncio, which python3-minimal does not ship and which would double the
start-up time: sixty of these start on two cores.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable

MAX_LINE = 65536
MAX_HEADERS = 128
MAX_BODY = 64 * 2**20
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Payload Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Disconnected(Exception):
    """The client has gone; what it asked for is to be dropped, as the real engine aborts the request."""


class BadRequest(Exception):
    """Bytes that are not an HTTP request; the connection is closed after the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Exchange:
    """One request and its response."""

    def __init__(self, connection: socket.socket, method: str, path: str, headers: dict[str, str]) -> None:
        self._connection = connection
        self.method = method
        self.path = path
        self.headers = headers
        self.body = b""
        self.keep_alive = headers.get("connection", "").lower() != "close"
        self.status = 0
        self.client = ":".join(str(part) for part in connection.getpeername()[:2])

    def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """The whole response at once. Raises Disconnected."""
        head = self._head(status, kind, f"Content-Length: {len(body)}")
        self._send(head if self.method == "HEAD" else head + body)

    def json(self, status: int, value: object) -> None:
        self.answer(status, json.dumps(value).encode())

    def start_stream(self) -> None:
        self._send(self._head(200, "text/event-stream; charset=utf-8", "Transfer-Encoding: chunked"))

    def event(self, data: str) -> None:
        """One server-sent event."""
        chunk = f"data: {data}\n\n".encode()
        self._send(b"%x\r\n%s\r\n" % (len(chunk), chunk))

    def end_stream(self) -> None:
        self._send(b"0\r\n\r\n")

    def cut(self) -> None:
        """Ends the connection as a process that died would: in the middle, without the last chunk."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        raise Disconnected

    def pause(self, seconds: float) -> None:
        """Waits, and raises Disconnected as soon as the client has gone."""
        poll = select.poll()
        poll.register(self._connection, select.POLLRDHUP)
        if poll.poll(seconds * 1000):
            raise Disconnected

    def _head(self, status: int, kind: str, framing: str) -> bytes:
        self.status = status
        connection = "keep-alive" if self.keep_alive else "close"
        return (
            f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}\r\nserver: vllm-standin\r\n"
            f"content-type: {kind}\r\n{framing}\r\nconnection: {connection}\r\n\r\n"
        ).encode("latin-1")

    def _send(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except OSError:
            raise Disconnected from None


class Server:
    """Listens, and hands each exchange to `handle` on the connection's own thread."""

    def __init__(self, host: str, port: int, handle: Callable[[Exchange], None]) -> None:
        """Binds at once, so that a taken port fails before the model loads. Raises OSError."""
        self._handle = handle
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, port))
        self.port = self._socket.getsockname()[1]
        self._wake_read, self._wake_write = os.pipe()
        self._idle = threading.Condition()
        self._under_way = 0
        self.stopping = False
        threading.stack_size(512 * 1024)

    def listen(self) -> None:
        """From now on connections wait for `serve`; before, they are refused."""
        self._socket.listen(512)

    def serve(self, shutdown_timeout: float) -> int:
        """Accepts until `stop`, then lets what is under way finish for that many seconds.

        Gives the number of exchanges that were cut.
        """
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while not self.stopping:
            if any(descriptor == self._socket.fileno() for descriptor, _ in poll.poll()):
                self._accept()
        self._socket.close()
        with self._idle:
            self._idle.wait_for(lambda: self._under_way == 0, timeout=shutdown_timeout)
            return self._under_way

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except ConnectionAbortedError:  # gone before it was its turn
            return
        threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def stop(self) -> None:
        """Safe in a signal handler."""
        self.stopping = True
        os.write(self._wake_write, b".")

    def _converse(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection, connection.makefile("rb") as stream:
                while not self.stopping and self._one(connection, stream):
                    pass
        except (Disconnected, OSError):
            pass

    def _one(self, connection: socket.socket, stream: io.BufferedReader) -> bool:
        """One exchange; False where the connection is to be closed."""
        try:
            exchange = read_request(connection, stream)
        except BadRequest as error:
            refused = Exchange(connection, "GET", "", {"connection": "close"})
            refused.json(error.status, {"detail": str(error)})
            _drain(connection)
            return False
        if exchange is None:
            return False
        with self._idle:
            self._under_way += 1
        try:
            self._handle(exchange)
        finally:
            with self._idle:
                self._under_way -= 1
                self._idle.notify_all()
        return exchange.keep_alive


def _drain(connection: socket.socket) -> None:
    """Takes what is still being sent: to close with bytes unread would reset the connection and lose the answer."""
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(0.5)
    for _ in range(64):
        if not connection.recv(MAX_LINE):
            return


def read_request(connection: socket.socket, stream: io.BufferedReader) -> Exchange | None:
    """The next request of a connection, or None at its end. Raises BadRequest."""
    line = _line(stream)
    if not line:
        return None
    parts = line.split()
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequest(400, f"not an HTTP/1.1 request line: {line[:80]!r}")
    headers: dict[str, str] = {}
    while line := _line(stream):
        name, colon, value = line.partition(":")
        if not colon or len(headers) >= MAX_HEADERS:
            raise BadRequest(400, f"not a header: {line[:80]!r}")
        headers[name.strip().lower()] = value.strip()
    exchange = Exchange(connection, parts[0], parts[1].partition("?")[0], headers)
    if parts[2] == "HTTP/1.0":
        exchange.keep_alive = False
    if headers.get("expect", "").lower() == "100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    exchange.body = _body(stream, headers)
    return exchange


def _line(stream: io.BufferedReader) -> str:
    raw = stream.readline(MAX_LINE)
    if len(raw) >= MAX_LINE:
        raise BadRequest(400, "a line of the request is too long")
    return raw.decode("latin-1").rstrip("\r\n")


def _body(stream: io.BufferedReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _chunks(stream)
    text = headers.get("content-length", "0")
    if not text.isdigit():
        raise BadRequest(400, f"content-length is no number: {text[:20]!r}")
    return _exactly(stream, int(text))


def _chunks(stream: io.BufferedReader) -> bytes:
    body = b""
    while True:
        size = _line(stream).partition(";")[0].strip()
        try:
            length = int(size, 16)
        except ValueError:
            raise BadRequest(400, f"not a chunk size: {size[:20]!r}") from None
        if length == 0:
            while _line(stream):  # trailers
                pass
            return body
        body += _exactly(stream, length)
        if len(body) > MAX_BODY:
            raise BadRequest(413, "the body is too long")
        _line(stream)


def _exactly(stream: io.BufferedReader, length: int) -> bytes:
    if length > MAX_BODY:
        raise BadRequest(413, "the body is too long")
    data = stream.read(length)
    if len(data) < length:
        raise Disconnected
    return data


class Pace:
    """Holds a stream to so many tokens a second; 0 means as fast as it goes."""

    def __init__(self, exchange: Exchange, tokens_per_s: float) -> None:
        self._exchange = exchange
        self._rate = tokens_per_s
        self._start = time.monotonic()
        self._tokens = 0

    def token(self) -> None:
        """Waits until the next token is due. Raises Disconnected."""
        self._tokens += 1
        if self._rate <= 0:
            return
        ahead = self._start + self._tokens / self._rate - time.monotonic()
        if ahead > 0.002:  # a shorter sleep costs more than it waits
            self._exchange.pause(ahead)
