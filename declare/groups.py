"""group_data/GROUP.yaml: what runs where. `all.yaml` is for every node, any other file for the nodes of that group."""

from dataclasses import dataclass

from declare.located import Located
from declare.nodes import NodeFile, wrong_endings, wrong_services
from declare.problem import DeclarationError, found, line, unknown
from declare.reader import read_yaml
from declare.site import Site

EVERYONE = "all"
SECTIONS = ("services", "images", "waivers", "host")
SECTIONS_OF_ALL = (*SECTIONS, "defaults", "rollout", "delivery")


@dataclass(frozen=True)
class GroupFile:
    """One file of group data, its sections checked for shape only: values are validated once all layers are merged."""

    name: str
    tree: Located

    def section(self, name: str) -> Located | None:
        """A section, None where the file does not have it."""
        return self.tree.get(name)


def read_groups(site: Site, problems: list[str]) -> dict[str, GroupFile]:
    """All files of group data by group; what cannot be used is told in `problems`."""
    if site.group_data is None:
        return {}
    problems.extend(wrong_endings(site.group_data))
    groups = {}
    for path in sorted(site.group_data.glob("*.yaml")):
        try:
            tree = read_yaml(path)
        except DeclarationError as error:
            problems.extend(error.lines)
            continue
        problems.extend(_wrong_sections(path.stem, tree))
        groups[path.stem] = GroupFile(path.stem, tree)
    return groups


def unread_groups(site: Site, groups: dict[str, GroupFile]) -> set[str]:
    """Groups whose file is there and could not be read, which `read_groups` has told."""
    return {path.stem for path in site.group_data.glob("*.yaml")} - groups.keys() if site.group_data else set()


def _wrong_sections(group: str, tree: Located) -> list[str]:
    known = SECTIONS_OF_ALL if group == EVERYONE else SECTIONS
    lines = []
    for name, entry in tree.entries():
        if name in known:
            want, kind = ("a list", list) if name == "waivers" else ("a mapping", dict)
            if not isinstance(entry.value, kind):
                lines.append(line(entry.origin, want, found(entry)))
        elif name in SECTIONS_OF_ALL:
            lines.append(line(entry.origin, f"`{name}` in all.yaml only, for it holds for every node", "it in a group"))
        else:
            lines.append(unknown(entry.origin, name, known))
    services = tree.get("services")
    return lines + (wrong_services(services) if services is not None and isinstance(services.value, dict) else [])


def layers_of(node: NodeFile, groups: dict[str, GroupFile]) -> list[GroupFile]:
    """The files that hold for a node, the weakest first: all, then its groups in the order that its file names them."""
    return [groups[name] for name in dict.fromkeys((EVERYONE, *node.declaration.groups)) if name in groups]


def unused_groups(nodes: dict[str, NodeFile], groups: dict[str, GroupFile]) -> list[str]:
    """A warning for each file whose group no node has."""
    used = {EVERYONE, *(group for node in nodes.values() for group in node.declaration.groups)}
    return [
        f"{file.tree.origin.place.rsplit(':', 1)[0]}: no node is in the group {name}, so nothing here has an effect"
        for name, file in groups.items()
        if name not in used
    ]
