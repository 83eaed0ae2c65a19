"""A declared fleet as pyinfra's hosts and groups."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from fleet.declaration import Fleet, NodeDeclaration

Host = tuple[str, dict[str, Any]]


def hosts(fleet: Fleet) -> tuple[list[Host], dict[str, list[str]]]:
    """Every host with its data, in name order, and the names in each group.

    A node with a recording becomes `@recorded/NAME`: it is planned from that file and never contacted.
    """
    nodes = [placement.node for placement in fleet.placements]
    groups: dict[str, list[str]] = {}
    for node in nodes:
        for group in dict.fromkeys(node.groups):
            groups.setdefault(group, []).append(host_name(node))
    return [(host_name(node), _data(node)) for node in nodes], groups


def missing_keys(fleet: Fleet, names: Collection[str]) -> list[str]:
    """Keys of these nodes that are not on this machine: told before anybody is contacted.

    pyinfra would end with a traceback at the first, also where only one node of many names it.
    """
    nodes = [placement.node for placement in fleet.placements if placement.node.name in names]
    return [
        f"{node.name}: ssh.key: want a file that is there, found {node.ssh.key}"
        for node in nodes
        if node.ssh.key and not node.recording and not Path(node.ssh.key).is_file()
    ]


def host_name(node: NodeDeclaration) -> str:
    """The name that the inventory gives to pyinfra."""
    return f"@recorded/{node.name}" if node.recording else node.name


def _data(node: NodeDeclaration) -> dict[str, Any]:
    if node.recording:
        return {"node": node.name, "recording": node.recording}
    data: dict[str, Any] = {
        "node": node.name,
        "ssh_hostname": node.address,
        "ssh_port": node.ssh.port,
        "ssh_user": node.ssh.user,
        "ssh_strict_host_key_checking": "yes",  # pyinfra's default adds the key of an unknown host and goes on
    }
    if node.ssh.known_hosts:
        data["ssh_known_hosts_file"] = node.ssh.known_hosts
    if node.ssh.key:
        data |= {"ssh_key": node.ssh.key, "ssh_allow_agent": False, "ssh_look_for_keys": False}
    return data
