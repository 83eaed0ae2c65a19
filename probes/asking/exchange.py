"""HTTP under one deadline.

The usual time-outs count from the last byte, so a server that drips a byte a second holds a client for ever. Here
the time that is left is put under every single connect, read and write of the socket, headers included.
Works in threads and in greenlets; each exchange has a connection of its own.
"""

import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore

SHOWN = 300  # characters of an answer that an error quotes
MAX_BODY = 16 * 2**20


class ExchangeError(Exception):
    """The other side did not do what was wanted."""

    def __init__(self, wanted: str, found: str) -> None:
        super().__init__(f"wanted {wanted}, found {found}")
        self.wanted = wanted
        self.found = found


class Deadline:
    """A moment after which nothing may go on. `connect_s` limits each connection besides."""

    def __init__(self, seconds: float, connect_s: float = 5.0) -> None:
        self.seconds = seconds
        self.connect_s = connect_s
        self._start = time.monotonic()

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self._start

    @property
    def left_s(self) -> float:
        return self.seconds - self.passed_s

    def sooner(self, seconds: float | None) -> "Deadline":
        """A deadline that ends with this one or after `seconds`, whichever comes first."""
        left = max(0.0, self.left_s)
        return Deadline(left if seconds is None else min(left, seconds), self.connect_s)


class _Stream(httpcore.NetworkStream):
    """A connection on which every read and write ends by the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, deadlines: "_Backend") -> None:
        self._inner = inner
        self._backend = deadlines

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._backend.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._backend.left(httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._backend.left(httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._backend)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    """Connects by the deadline, name resolution included. `deadline` may be exchanged while a response is read."""

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self._inner = httpcore.SyncBackend()

    def left(self, error: type[Exception]) -> float:
        left = self.deadline.left_s
        if left <= 0:
            raise error("the deadline has passed")
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        error: Exception = httpcore.ConnectError(f"no address of {host} answered")
        for address in _addresses(host, port, self.left(httpcore.ConnectTimeout)):
            limit = min(self.left(httpcore.ConnectTimeout), self.deadline.connect_s)
            try:
                return _Stream(self._inner.connect_tcp(address, port, limit, None, socket_options), self)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = failed
        raise error


def _addresses(host: str, port: int, within_s: float) -> list[str]:
    """Addresses of a host. getaddrinfo knows no time-out, so it runs beside and is left behind if it is late."""
    try:
        return [str(ipaddress.ip_address(host.strip("[]")))]
    except ValueError:
        pass
    found: list[str] = []
    errors: list[str] = []

    def resolve() -> None:
        try:
            found.extend(str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            errors.append(f"{host} cannot be resolved: {error.strerror or error}")

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(within_s)
    if thread.is_alive():
        raise httpcore.ConnectTimeout(f"{host} was not resolved in time")
    if errors:
        raise httpcore.ConnectError(errors[0])
    return list(dict.fromkeys(found))


class Response:
    """A response that is being read. `until` moves the deadline of what is still to come."""

    def __init__(self, response: httpcore.Response, backend: _Backend) -> None:
        self._response = response
        self._backend = backend
        self.status: int = response.status
        kinds = [value for name, value in response.headers if name.lower() == b"content-type"]
        self.content_type = kinds[0].decode("latin-1").split(";")[0].strip() if kinds else ""

    def until(self, deadline: Deadline) -> None:
        self._backend.deadline = deadline

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes, at most MAX_BODY bytes of it."""
        size = 0
        for chunk in self._response.iter_stream():
            size += len(chunk)
            if size > MAX_BODY:
                raise ExchangeError(f"an answer of at most {MAX_BODY} bytes", "more than that")
            yield chunk

    def text(self) -> str:
        return b"".join(self.chunks()).decode("utf-8", "replace")

    def lines(self) -> Iterator[str]:
        """The body line by line, as it comes."""
        rest = b""
        for chunk in self.chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode("utf-8", "replace").rstrip("\r") for line in whole)
        if rest:
            yield rest.decode("utf-8", "replace")


@contextmanager
def send(
    method: str, url: str, deadline: Deadline, headers: dict[str, str] | None = None, body: Any = None
) -> Iterator[Response]:
    """Sends a request, with `body` as JSON, and gives the response to be read inside the `with`.

    Raises ExchangeError for whatever goes wrong on the way, also while the body is read.
    """
    wanted = f"an answer to {method} {url} within {round(deadline.seconds, 1):g} s"
    backend = _Backend(deadline)
    content = None if body is None else json.dumps(body).encode()
    sent = {**(headers or {}), **({"Content-Type": "application/json"} if content else {})}
    try:
        with (
            httpcore.ConnectionPool(network_backend=backend) as pool,
            pool.stream(
                method, url, headers=[(name.encode(), value.encode()) for name, value in sent.items()], content=content
            ) as response,
        ):
            yield Response(response, backend)
    except httpcore.ConnectTimeout as error:
        raise ExchangeError(wanted, f"no connection: {error or 'timed out'}") from error
    except httpcore.TimeoutException as error:
        raise ExchangeError(wanted, f"nothing more after {deadline.passed_s:.1f} s") from error
    except httpcore.ConnectError as error:
        raise ExchangeError(wanted, f"no connection: {error}") from error
    except httpcore.LocalProtocolError:  # its text quotes headers, and with them the API key
        raise ExchangeError(wanted, "a request that HTTP cannot carry: look at the URL and the API key") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        raise ExchangeError(wanted, f"the connection broke: {error or type(error).__name__}") from error


def get(url: str, deadline: Deadline, headers: dict[str, str] | None = None) -> str:
    """The body of a GET that is answered with 200. Raises ExchangeError."""
    with send("GET", url, deadline, headers) as response:
        text = response.text()
        if response.status != 200:
            raise refused(f"GET {url}", response.status, text)
        return text


def refused(what: str, status: int, text: str) -> ExchangeError:
    """The error of an answer that is not 200, with vLLM's message where the body has one."""
    try:
        document = json.loads(text)
        message = document["error"]["message"] if isinstance(document["error"], dict) else document["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        message = text
    return ExchangeError(f"HTTP 200 to {what}", f"HTTP {status}: {shortened(str(message)) or 'no text'}")


def shortened(text: str) -> str:
    """A text on one line and short enough for a log."""
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
