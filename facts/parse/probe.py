"""A node's answer to the probe -> NodeFacts. A part that cannot be read says why; a broken frame refuses all."""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

from facts.parse.cdi import parse_cdi
from facts.parse.checkpoint import with_checkpoints
from facts.parse.delivered import read_room, read_verified
from facts.parse.engines import parse_engines
from facts.parse.frames import TIMED_OUT, ProbeError, Section, parse_frames
from facts.parse.gpus import parse_gpus
from facts.parse.host import read_host
from facts.parse.kernel import parse_kernel
from facts.parse.numa import parse_numa
from facts.parse.nvlinks import parse_nvlinks
from facts.parse.p2p import parse_p2p
from facts.parse.refusal import quoted
from facts.parse.runtime import parse_disks, parse_ports, parse_runtime
from facts.parse.services import PartError, parse_files, parse_services, parse_units
from facts.parse.span import parse_span
from facts.parse.system import parse_system
from facts.parse.tensors import parse_indexers
from facts.parse.topology import TopologyError, parse_topology
from facts.parse.versions import parse_names, parse_versions
from facts.script import ProbeScript
from fleet.nodes.node import Deep, ModelFolder, NodeFacts, OwnFile, Unit
from fleet.nodes.nvidia import Nvidia
from fleet.nodes.topology import Topology
from fleet.releases.command import NODE_SCRIPT

__all__ = ["ProbeError", "parse_probe"]

_SUPPORT = "/etc/systemd/system/vllm-fleet-"

_Given = ParamSpec("_Given")
_Read = TypeVar("_Read")


def _once(read: Callable[_Given, _Read]) -> Callable[_Given, _Read]:
    """The same reader of a section, which reads equal texts once: nodes of one kind, and second looks, print them."""
    return lru_cache(maxsize=128)(read)


def parse_probe(text: str, script: ProbeScript) -> NodeFacts:
    """What the node is, from the output of `script`. ProbeError where it is not whole, or has no clock and name."""
    sections = parse_frames(text, script.nonce)
    request = script.request
    host = read_host(_section(sections, "host"))
    topology, topology_error = _TOPOLOGY(_section(sections, "topology"))
    numa, numa_error = _NUMA(_section(sections, "numa"))
    ports, ports_error = _PORTS(_section(sections, "ports"))
    services, services_error = parse_services(sections, [service.name for service in request.services])
    files = _files(sections)
    names, names_error = parse_names(_section(sections, "names"), request.names) if request.names else ({}, None)
    peers, peers_error = parse_span(_section(sections, "span"), request.peers) if request.peers else ((), None)
    return NodeFacts(
        **host,
        machine=_SYSTEM(_section(sections, "system")),
        cdi=_CDI(_section(sections, "cdi")),
        sources=read_mounts(_section(sections, "mounts")),
        sources_error=_section(sections, "mounts").failure,
        names=names,
        names_error=names_error,
        nvidia=_GPUS(_section(sections, "gpus")),
        kernel_log=_KERNEL(_section(sections, "kernel")),
        topology=topology,
        topology_error=topology_error,
        numa=numa,
        numa_error=numa_error,
        runtime=_RUNTIME(_section(sections, "runtime"), request.runtime),
        services=services,
        services_error=services_error,
        ports=ports,
        ports_error=ports_error,
        disks=_DISKS(_section(sections, "disks")),
        models=_verified(
            _MODELS(
                _section(sections, "models"),
                _section(sections, "checkpoint"),
                tuple(sorted({service.model for service in request.services})),
            ),
            _section(sections, "delivered") if request.checkpoints else None,
        ),
        peers=peers,
        peers_error=peers_error,
        node_script_sha256=files[NODE_SCRIPT].sha256 if NODE_SCRIPT in files else None,
        deep=_deep(sections) if request.deep else None,
        support_files=tuple(file for path, file in sorted(files.items()) if path.startswith(_SUPPORT)),
        support_units=_support_units(sections) if request.audit else (),
        running=parse_engines(_section(sections, "engines"), _section(sections, "reports")) if request.audit else None,
    )


def _section(sections: Mapping[str, Section], name: str) -> Section:
    return sections.get(name, Section(text="the probe never came to it", code=None))


