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


def unusable_keys(fleet: Fleet, names: Collection[str], given: str | None = None, unlocked: bool = False) -> list[str]:
    """Keys of these nodes that this machine cannot use: told before anybody is contacted.

    pyinfra would end with a traceback at the first, also where only one node of many names it. `given`: the key of this
    run, in place of the declared ones. `unlocked`: a password is given too, or somebody can be asked for it.
    """
    nodes = [p.node for p in fleet.placements if p.node.name in names and not p.node.recording]
    if given and nodes:
        return [f"--data ssh_key: {why}"] if (why := _why_unusable(given, unlocked)) else []
    whys = {key: _why_unusable(key, unlocked) for key in sorted({node.ssh.key for node in nodes if node.ssh.key})}
    return [f"{node.name}: ssh.key: {why}" for node in nodes if node.ssh.key and (why := whys[node.ssh.key])]


def _why_unusable(key: str, unlocked: bool) -> str | None:
    """What is wrong with a private key, as pyinfra reads it. Not asked of nodes that are read from a recording."""
    from pyinfra.api.exceptions import PyinfraError  # with paramiko, which only a connection needs
    from pyinfra.connectors.ssh_util import load_key_with_certificate

    if not Path(key).expanduser().is_file():
        return f"want a file that is there, found {key}"
    try:
        load_key_with_certificate(key, allow_prompt=False)
    except OSError as error:
        return f"want a readable private key, found {error.strerror}: {key}"
    except Exception as error:  # of paramiko and cryptography, for whatever the file holds
        if isinstance(error, PyinfraError) and "encrypted" in str(error):
            return None if unlocked else f"want a private key without a password (or ssh-agent), found {key} encrypted"
        return f"want a private key, found none in {key}"
    return None


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
