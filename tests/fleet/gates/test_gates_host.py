"""The node has room for the service, and goes on serving while it is changed."""

from typing import Any

import pytest

from fleet.gate import FleetView
from fleet.nodes.node import Disk, ModelFolder, NodeFacts, Runtime
from tests.fleet.builders import (
    DIGEST,
    GLM,
    IMAGE,
    MODEL,
    OLD_DIGEST,
    facts,
    fails,
    fleet,
    fleet_with,
    image,
    installed,
    listening,
    node,
    passes,
    service,
    view,
    warns,
)

GIB = 2**30


def with_ports(*ports: Any, **changes: Any) -> FleetView:
    return fleet_with(told=facts(ports=ports, **changes))


def test_a_port_is_free_or_held_by_the_services_own_unit() -> None:
    passes("port-free", with_ports(listening(22, process="sshd"), listening(unit="vllm-glm.service")))
    fails("port-free", with_ports(listening(process="nginx", pid=42)), "found process nginx, pid 42")


def test_a_port_held_by_another_unit_of_ours_is_not_free() -> None:
    fails("port-free", with_ports(listening(unit="vllm-other.service")), "vllm-glm.service, found vllm-other.service")


def test_a_port_held_by_somebody_who_could_not_be_read_is_not_free() -> None:
    fails("port-free", with_ports(listening()), "somebody who could not be read")


def test_ports_that_could_not_be_read_are_not_free() -> None:
    fails("port-free", with_ports(ports_error="ss: not found"), "ss: not found")


def test_two_services_of_a_node_do_not_declare_one_port() -> None:
    def both(port: int) -> FleetView:
        return fleet(view(node(), service(), service(name="other", port=port), told=facts()))

    passes("port-shared", both(8001))
    fails("port-shared", both(8000), "want one service on port 8000, found glm and other on a1")


def on(runtime: Runtime, **changes: Any) -> FleetView:
    return fleet_with(told=facts(runtime=runtime, **changes))


def test_the_declared_runtime_answers() -> None:
    passes("runtime-present", fleet_with())
    fails("runtime-present", on(Runtime(name="podman", error="podman: not found")), "podman: not found")
    fails("runtime-present", on(Runtime(name="docker", version="28.2")), "want podman, found docker")


def test_the_image_is_on_the_node_by_its_digest_and_its_name() -> None:
    passes("image-present", fleet_with())
    fails("image-present", on(Runtime(name="podman", version="5", images=(image(OLD_DIGEST),))), f"site/vllm@{DIGEST}")
    fails("image-present", on(Runtime(name="podman", error="exit 125")), "unknown images: exit 125")
    other = image().model_copy(update={"reference": f"elsewhere/vllm@{DIGEST}"})
    told = ("found that digest only as elsewhere/vllm", "correct image.name of glm, or tag the image on a1")
    fails("image-present", on(Runtime(name="podman", version="5", images=(other,))), *told)
    passes("image-present", on(Runtime(name="podman", version="5", images=(other, image()))))


def proven(text: str | None = None, images: tuple[str, ...] = (DIGEST,), **changes: Any) -> FleetView:
    now = installed(**changes)
    if text is not None:
        now = now.model_copy(update={"files": (now.files[0].model_copy(update={"text": text}),)})
    return on(Runtime(name="podman", version="5", images=tuple(map(image, images))), services=(now,))


def test_the_proven_release_can_be_put_back() -> None:
    passes("rollback-image", fleet_with())
    passes("rollback-image", proven())
    passes("rollback-image", proven(current=None, proven=None, files=()))


def test_a_proven_release_whose_image_was_not_seen_is_a_warning() -> None:
    old = f'{{"image": "site/vllm@{OLD_DIGEST}"}}'
    passes("rollback-image", proven(old, (DIGEST, OLD_DIGEST)))
    warns("rollback-image", proven(old), f"site/vllm@{OLD_DIGEST} not seen among them")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"image": 3}'])
def test_a_proven_release_whose_image_is_not_known_is_a_warning(text: str) -> None:
    warns("rollback-image", proven(text), "no plan.json that names it")


def test_a_plan_json_that_was_not_told_is_a_warning() -> None:
    silent = installed().files[0].model_copy(update={"text": None})
    warns("rollback-image", proven(files=(silent,)), "no plan.json that names it")
    warns("rollback-image", proven(files=()), "no plan.json that names it")


def test_releases_that_could_not_be_read_are_a_warning() -> None:
    warns("rollback-image", proven(proven="r0"), "release r0, whose image is not known")
    warns("rollback-image", proven(error="permission denied"), "permission denied")
    warns("rollback-image", proven(current=None, proven=None, error="permission denied"), "permission denied")
    warns("rollback-image", fleet_with(told=facts(services_error="exit 1")), "exit 1")


def test_services_that_cannot_be_read_are_not_taken_for_none() -> None:
    passes("services-read", fleet_with(told=facts()))
    fails("services-read", fleet_with(told=facts(services_error="systemctl: exit 1")), "found systemctl: exit 1")


def with_disk(free: int | None, need: float = 2, error: str | None = None) -> FleetView:
    disk = Disk(path="/var/lib", free_bytes=free, error=error)
    return fleet(view(node(), service(), told=facts(disks=(disk,)), min_free_gib=need))


def test_there_is_room_for_releases_and_images() -> None:
    passes("disk-room", with_disk(2 * GIB))
    fails("disk-room", with_disk(2 * GIB - 1), "want 2 GiB free in /var/lib, found 2.00 GiB")
    fails("disk-room", with_disk(9 * GIB, need=9.5), "want 9.5 GiB free", "found 9.00 GiB")
    passes("disk-room", with_disk(0, need=0))


