"""A site's YAML into a Fleet. Everything is read before anything is refused, so that all mistakes are told at once."""

from collections.abc import Iterable, Mapping

from declare.groups import EVERYONE, GroupFile, read_groups, unread_groups, unused_groups
from declare.host import host_of
from declare.images import wrong_catalogue
from declare.located import Located, Origin, shown
from declare.merge import merge
from declare.names import with_names
from declare.nodes import NodeFile, read_nodes
from declare.override import Overrides, option, read_overrides
from declare.patches import read_patches
from declare.problem import DeclarationError, unknown
from declare.reader import read_json
from declare.services import services_of
from declare.site import Site
from declare.spans import Origins, with_peers, wrong_spans
from declare.validate import build
from declare.waivers import read_waivers
from fleet.declaration import Evidence, Fleet, NodeDeclaration, Placement
from fleet.delivery.source import DeliveryPolicy
from fleet.policy import RolloutPolicy


def load_fleet(site: Site, data: Mapping[str, object] | None = None, about: str | None = None) -> Fleet:
    """The fleet as declared, with the overrides of one run (`--data`, as pyinfra parsed it) laid over it.

    `about`: settings of services are for this one, where `--data` names none.

    Raises DeclarationError with every problem of every file; each of its lines names file, line, field, what was wanted
    and what was found. No node is contacted.
    """
    problems: list[str] = []
    overrides = read_overrides(data or {}, problems)
    nodes = read_nodes(site, problems)
    groups = read_groups(site, problems)
    unread = unread_groups(site, groups)
    named = _named_services(nodes.values(), groups.values())
    if overrides.service is not None and overrides.service not in named and not unread:
        problems.append(unknown(option("service"), overrides.service, named, "service"))
    overrides = overrides.about(about)
    for group in groups.values():
        problems.extend(wrong_catalogue(group.section("images")))
    origins: Origins = {}
    placements = with_peers(
        Placement(
            node=node.declaration,
            services=()
            if unread & {EVERYONE, *node.declaration.groups}  # what is lacking stands in the file that was not read
            else services_of(node, groups, overrides, site, problems, frozenset(nodes), origins),
            host=host_of(node, groups, problems),
        )
        for node in nodes.values()
    )
    problems.extend(wrong_spans(placements, origins, frozenset(nodes)))
    fleet = Fleet(
        name=site.name,
        placements=with_names(placements),
        rollout=_rollout(groups, overrides, problems),
        delivery=_delivery(groups, overrides, problems),
        waivers=(*read_waivers(nodes, groups, named, problems), *overrides.waivers),
        evidence=_evidence(site, problems),
        patches=read_patches(site.patches, problems),
        warnings=(*_warnings(site, nodes, groups), *(_idle(p.node) for p in placements if not p.services)),
    )
    if problems:
        raise DeclarationError(problems)
    return fleet


def _named_services(nodes: Iterable[NodeFile], groups: Iterable[GroupFile]) -> set[str]:
    sections = [*(node.services for node in nodes), *(group.section("services") for group in groups)]
    return {name for section in sections if section for name, _ in section.entries()}


def _rollout(groups: dict[str, GroupFile], overrides: Overrides, problems: list[str]) -> RolloutPolicy:
    declared = groups[EVERYONE].section("rollout") if EVERYONE in groups else None
    merged = merge([declared or Located({}, Origin("rollout")), overrides.rollout_layer()])
    return (build(RolloutPolicy, merged, problems) if merged else None) or RolloutPolicy()


def _delivery(groups: dict[str, GroupFile], overrides: Overrides, problems: list[str]) -> DeliveryPolicy:
    declared = groups[EVERYONE].section("delivery") if EVERYONE in groups else None
    merged = merge([declared or Located({}, Origin("delivery")), overrides.delivery_layer()])
    return (build(DeliveryPolicy, merged, problems) if merged else None) or DeliveryPolicy()


def _evidence(site: Site, problems: list[str]) -> tuple[Evidence, ...]:
    runs = []
    for path in site.evidence:
        try:
            runs.append(build(Evidence, read_json(path), problems))
        except DeclarationError as error:
            problems.extend(error.lines)
    return tuple(run for run in runs if run is not None)


def _warnings(site: Site, nodes: dict[str, NodeFile], groups: dict[str, GroupFile]) -> list[str]:
    lines = unused_groups(nodes, groups)
    if site.group_data is None:
        lines.append(f"{shown(site.root)}: no group_data, so only the nodes' own files place services")
    return lines


def _idle(node: NodeDeclaration) -> str:
    """A group's name with a typing mistake takes all services off a node; so a node without any is told."""
    return f"{node.name}: no service is declared for it (its groups: {', '.join(node.groups) or 'none'})"
