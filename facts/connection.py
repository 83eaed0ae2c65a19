"""The SSH connection of a host over a long rollout: it does not idle away, its end is noticed, it is opened again."""

import socket
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from gevent.lock import RLock
from pyinfra.api.exceptions import ConnectError

if TYPE_CHECKING:
    from pyinfra.api.host import Host

KEEPALIVE_S = 10
SILENCE_S = 30
"""A node that acknowledges nothing for so long is gone; the kernel alone would wait a quarter of an hour."""

_opening: dict[str, RLock] = defaultdict(RLock)


def _transport(host: "Host") -> Any:
    """paramiko's transport; None for a host that is not reached over SSH."""
    client = getattr(host.connector, "client", None)
    return client.get_transport() if client is not None else None


def watch(host: "Host") -> None:
    """Send something every `KEEPALIVE_S`, and let the connection end after `SILENCE_S` without an answer."""
    transport = _transport(host)
    if transport is None:
        return
    transport.set_keepalive(KEEPALIVE_S)
    if hasattr(transport.sock, "setsockopt") and hasattr(socket, "TCP_USER_TIMEOUT"):
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_S * 1000)


def broken(host: "Host") -> bool:
    """Was there a connection that has ended?"""
    transport = _transport(host)
    return transport is not None and not transport.is_active()


def mend(host: "Host") -> None:
    """Open a connection that has ended once more. Raises ConnectionError where the host does not answer."""
    with _opening[host.name]:
        if not broken(host):
            return
        try:
            host.connector.connect()
        except ConnectError as error:
            raise ConnectionError(f"the SSH connection ended and cannot be opened again: {error}") from None
        watch(host)
