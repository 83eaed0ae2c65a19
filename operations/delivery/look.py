"""One look at every node, then what must move: items, needs, refusals. Nothing changes here."""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click
from gevent.pool import Pool

from declare.checkpoints import manifest_at
from declare.problem import DeclarationError
from facts.parse.delivery import SECTIONS, parse_look
from facts.parse.frames import ProbeError
from facts.script import sections_script
from facts.shell import READ_WHOLE, run
from fleet.declaration import Fleet, Placement
from fleet.delivery.delivery import (
    ARCHIVE_NAME,
    ARCHIVES,
    MIB,
    Item,
    Need,
    NodeLook,
    Origin,
    colliding,
    need_of,
    record_key,
    together,
)
from fleet.delivery.manifest import ManifestFile
from fleet.nodes.request import CheckpointRequest, ProbeRequest, ServiceRequest
from operations.delivery.call import call
from operations.delivery.sources import SourceError, archive_file, check_folder, file_url, one_file, wrong_answers

if TYPE_CHECKING:
    from pyinfra.api.host import Host

GIB = 1 << 30


@dataclass
class Found:
    """What one look found and decided. `problems`: (node or item, why), each refuses."""

    looks: dict[str, NodeLook] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)
    needs: dict[str, list[Need]] = field(default_factory=dict)
    """By node; every item of the node has one."""
    problems: list[tuple[str, str]] = field(default_factory=list)
    sources: dict[tuple[str, str], str] = field(default_factory=dict)
    """(node, key of an item) -> the folder that the node can serve it from."""

    def fetching(self, key: str) -> list[str]:
        """Nodes that lack this item."""
        return [node for node, needs in self.needs.items() for need in needs if need.item == key and _moves(need)]


def _moves(need: Need) -> bool:
    return need.action == "fetch" and need.refused is None


def archive_path(digest: str) -> str:
    """Where the archive of an image lies on a node."""
    return f"{ARCHIVES}/{digest[7:23]}"


def request_for(placement: Placement, peers: list[CheckpointRequest]) -> ProbeRequest:
    """What a node is asked. `peers`: folders of it that other nodes are to get."""
    services = placement.services
    wanted = [
        CheckpointRequest(path=s.model, digest=s.checkpoint.digest, key=record_key(s.model))
        for s in services
        if s.checkpoint is not None
    ]
    for service in services:
        if service.image.archive is not None:
            path = archive_path(service.image.digest)
            wanted.append(CheckpointRequest(path=path, digest=service.image.digest, key=record_key(path)))
    unique = {one.path: one for one in (*peers, *wanted)}
    return ProbeRequest(
        services=tuple(
            ServiceRequest(name=s.name, model=s.model, image=s.image.reference, port=s.port) for s in services
        ),
        runtime=placement.node.runtime,
        checkpoints=tuple(unique.values()),
    )


def look_at(host: "Host", request: ProbeRequest) -> NodeLook | str:
    """What the node told, or why it told nothing."""
    script = sections_script(SECTIONS, request)
    output = run(host, READ_WHOLE, stdin=script.text, timeout_s=60)
    if output.reason:
        return output.reason
    try:
        return parse_look(host.name, output.stdout, script)
    except ProbeError as error:
        return f"{error}{output.tail()}"


def survey(fleet: Fleet, hosts: dict[str, "Host"], service: str | None, rehash: bool) -> Found:
    """Look at all nodes at once and decide. `service`: only what this one needs."""
    found = Found()
    placements = {p.node.name: _only(p, service) for p in fleet.placements if p.node.name in hosts}
    peers = _peer_requests(placements, found)
    for node in sorted(placements):
        problems = _colliding(fleet.placement(node), service)
        found.problems += [one for one in problems if one not in found.problems]

    def one(name: str) -> None:
        told = look_at(hosts[name], request_for(placements[name], peers.get(name, [])))
        if isinstance(told, str):
            found.unread[name] = told
        else:
            found.looks[name] = told

    Pool(256).map(one, sorted(placements))
    for name in sorted(found.looks):
        found.needs[name] = [need for need in _needs(fleet, placements[name], found, rehash) if need is not None]
    _check_peers(found, placements)
    for key in sorted(found.items):
        if found.fetching(key):
            _check_origin(fleet, found, key, hosts)
    return found


