"""NODE.yaml: one node as its owner declares it."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from declare.located import Located, Origin
from declare.problem import DeclarationError, found, line
from declare.reader import read_yaml
from declare.site import Site
from declare.validate import build
from fleet.declaration import NodeDeclaration
from fleet.values import A_SERVICE_NAME, SERVICE_NAME

GROUP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RESERVED_GROUPS = {"all", "self", "names_data", "override_data"}
"""`all` is every node already; the others are names that pyinfra keeps for itself."""


@dataclass(frozen=True)
class NodeFile:
    """A node, and what its own file says about services on it."""

    declaration: NodeDeclaration
    tree: Located

    @property
    def name(self) -> str:
        """The file's stem."""
        return self.declaration.name

    @property
    def services(self) -> Located | None:
        """The last layer of this node's services."""
        return self.tree.get("services")


def read_nodes(site: Site, problems: list[str]) -> dict[str, NodeFile]:
    """Every node of a fleet by name, in name order; what cannot be used is told in `problems`."""
    problems.extend(wrong_endings(site.nodes_folder))
    paths = sorted(site.nodes_folder.glob("*.yaml"))
    if not paths and not problems:
        problems.append(line(Origin(file=site.nodes_folder), "at least one NODE.yaml", "an empty fleet (no node)"))
    files = [file for path in paths if (file := _read(path, problems, recordings=site.recordings)) is not None]
    _refuse_shared_addresses(files, problems)
    return {file.name: file for file in files}


def wrong_endings(folder: Path) -> list[str]:
    """Files that somebody meant to be read: `.yml`, `.YAML`. To pass them over would leave a node or a group out."""
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        return [line(Origin(file=folder), "a folder that can be read", error.strerror or str(error))]
    wrong = [path for path in paths if path.suffix.lower() in (".yml", ".yaml")]
    return [line(Origin(file=path), "the ending .yaml", path.suffix) for path in wrong if path.suffix != ".yaml"]


def read_node(path: Path) -> NodeDeclaration:
    """One node by itself, of any fleet or of none yet: an address is not wanted. Raises DeclarationError."""
    problems: list[str] = []
    file = _read(path, problems, planned=True)
    if problems or file is None:
        raise DeclarationError(problems)
    return file.declaration


def _read(path: Path, problems: list[str], planned: bool = False, recordings: Path | None = None) -> NodeFile | None:
    try:
        tree = read_yaml(path)
    except DeclarationError as error:
        problems.extend(error.lines)
        return None
    if planned and tree.get("address") is None:
        tree = tree.with_entry("address", Located("planned", tree.origin.below("address")))
    problems.extend(wrong_services(tree.get("services")))
    placed = _with_absolute_paths(tree.without("services"), path.parent)
    if recordings is not None:  # a node that was not recorded is told when it is asked, as one that is down
        placed = placed.with_entry("recording", Located(str(recordings / f"{path.stem}.probe"), tree.origin))
    node = build(NodeDeclaration, placed, problems, also=("services",), name=path.stem)
    if node is None:
        return None
    problems.extend(_wrong_groups(tree, node))
    recording = placed.get("recording")
    if recordings is None and node.recording and recording and not planned and not Path(node.recording).is_file():
        problems.append(line(recording.origin, "the file of a recorded probe", f"no file {node.recording}"))
    return NodeFile(node, tree)


def _with_absolute_paths(tree: Located, folder: Path) -> Located:
    """`ssh.key`, `ssh.known_hosts` and `recording` are relative to the file that they stand in."""
    ssh = tree.get("ssh")
    for key in ("key", "known_hosts"):
        if ssh is not None and (entry := ssh.get(key)) is not None:
            ssh = ssh.with_entry(key, absolute(entry, folder))
    if ssh is not None:
        tree = tree.with_entry("ssh", ssh)
    recording = tree.get("recording")
    return tree.with_entry("recording", absolute(recording, folder)) if recording is not None else tree


def absolute(entry: Located, folder: Path) -> Located:
    """A path made absolute, `~` expanded; anything but text is left for validation to refuse."""
    if not isinstance(entry.value, str):
        return entry
    return replace(entry, value=os.path.normpath(folder / os.path.expanduser(entry.value)))


def wrong_services(services: Located | None) -> list[str]:
    """What is wrong with the shape of a `services:` mapping, whoever it belongs to."""
    if services is None:
        return []
    if not isinstance(services.value, dict):
        return [line(services.origin, "a mapping of services (none: {})", found(services))]
    lines = []
    for name, entry in services.entries():
        if not SERVICE_NAME.fullmatch(name):
            lines.append(line(entry.origin, A_SERVICE_NAME, f'"{name}"'))
        elif entry.value is not None and not isinstance(entry.value, dict):
            lines.append(line(entry.origin, "a mapping of settings (to remove: null)", found(entry)))
    return lines


def _wrong_groups(tree: Located, node: NodeDeclaration) -> list[str]:
    origin = (tree.get("groups") or tree).origin
    wrong = [group for group in node.groups if group in RESERVED_GROUPS or not GROUP_NAME.fullmatch(group)]
    want = f"names of groups ({GROUP_NAME.pattern}) other than {', '.join(sorted(RESERVED_GROUPS))}"
    lines = [line(origin, want, f'"{group}"') for group in wrong]
    if node.name in node.groups:
        lines.append(line(origin, "groups that are named unlike a node", f'"{node.name}"'))
    return lines


def _refuse_shared_addresses(files: list[NodeFile], problems: list[str]) -> None:
    first: dict[str, str] = {}
    for file in files:
        address = file.declaration.address
        other = first.setdefault(address, file.name)
        if other != file.name:
            at = (file.tree.get("address") or file.tree).origin
            problems.append(line(at, "an address of its own for each node", f"{address}, which is {other}'s too"))
