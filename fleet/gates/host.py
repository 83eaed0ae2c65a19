"""Has the node room for the service: runtime, images, port, disk?"""

import json
from collections import defaultdict

from fleet.gate import gate
from fleet.known import Undecidable, facts_of
from fleet.nodes.node import Port, Runtime
from fleet.plan import NodeView, Plan
from fleet.releases.command import unit_name
from fleet.releases.release import PLAN
from fleet.verdict import Finding

GIB = 2**30


def _holder(port: Port) -> str:
    parts = [port.process and f"process {port.process}", port.pid and f"pid {port.pid}", port.unit]
    return ", ".join(str(part) for part in parts if part) or "somebody who could not be read"


def taken(plan: Plan, port: int, name: str) -> Finding | None:
    """Who listens on this port of the node besides the service's own unit; `name` is what the port is called.

    Raises Undecidable where the listeners are not known.
    """
    facts, unit = facts_of(plan), unit_name(plan.service.name)
    if facts.ports_error is not None:
        raise Undecidable(f"{name} {port} free", f"unknown listeners: {facts.ports_error}", "see ss -ltnp on {node}")
    others = [held for held in facts.ports if held.port == port and held.unit != unit]
    if not others:
        return None
    return Finding(want=f"{name} {port} free or held by {unit}", got="; ".join(map(_holder, others)))


@gate("port-free", reads="ss", remedy="stop it, or choose another port for {service}", needs_facts=True)
def port_free(plan: Plan) -> Finding | None:
    """Nobody listens on the service's port but its own unit."""
    return taken(plan, plan.service.port, "port") if plan.serves else None


@gate("port-shared", reads="port of each service", remedy="give each service on {node} a port of its own")
def port_shared(view: NodeView) -> list[Finding]:
    """No two services that answer on a node declare the same port."""
    by_port = defaultdict(list)
    for service in view.placement.services:
        if service.nodes is None or service.nodes[0] == view.node.name:
            by_port[service.port].append(service.name)
    return [
        Finding(want=f"one service on port {port}", got=" and ".join(sorted(names)))
        for port, names in sorted(by_port.items())
        if len(names) > 1
    ]


def _holds(runtime: Runtime, digest: str) -> bool:
    return any(image.digest == digest for image in runtime.images)


@gate(
    "image-present",
    reads="the runtime's image store",
    remedy="bring the image to {node}; it is never pulled at start",
    needs_facts=True,
)
def image_present(plan: Plan) -> Finding | None:
    """The image lies on the node, by digest and under its name: the runtime finds no digest that has another name."""
    runtime, image = facts_of(plan).runtime, plan.service.image
    if any(one.reference == image.reference for one in runtime.images):
        return None
    if runtime.error:
        return Finding(want=image.reference, got=f"unknown images: {runtime.error}")
    others = sorted({one.reference.rpartition("@")[0] for one in runtime.images if one.digest == image.digest})
    if not others:
        return Finding(want=image.reference, got="no such image")
    remedy = "correct image.name of {service}, or tag the image on {node}"
    return Finding(want=image.reference, got=f"that digest only as {', '.join(others)}", remedy=remedy)


@gate(
    "services-read",
    reads="/var/lib/vllm-fleet, systemctl show",
    remedy="see /var/lib/vllm-fleet and the units vllm-* on {node}",
    needs_facts=True,
)
def services_read(view: NodeView) -> Finding | None:
    """What lies on the node of our services and their units can be read: else a service that runs looks like none."""
    error = facts_of(view).services_error
    return None if error is None else Finding(want="releases and units that can be read", got=error)