def _colliding(placement: Placement, service: str | None) -> list[tuple[str, str]]:
    wanted = [(s.name, s.model, s.checkpoint.digest) for s in placement.services if s.checkpoint is not None]
    return [(name, why) for one, name, why in colliding(wanted) if service in (None, one, name)]


def _only(placement: Placement, service: str | None) -> Placement:
    kept = tuple(s for s in placement.services if service in (None, s.name))
    return placement.model_copy(update={"services": kept})


def _peer_requests(placements: dict[str, Placement], found: Found) -> dict[str, list[CheckpointRequest]]:
    """What must be looked at on the nodes that are named as a peer."""
    wanted: dict[str, list[CheckpointRequest]] = {}
    for placement in placements.values():
        for name, peer, path, digest in _from_peers(placement):
            if peer not in placements:
                why = f"{name}: want the peer {peer} in this run, found it left out"
                found.problems.append((placement.node.name, why))
            wanted.setdefault(peer, []).append(CheckpointRequest(path=path, digest=digest, key=record_key(path)))
    return wanted


def _from_peers(placement: Placement) -> Iterator[tuple[str, str, str, str]]:
    """Service, peer, folder on the peer and digest of everything that a node is to get from a peer."""
    for service in placement.services:
        checkpoint, archive = service.checkpoint, service.image.archive
        if checkpoint is not None and checkpoint.peer is not None:
            yield service.name, checkpoint.peer, checkpoint.folder or service.model, checkpoint.digest
        if archive is not None and archive.peer is not None and archive.file is not None:
            yield service.name, archive.peer, posixpath.dirname(archive.file), service.image.digest


def _needs(fleet: Fleet, placement: Placement, found: Found, rehash: bool) -> list[Need | None]:
    look, keep = found.looks[placement.node.name], int(fleet.rollout.min_free_gib * GIB)
    needs: dict[str, Need] = {}
    for service in placement.services:
        if (declared := service.checkpoint) is not None:
            try:
                manifest = manifest_at(declared.manifest)
            except DeclarationError as error:
                found.problems.append((service.name, str(error)))
                continue
            origin = Origin(
                folder=None if declared.peer else declared.folder,
                url=declared.url,
                peer=declared.peer,
                peer_folder=declared.folder if declared.peer else None,
            )
            item = Item(name=service.name, path=service.model, manifest=manifest, digest=declared.digest, origin=origin)
            item = found.items.setdefault(item.key, item)
            needs[item.key] = need_of(item, look, fleet.delivery.bundle_mib * MIB, keep, rehash)
        image = service.image
        if image.archive is None:
            continue
        if look.images_error and not look.has_image(image.reference):
            found.problems.append((look.node, f"images: {look.images_error}"))
        elif not look.has_image(image.reference):
            archive = _archive_item(found, placement, service.name)
            if archive is not None:
                needs[archive.key] = need_of(archive, look, fleet.delivery.bundle_mib * MIB, keep)
    needs = together(needs, found.items, look, keep)
    for need in needs.values():
        if need.refused is None and need.action == "fetch" and "rsync" not in look.tools:
            needs[need.item] = need.model_copy(update={"refused": "want rsync on the node, found none; bootstrap.py"})
        if needs[need.item].refused:
            found.problems.append((look.node, f"{found.items[need.item].name}: {needs[need.item].refused}"))
        elif need.action == "none":
            found.sources[look.node, need.item] = found.items[need.item].path
    return list(needs.values())


