"""The hosts that a run is about."""

from typing import TYPE_CHECKING

from facts.connection import watch

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State


def reached(state: "State") -> tuple[dict[str, "Host"], dict[str, str]]:
    """Connected hosts of this run by node name, and why each of the others was not reached."""
    wanted = state.limit_hosts if state.limit_hosts is not None else list(state.inventory)
    hosts = {host.name: host for host in wanted if host in state.active_hosts}
    for host in hosts.values():
        watch(host)
    silent = [host.name for host in wanted if host not in state.active_hosts]
    return hosts, dict.fromkeys(silent, "no SSH connection (the reason is printed above)")