@gate(
    "rollback-image",
    reads="plan.json of the proven release, the runtime's image store",
    severity="warn",
    remedy="keep the image of the proven release on {node}",
    needs_facts=True,
)
def rollback_image(plan: Plan) -> Finding | None:
    """The image of the proven release is still on the node, for putting it back. Not seen or unknown: a warning."""
    if facts_of(plan).services_error is not None:
        return _rollback_unknown(f"unknown releases: {facts_of(plan).services_error}")
    installed = plan.installed
    if installed is None or (installed.proven is None and installed.error is None):
        return None  # nothing that could be put back
    if installed.error is not None or installed.proven != installed.current:
        return _rollback_unknown(installed.error or f"release {installed.proven}, whose image is not known")
    text = next((own.text for own in installed.files if own.path.rpartition("/")[2] == PLAN), None)
    reference = _image_reference(text)
    if reference is None:
        return _rollback_unknown("no plan.json that names it")
    if _holds(facts_of(plan).runtime, reference.rpartition("@")[2]):
        return None
    return _rollback_unknown(f"{reference} not seen among them")


def _rollback_unknown(got: str) -> Finding:
    return Finding(want="the image of the proven release among the node's images", got=got, warning=True)


def _image_reference(text: str | None) -> str | None:
    try:
        plan = json.loads(text or "")
    except ValueError:
        return None
    reference = plan.get("image") if isinstance(plan, dict) else None
    return reference if isinstance(reference, str) else None


@gate("disk-room", reads="stat -f", remedy="free room on {node}, or lower rollout.min_free_gib", needs_facts=True)
def disk_room(view: NodeView) -> list[Finding]:
    """Where releases and images lie, at least rollout.min_free_gib is free."""
    need, disks = view.rollout.min_free_gib, facts_of(view).disks
    if not disks:
        raise Undecidable(f"{need:g} GiB free", "no file system that the node told of")
    findings = []
    for disk in disks:
        if disk.free_bytes is None:
            got = f"an unknown size: {disk.error or 'no figure'}"
        elif disk.free_bytes < need * GIB:
            got = f"{disk.free_bytes / GIB:.2f} GiB"
        else:
            continue
        findings.append(Finding(want=f"{need:g} GiB free in {disk.path}", got=got))
    return findings


@gate(
    "delivery-room",
    reads="stat -f, checkpoint and image.archive of the service",
    remedy="free room on {node} before deliver.py, or deliver into a folder of a larger disk",
    needs_facts=True,
)
def delivery_room(plan: Plan) -> list[Finding]:
    """What deliver.py has yet to bring fits: the rest of a declared checkpoint, and an image with its archive."""
    return [*_checkpoint_room(plan), *_image_room(plan)]


def _checkpoint_room(plan: Plan) -> list[Finding]:
    declared, folder = plan.service.checkpoint, plan.model_folder
    if declared is None or declared.bytes is None or (folder is not None and folder.verified == declared.digest):
        return []
    want = f"room for the checkpoint of {declared.bytes / GIB:.1f} GiB"
    held, room = (folder.held_bytes, folder.room_bytes) if folder is not None else (None, None)
    if held is None or room is None:
        raise Undecidable(want, "an unknown room beside its folder")
    missing = declared.bytes - held
    if room >= missing:
        return []
    got = f"{room / GIB:.1f} GiB beside {plan.service.model}, of which {missing / GIB:.1f} are missing"
    return [Finding(want=want, got=got)]


def _image_room(plan: Plan) -> list[Finding]:
    """The archive lies with our state until it is loaded, and its layers then in the runtime's storage."""
    image, facts = plan.service.image, facts_of(plan)
    if image.archive is None or image.archive.bytes is None or _holds(facts.runtime, image.digest):
        return []
    size, findings = image.archive.bytes, []
    one_disk = len({(disk.total_bytes, disk.free_bytes) for disk in facts.disks}) == 1
    want = f"room for an image archive of {size / GIB:.1f} GiB and its layers"
    for disk in facts.disks:
        if disk.free_bytes is None:
            raise Undecidable(want, f"an unknown size of {disk.path}: {disk.error or 'no figure'}")
        if disk.free_bytes < size * (2 if one_disk else 1):
            findings.append(Finding(want=want, got=f"{disk.free_bytes / GIB:.1f} GiB in {disk.path}"))
    return findings
