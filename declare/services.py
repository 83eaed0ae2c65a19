"""The services of one node: every layer merged, references resolved, and the result validated."""

from dataclasses import replace

from declare.checkpoints import with_sources
from declare.groups import EVERYONE, GroupFile, layers_of
from declare.images import from_catalogue, with_digest
from declare.located import Located
from declare.merge import merge
from declare.nodes import NodeFile, absolute
from declare.override import Overrides
from declare.problem import line, unknown
from declare.site import Site
from declare.spans import Origins, known_nodes
from declare.validate import build
from fleet.declaration import ServiceDeclaration
from fleet.values import SERVICE_NAME

HOOKS = ("drain", "undrain")


def services_of(
    node: NodeFile,
    groups: dict[str, GroupFile],
    overrides: Overrides,
    site: Site,
    problems: list[str],
    nodes: frozenset[str] = frozenset(),
    origins: Origins | None = None,
) -> tuple[ServiceDeclaration, ...]:
    """What runs on a node, in name order; what cannot be used is told in `problems`. `nodes`: all there are.

    A service with `nodes` of its own is on these alone. `origins` takes where each says so.
    """
    files = layers_of(node, groups)
    catalogue = merge(section for file in files if (section := file.section("images")) is not None)
    defaults = groups[EVERYONE].section("defaults") if EVERYONE in groups else None
    services = []
    for name, layers in sorted(_layers(node, files).items()):
        merged = merge([*([defaults] if defaults else []), *layers])
        if merged is None:
            continue
        merged = from_catalogue(merged, catalogue, problems)
        layer = overrides.service_layer(name)
        layout = merged.get("layout")
        if overrides.without_sizes and (layout is None or layout.value == "auto"):
            layer = layer.without("layout")  # for its own nodes `Overrides.unclear` tells it
        merged = merge([merged, layer]) or merged
        merged = _with_absolute_paths(with_digest(merged, site.project, problems))
        merged = with_sources(merged, nodes, problems)
        built = build(ServiceDeclaration, merged, problems, name=name)
        if built is not None:
            problems.extend(_unknown_probes(merged, built, site))
            problems.extend(known_nodes(merged, nodes))
            problems.extend(_absent_gpus(merged, built, node))
            if built.nodes is not None and origins is not None:
                origins[node.name, name] = ((merged.get("nodes") or merged).origin, built.nodes)
            if built.nodes is None or node.name in built.nodes:
                services.append(built)
    return tuple(services)


def _layers(node: NodeFile, files: list[GroupFile]) -> dict[str, list[Located]]:
    """The layers of each service that is placed on a node, the weakest first. A null takes away what came before."""
    layers: dict[str, list[Located]] = {}
    for section in (*(file.section("services") for file in files), node.services):
        for name, entry in section.entries() if section else ():
            if entry.value is None:
                layers.pop(name, None)
            elif isinstance(entry.value, dict) and SERVICE_NAME.fullmatch(name):
                layers.setdefault(name, []).append(entry)
    return layers


def _absent_gpus(tree: Located, service: ServiceDeclaration, node: NodeFile) -> list[str]:
    count = node.declaration.gpus.count
    absent = [gpu for gpu in service.gpus or () if not 0 <= gpu < count]
    entry = tree.get("gpus")
    if not absent or entry is None or (service.nodes is not None and node.name not in service.nodes):
        return []
    return [line(entry.origin, f"GPUs of {node.name}, which has {count} (from 0)", ", ".join(map(str, absent)))]


def _unknown_probes(tree: Located, service: ServiceDeclaration, site: Site) -> list[str]:
    policy = tree.get("policy")
    origin = ((policy.get("proof") if policy else None) or tree).origin
    known = site.probe_names
    return [unknown(origin, name, known, "probe") for name in service.policy.proof if name not in known]


def _with_absolute_paths(service: Located) -> Located:
    """Paths on the controller, made absolute: of secrets, and of hooks that are programs beside the YAML file."""
    secrets = service.get("secrets")
    for name, secret in secrets.entries() if secrets else ():
        file = secret.get("file")
        if secrets and file is not None and file.origin.file is not None:
            secrets = secrets.with_entry(name, secret.with_entry("file", absolute(file, file.origin.file.parent)))
    if secrets:
        service = service.with_entry("secrets", secrets)
    policy = service.get("policy")
    for name in HOOKS:
        hook = policy.get(name) if policy else None
        if policy and hook is not None:
            policy = policy.with_entry(name, _hook(hook))
    return service.with_entry("policy", policy) if policy else service


def _hook(hook: Located) -> Located:
    """`./drain.sh` of a hook on the controller is the file beside the YAML; a bare word is looked up in PATH."""
    command, where = hook.get("command"), hook.get("on")
    if command is None or not isinstance(command.value, list) or not command.value:
        return hook
    program = command.value[0]
    runs_here = where is None or where.value == "controller"
    if not runs_here or not isinstance(program.value, str) or "/" not in program.value or not program.origin.file:
        return hook
    placed = absolute(program, program.origin.file.parent)
    return hook.with_entry("command", replace(command, value=[placed, *command.value[1:]]))
