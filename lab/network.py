"""The lab's own network: a bridge, and for each host a network namespace with one link to it.

Nothing of it leaves this machine: hosts have no default route, and an `unreachable` route covers the whole range, so
that a connection to a host of a lab that is down fails at once instead of going out by the default route. That route
stays when a lab ends, for the same reason; `clean_everything` removes it.
"""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from lab import naming

PREFIX = "vfl"
NETNS = Path("/run/netns")
GUARD = ["unreachable", str(naming.NETWORK), "metric", "4000000"]


def ip(*words: str) -> str:
    """Run `ip` and return what it printed; OSError with its message where it fails."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def ip_batch(lines: Iterable[str], netns: str | None = None, force: bool = False) -> None:
    """Run many `ip` commands in one process; with `force` go on after one that fails and say nothing of it."""
    command = ["ip", *(["-n", netns] if netns else []), *(["-force"] if force else []), "-batch", "-"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode and not force:
        raise OSError(f"ip -batch: {done.stderr.strip()}")


def links() -> list[str]:
    """Names of the interfaces of all labs."""
    return [link["ifname"] for link in json.loads(ip("-json", "link")) if link["ifname"].startswith(PREFIX)]


def namespaces(lab: str | None = None) -> list[str]:
    """Names of the network namespaces of one lab, or of all."""
    wanted = naming.netns_pattern(lab)
    return sorted(path.name for path in NETNS.iterdir() if wanted.fullmatch(path.name)) if NETNS.is_dir() else []


def foreign_use(subnet: IPv4Network) -> str | None:
    """The interface of something else on this machine that has an address in the lab's network, if any."""
    for link in json.loads(ip("-json", "-4", "address")):
        if link.get("ifname", "").startswith(PREFIX):
            continue
        for address in link.get("addr_info", []):
            if IPv4Address(address["local"]) in subnet:
                return str(link["ifname"])
    return None


def ensure_bridge(lab: str, subnet: IPv4Network) -> None:
    """Make the lab's bridge with this machine's address, and the guard route, where they are missing."""
    bridge, address = naming.bridge_name(lab), naming.bridge_address(subnet)
    ip("route", "replace", *GUARD)
    if bridge in links():
        return
    ip_batch(
        [
            # with a hardware address of its own, which udev then leaves alone
            f"link add {bridge} address {naming.mac_of(str(address))} type bridge mcast_snooping 0",
            f"link set {bridge} addrgenmode none",
            f"address add {address}/{subnet.prefixlen} dev {bridge}",
            f"link set {bridge} up",
        ]
    )
    neighbour = Path("/proc/sys/net/ipv4/neigh") / bridge
    # A host that is cut off or gone is found out in about four seconds instead of half a minute.
    for setting, value in (
        ("mcast_solicit", "1"),
        ("ucast_solicit", "1"),
        ("retrans_time_ms", "250"),
        ("delay_first_probe_time", "1"),
        ("base_reachable_time_ms", "2000"),
    ):
        (neighbour / setting).write_text(value)


def add_nodes(lab: str, subnet: IPv4Network, nodes: Iterable[naming.NodeName]) -> None:
    """Make the namespace and the link of each host, with its address."""
    bridge = naming.bridge_name(lab)
    nodes = list(nodes)
    lines = []
    for node in nodes:
        netns, port = naming.netns_name(lab, node.name), naming.port_name(lab, node.name)
        lines += [
            f"netns add {netns}",
            f"link add {port} type veth peer name host0 address {naming.mac_of(node.address)} netns {netns}",
            f"link set {port} master {bridge} addrgenmode none up",
        ]
    ip_batch(lines)
    for node in nodes:
        inside = ["link set lo up", "link set host0 addrgenmode none", "link set host0 up"]
        inside.append(f"address add {node.address}/{subnet.prefixlen} dev host0")
        ip_batch(inside, netns=naming.netns_name(lab, node.name))


def set_link(lab: str, node: str, up: bool) -> None:
    """Cut a host's network off, or join it again, as a cable would."""
    ip("-n", naming.netns_name(lab, node), "link", "set", "host0", "up" if up else "down")


def remove_nodes(lab: str, nodes: Iterable[str]) -> None:
    """Remove the namespaces and links of some hosts, whatever of them exists."""
    nodes = list(nodes)
    ports = {naming.port_name(lab, node) for node in nodes}
    spaces = {naming.netns_name(lab, node) for node in nodes}
    _remove(ports, spaces & set(namespaces(lab)))


def remove_lab(lab: str) -> None:
    """Remove all that a lab has on the network, what was left by one that died included."""
    spaces = namespaces(lab)
    ports = {naming.port_name(lab, space.removeprefix(f"vfl-{lab}-")) for space in spaces}
    _remove(ports | {naming.bridge_name(lab)}, spaces)


def remove_all() -> None:
    """Remove the networks of all labs, the guard route, and the mount that `ip netns` leaves where nobody needs it."""
    _remove(set(links()), namespaces())
    ip_batch([f"route del {' '.join(GUARD)}"], force=True)
    if NETNS.is_dir() and not any(NETNS.iterdir()):
        subprocess.run(["umount", str(NETNS)], capture_output=True)
        with contextlib.suppress(OSError):
            NETNS.rmdir()


def _remove(interfaces: set[str], spaces: Iterable[str]) -> None:
    """Delete namespaces first: the kernel takes their links down together, much faster than one by one."""
    ip_batch([f"netns del {space}" for space in spaces], force=True)
    deadline = time.monotonic() + 1.0
    while interfaces & set(links()):
        if time.monotonic() > deadline:
            ip_batch([f"link del {link}" for link in interfaces & set(links())], force=True)
            return
        time.sleep(0.02)