def _archive_item(found: Found, placement: Placement, name: str) -> Item | None:
    """The item of an image's archive, looked at once a run; None where it is a problem."""
    image = next(s.image for s in placement.services if s.name == name)
    path = archive_path(image.digest)
    key = f"{record_key(path)}-{image.digest[7:15]}"
    if key in found.items or image.archive is None:
        return found.items.get(key)
    try:
        origin = Origin(url=image.archive.url)
        if image.archive.file is not None and image.archive.peer is None:
            file = archive_file(image.archive.file, image.digest, ARCHIVE_NAME)
            origin = Origin(folder=image.archive.file)
        else:
            folder, _, name = (image.archive.file or ARCHIVE_NAME).rpartition("/")
            size, digest = image.archive.bytes or 0, (image.archive.sha256 or "")[7:]
            file = ManifestFile(path=name, bytes=size, sha256=digest)
            if image.archive.peer is not None:
                origin = Origin(peer=image.archive.peer, peer_folder=folder)
    except SourceError as error:
        problem = (image.name, str(error))
        found.problems += [] if problem in found.problems else [problem]
        return None
    item = Item(
        name=image.name,
        path=path,
        manifest=one_file(file),
        digest=image.digest,
        origin=origin,
        image=image.reference,
    )
    return found.items.setdefault(item.key, item)


def _check_peers(found: Found, placements: dict[str, Placement]) -> None:
    """A declared peer must have the content, and its folder must not be the own one of a release that runs there."""
    for item in found.items.values():
        peer, folder = item.origin.peer, item.origin.peer_folder
        if peer is None or peer not in found.looks or not found.fetching(item.key):
            continue
        look, path = found.looks[peer], folder or item.path
        if item.image is not None:
            (file,) = item.manifest.files
            size = look.folder(path).there.get(file.path)
            if size == file.bytes:
                found.sources[peer, item.key] = path
            else:
                got = "nothing" if size is None else f"{size} bytes"
                found.problems.append(
                    (item.name, f"want {path}/{file.path} on {peer} of {file.bytes} bytes, found {got}")
                )
            continue
        reader = look.reader(path) if folder is not None else None
        if reader is not None:
            why = f"want a source that no engine reads, found {path} on {peer}, the own folder of the running {reader}"
            found.problems.append((item.name, f"{why}; leave `folder` out, and {peer} gives its verified checkpoint"))
        elif _may_verify(found, peer, item.key) and path == item.path:
            continue
        elif look.folder(path).verified != item.digest:
            why = f"want {path} on {peer} with the verified content of {item.digest[:19]}..., found"
            state = look.folder(path)
            what = (
                "another content" if state.verified else "nothing" if state.kind == "absent" else "an unverified folder"
            )
            found.problems.append((item.name, f"{why} {what}; deliver it there first"))
        else:
            found.sources[peer, item.key] = path


def _may_verify(found: Found, node: str, key: str) -> bool:
    """Does the node have something of the right sizes, which is compared first and can then be given on?"""
    return any(need.item == key and need.action == "verify" for need in found.needs.get(node, []))


def _check_origin(fleet: Fleet, found: Found, key: str, hosts: dict[str, "Host"]) -> None:
    """The source of an item that must move: is it what the manifest says, and is there any?"""
    item = found.items[key]
    holders = [node for node, held in found.sources if held == key]
    holders += [node for node in found.needs if _may_verify(found, node, key)]
    try:
        if item.origin.folder is not None and item.image is None:
            check_folder(item.origin.folder, item.manifest, lambda text: click.echo(f"{item.name}: {text}", err=True))
        elif item.origin.url is not None:
            _check_url(item, hosts[found.fetching(key)[0]])
        elif item.origin.folder is None and not holders:
            raise SourceError([f"want a node that has {item.path} verified, found none; declare a folder, url or peer"])
    except SourceError as error:
        found.problems += [(item.name, line) for line in error.lines]


def _check_url(item: Item, host: "Host") -> None:
    files = list(item.manifest.files)
    urls = urls_of(item, files)
    said = call(host, "ask_urls", {"urls": urls}, timeout_s=180)
    wrong = [said.reason] if said.reason else wrong_answers(said.stdout, urls, files)
    if wrong:
        raise SourceError(f"asked from {host.name}: {line}" for line in wrong[:5])


def urls_of(item: Item, files: list[ManifestFile]) -> list[str]:
    """Where each file is to be had."""
    base = item.origin.url or ""
    return [base if item.image is not None else file_url(base, file.path) for file in files]


def totals(found: Found) -> str:
    """What would move, in words."""
    moving = [need for needs in found.needs.values() for need in needs if _moves(need)]
    nodes = {need.node for need in moving}
    return f"{sum(need.bytes for need in moving) / GIB:.2f} GiB to {len(nodes)} nodes"