def _deep(sections: Mapping[str, Section]) -> Deep:
    nvlinks, error = parse_nvlinks(_section(sections, "nvlinks"))
    p2p, p2p_error = parse_p2p(_section(sections, "peers"))
    versions, why = parse_versions(_section(sections, "versions"))
    return Deep(
        nvlinks=nvlinks, nvlinks_error=error, p2p=p2p, p2p_error=p2p_error, versions=versions, versions_error=why
    )


def read_mounts(section: Section) -> dict[str, bool]:
    """Path -> is it there? A path that nothing was told of is missing from it, and thereby unknown."""
    words = {"there": True, "absent": False}
    told = (line.partition(" ") for line in section.text.splitlines())
    return {path: words[word] for word, _, path in told if word in words and path}


def _files(sections: Mapping[str, Section]) -> Mapping[str, OwnFile]:
    """Empty where they cannot be read: then `services_error` says so, and the node's script counts as missing."""
    try:
        return parse_files(_section(sections, "files"))
    except PartError:
        return {}


def _support_units(sections: Mapping[str, Section]) -> tuple[Unit, ...]:
    """Empty where they cannot be read: then `services_error` says so."""
    try:
        units = parse_units(_section(sections, "units"))
    except PartError:
        return ()
    return tuple(unit for name, unit in sorted(units.items()) if name.startswith("vllm-fleet-"))


def read_gpus(section: Section) -> Nvidia:
    """The GPUs; a section that is not there is an error, not an empty list."""
    return parse_gpus(section.text, None if section.code == TIMED_OUT else section.code)


def read_topology(section: Section) -> tuple[Topology | None, str | None]:
    """The topology, or None and why."""
    if section.failure:
        return None, f"nvidia-smi topo -m: {section.failure}"
    try:
        return parse_topology(section.text), None
    except TopologyError as error:
        return None, str(error)


def read_numa(section: Section) -> tuple[Any, str | None]:
    """NUMA nodes, or none and why."""
    return ((), section.failure) if section.failure else parse_numa(section.text)


def read_models(section: Section, wanted: list[str]) -> tuple[ModelFolder, ...]:
    """The wanted checkpoint folders with their config.json, each with the reason where it cannot be read."""
    told: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in section.text.splitlines():
        if line.startswith("model "):
            lines = told.setdefault(line.removeprefix("model "), [])
        elif line.strip():
            lines.append(line)
    return tuple(_model(path, told.get(path), section) for path in wanted)


def _models(models: Section, checkpoint: Section, wanted: tuple[str, ...]) -> tuple[ModelFolder, ...]:
    return with_checkpoints(read_models(models, list(wanted)), checkpoint)


def _verified(models: tuple[ModelFolder, ...], section: Section | None) -> tuple[ModelFolder, ...]:
    """The folders with the manifest that each is known to hold, or with what lies there and the room for the rest."""
    if section is None:
        return models
    digests, figures = read_verified(section), read_room(section)
    return tuple(
        model.model_copy(update={"verified": digests.get(model.path), **figures.get(model.path, {})})
        for model in models
    )


def _model(path: str, lines: list[str] | None, section: Section) -> ModelFolder:
    indexers, why = None, None
    if lines and "tensors" in lines:
        at = lines.index("tensors")
        indexers, why = parse_indexers(lines[at + 1 :])
        lines = lines[:at]
    if not lines:
        return ModelFolder(path=path, error=section.failure or "the node did not look at this folder")
    if lines[-1] != "exit 0":
        return ModelFolder(path=path, error=quoted("\n".join(lines[:-1]) or lines[-1]))
    try:
        raw = base64.b64decode("".join(lines[:-1]), validate=True)
        config = json.loads(raw)
    except (binascii.Error, ValueError, RecursionError) as error:
        return ModelFolder(path=path, error=f"config.json: {error}")
    if not isinstance(config, dict):
        return ModelFolder(path=path, error=f"config.json: want an object, found {quoted(str(config))}")
    return ModelFolder(
        path=path,
        config=config,
        config_sha256=hashlib.sha256(raw).hexdigest(),
        indexer_layers=indexers,
        tensors_error=why,
    )


_TOPOLOGY = _once(read_topology)
_NUMA = _once(read_numa)
_PORTS = _once(parse_ports)
_SYSTEM = _once(parse_system)
_CDI = _once(parse_cdi)
_GPUS = _once(read_gpus)
_KERNEL = _once(parse_kernel)
_RUNTIME = _once(parse_runtime)
_DISKS = _once(parse_disks)
_MODELS = _once(_models)
