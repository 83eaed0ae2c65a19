"""Names and addresses of a lab's hosts: plain functions, so that every part of the lab computes the same ones."""

import hashlib
import re
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network
from typing import NamedTuple

NETWORK = IPv4Network("10.231.0.0/16")
SUBNETS = tuple(NETWORK.subnets(new_prefix=20))
DEFAULT_LAB = "demo"
DEFAULT_NODES = 3
MAX_NODES = 100
FIRST_HOST = 11  # .1 is the bridge; .2 to .10 stay free for what a test puts beside the nodes

# The letter that names a node, and the recording that it starts with. Nodes take turns: a1 h1 l1 a2 h2 l2 ...
KINDS = (("a", "a100"), ("h", "h100"), ("l", "l40s"))


class NodeName(NamedTuple):
    """One host of a lab: its name, its address and the recording (kind) that it starts with."""

    name: str
    address: str
    kind: str


def check_lab_name(name: str) -> str:
    """The name itself, or ValueError: it becomes part of folders, of a bridge and of host names."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
        raise ValueError(f"lab name: wanted a letter, then letters, digits or '-' (31 at most), found {name!r}")
    return name


def plan_nodes(count: int, subnet: IPv4Network) -> tuple[NodeName, ...]:
    """The nodes of a lab in the order of creation; the first `n` of a larger lab are those of a smaller one."""
    if not 1 <= count <= MAX_NODES:
        raise ValueError(f"nodes of a lab: wanted 1 to {MAX_NODES}, found {count}")
    nodes = []
    for index in range(count):
        letter, kind = KINDS[index % len(KINDS)]
        address = str(subnet.network_address + FIRST_HOST + index)
        nodes.append(NodeName(f"{letter}{index // len(KINDS) + 1}", address, kind))
    return tuple(nodes)


def choose_subnet(lab: str, taken: Collection[IPv4Network]) -> IPv4Network:
    """The /20 of a lab: the first for `demo`, for others the one that the name hashes to, or the next that is free.

    `taken` are the networks of the other labs that run now. Raises ValueError where none is left.
    """
    if lab == DEFAULT_LAB:
        wanted = [SUBNETS[0]]
    else:
        others = SUBNETS[1:]
        start = int.from_bytes(hashlib.sha256(lab.encode()).digest()[:4], "big") % len(others)
        wanted = [*others[start:], *others[:start]]
    free = [subnet for subnet in wanted if subnet not in taken]
    if not free:
        raise ValueError(f"lab {lab}: no network of {NETWORK} is free; end another lab with `fleet lab down`")
    return free[0]


def bridge_address(subnet: IPv4Network) -> IPv4Address:
    """This machine's address on the lab's bridge."""
    return subnet.network_address + 1


def bridge_name(lab: str) -> str:
    """`vfl-LAB`, or a hash where that passes the 15 characters that the kernel allows an interface."""
    plain = f"vfl-{lab}"
    return plain if len(plain) <= 15 else f"vfl-{hashlib.sha256(lab.encode()).hexdigest()[:10]}"


def port_name(lab: str, node: str) -> str:
    """This machine's end of the node's link; the other end is `host0` inside the node."""
    return f"vflp{hashlib.sha256(f'{lab}/{node}'.encode()).hexdigest()[:10]}"


def netns_name(lab: str, node: str) -> str:
    """The node's network namespace, as `ip netns` knows it."""
    return f"vfl-{lab}-{node}"


def netns_pattern(lab: str | None = None) -> re.Pattern[str]:
    """Matches the names of `netns_name` of one lab, or of all."""
    return re.compile(rf"vfl-{re.escape(lab)}-[a-z][0-9]+" if lab else r"vfl-.+")


def mac_of(address: str) -> str:
    """A fixed hardware address, so that a host that is built again is found at once by those who knew it."""
    octets = IPv4Address(address).packed
    return "02:fe:" + ":".join(f"{octet:02x}" for octet in octets)
