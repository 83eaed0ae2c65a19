"""Looks that begin before they are asked for: at each node as soon as it is connected, while others still connect."""

from typing import TYPE_CHECKING

import gevent
from pyinfra.api.state import BaseStateCallback

from declare.invocation import Invocation
from fleet.delivery.delivery import NodeLook
from fleet.nodes.request import ProbeRequest
from operations.delivery.look import look_at, requests_for

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

_begun: dict[str, tuple[ProbeRequest, gevent.Greenlet]] = {}
"""By node."""


def begin(state: "State", invocation: Invocation) -> None:
    """Look at every node that connects from now on."""
    names = frozenset(invocation.nodes)
    requests = requests_for(invocation.fleet, names, invocation.overrides.service)

    class Connected(BaseStateCallback):
        @staticmethod
        def host_connect(state: "State", host: "Host") -> None:
            request = requests.get(host.name)
            if request is not None:
                _begun[host.name] = request, gevent.spawn(look_at, host, request)

    state.add_callback_handler(Connected())


def look(host: "Host", request: ProbeRequest) -> NodeLook | str:
    """What the look told that was begun with this very request, once; where there is none, a look of now."""
    asked, job = _begun.pop(host.name, (None, None))
    if job is None or asked != request:
        return look_at(host, request)
    told: NodeLook | str = job.get()
    return told