def test_room_that_was_not_told_is_no_room() -> None:
    fails("disk-room", with_disk(None, error="df: permission denied"), "an unknown size: df: permission denied")
    fails("disk-room", with_disk(None, need=0), "no figure")
    fails("disk-room", fleet_with(told=facts(disks=())), "no file system")


SERVES, STOPPED = facts(services=(installed(),)), facts(services=(installed(unit=None, current=None, proven=None),))


def replicas(
    a1: NodeFacts | None,
    a2: NodeFacts | None = None,
    changing: tuple[tuple[str, str], ...] = (("a1", "glm"),),
    keep: str = "keep",
) -> FleetView:
    glm = service(policy={"last_replica": keep})
    nodes = [view(node(), glm, told=a1), view(node(name="a2"), glm, told=a2)]
    return fleet(*nodes, changing=changing)


def serving(**changes: Any) -> NodeFacts:
    return facts(services=(installed(**changes),))


def test_the_last_proven_replica_is_not_taken() -> None:
    passes("last-replica", replicas(SERVES, SERVES))
    fails("last-replica", replicas(SERVES, STOPPED), "want a proven replica on another node", "on a1/glm")


def test_the_owner_may_let_the_last_replica_be_taken() -> None:
    passes("last-replica", replicas(SERVES, STOPPED, keep="take"))


def test_a_replica_that_the_run_does_not_change_is_not_taken() -> None:
    passes("last-replica", replicas(SERVES, STOPPED, changing=()))
    passes("last-replica", replicas(SERVES, STOPPED, changing=(("a2", "glm"), ("a1", "other"))))


def test_a_first_rollout_takes_nothing() -> None:
    passes("last-replica", replicas(STOPPED, STOPPED))
    passes("last-replica", replicas(facts(), facts()))


@pytest.mark.parametrize(
    "other",
    [
        None,
        facts(),
        facts(services_error="exit 1"),
        serving(error="permission denied"),
        serving(unit=None),
        serving(proven="r0"),
        serving(current=None, proven=None),
        serving(unit={"name": "u", "load": "loaded", "active": "failed", "sub": "failed", "enabled": "enabled"}),
    ],
)
def test_a_replica_that_is_not_known_to_serve_does_not_count(other: NodeFacts | None) -> None:
    fails("last-replica", replicas(SERVES, other), "none but this one")


@pytest.mark.parametrize(
    "here", [None, facts(services_error="exit 1"), serving(error="permission denied"), serving(unit=None)]
)
def test_a_node_that_may_be_the_last_replica_is_not_changed(here: NodeFacts | None) -> None:
    fails("last-replica", replicas(here, STOPPED), "could not be read")
    passes("last-replica", replicas(here, SERVES))


@pytest.mark.parametrize("here", [serving(proven="r0"), serving(proven=None)])
def test_a_release_that_is_not_proven_may_be_changed(here: NodeFacts) -> None:
    passes("last-replica", replicas(here, STOPPED))


WANTED = {"manifest": "/manifests/glm", "digest": "sha256:" + "c" * 64, "bytes": 390 * 2**30}


def arriving(checkpoint: dict[str, Any] | None = WANTED, **folder: Any) -> FleetView:
    """glm with a checkpoint that deliver.py is to bring."""
    there = ModelFolder(path=MODEL, config=GLM, **folder)
    return fleet_with(told=facts(models=(there,)), checkpoint=checkpoint)


def test_a_checkpoint_that_is_yet_to_come_has_room() -> None:
    passes("delivery-room", fleet_with())
    passes("delivery-room", arriving(held_bytes=0, room_bytes=400 * 2**30))
    passes("delivery-room", arriving(held_bytes=390 * 2**30, room_bytes=0))
    passes("delivery-room", arriving(verified=WANTED["digest"]))
    text = "want room for the checkpoint of 390.0 GiB, found 100.0 GiB beside /models/glm-5.2, of which 290.0 are"
    fails("delivery-room", arriving(held_bytes=100 * 2**30, room_bytes=100 * 2**30), text, "before deliver.py")


def test_room_that_was_not_told_is_not_enough() -> None:
    fails("delivery-room", arriving(), "want room for the checkpoint of 390.0 GiB, found an unknown room")
    fails("delivery-room", arriving(held_bytes=0), "an unknown room beside its folder")


def loading(*disks: Disk, size: int = 30 * 2**30, **runtime: Any) -> FleetView:
    """glm with an image that deliver.py is to bring."""
    archive = {"url": "https://mirror.example/vllm.tar", "sha256": "sha256:" + "d" * 64, "bytes": size}
    held = Runtime(name="podman", version="5", **runtime)
    return fleet_with(told=facts(disks=disks, runtime=held), image=IMAGE | {"archive": archive})


def disk(path: str, free: int | None, total: int = 2**40) -> Disk:
    return Disk(path=path, total_bytes=total, free_bytes=free, error=None if free is not None else "stat failed")


def test_an_image_that_is_yet_to_come_has_room_for_its_archive_and_its_layers() -> None:
    state, storage = "/var/lib/vllm-fleet", "/var/lib/containers/storage"
    passes("delivery-room", loading(disk(state, 61 * 2**30), disk(storage, 61 * 2**30)))
    passes("delivery-room", loading(disk(state, 31 * 2**30), disk(storage, 32 * 2**30, total=2**41)))
    passes("delivery-room", loading(disk(state, 0), images=(image(),)))
    full = loading(disk(state, 59 * 2**30), disk(storage, 59 * 2**30))
    fails("delivery-room", full, "want room for an image archive of 30.0 GiB and its layers", f"59.0 GiB in {storage}")
    fails("delivery-room", loading(disk(state, None)), "an unknown size of /var/lib/vllm-fleet: stat failed")
