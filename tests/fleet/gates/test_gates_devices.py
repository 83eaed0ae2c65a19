"""A container gets every GPU that it is given, or nothing is started."""

import pytest

from fleet.nodes.machine import Cdi, CdiSpec
from fleet.nodes.node import NodeFacts
from tests.fleet.builders import MODEL, facts, fails, fleet_with, machine, node, passes

ALL = tuple(map(str, range(8)))
DOCKER = node(runtime="docker")


def with_specs(*specs: CdiSpec, error: str | None = None) -> NodeFacts:
    return facts(cdi=Cdi(specs=specs, error=error))


def spec(**changes: object) -> CdiSpec:
    return CdiSpec.model_validate({"file": "/etc/cdi/nvidia.yaml", "names": ALL} | changes)


def test_every_gpu_is_in_a_specification() -> None:
    passes("cdi", fleet_with())
    fails("cdi", fleet_with(told=with_specs()), "no specification of nvidia.com/gpu", "nvidia-ctk cdi generate")
    fails("cdi", fleet_with(told=with_specs(spec(names=("0", "1", "2")))), "found none of GPU 3, 4, 5, 6, 7")
    passes("cdi", fleet_with(told=with_specs(spec(names=ALL[:4]), spec(names=ALL[4:]))))
    passes("cdi", fleet_with(told=with_specs(spec(names=ALL[:2])), gpus=[0, 1], layout={"tp": 2}))


def test_specifications_that_cannot_be_read_name_nothing() -> None:
    unread = with_specs(error="want CDI specifications, found 'wings'")
    fails("cdi", fleet_with(told=unread), "found 'wings'")
    fails("cdi-fresh", fleet_with(told=unread), "found 'wings'")


def test_docker_needs_no_specification() -> None:
    passes("cdi", fleet_with(DOCKER, with_specs()))
    passes("cdi-fresh", fleet_with(DOCKER, with_specs(error="unread")))


def test_a_specification_of_the_driver_before_is_refused() -> None:
    passes("cdi-fresh", fleet_with(told=with_specs(spec(library="570.86.15"))))
    fails(
        "cdi-fresh",
        fleet_with(told=with_specs(spec(library="550.54.15"))),
        "want libraries of driver 570.86.15, found 550.54.15 in /etc/cdi/nvidia.yaml",
    )
    gone = with_specs(spec(missing=("/dev/nvidia7",)))
    fails("cdi-fresh", fleet_with(told=gone), "no /dev/nvidia7, which /etc/cdi/nvidia.yaml names")


def with_devices(*names: str) -> NodeFacts:
    return facts(machine=machine(devices=names))


def test_device_nodes_that_nobody_made_since_the_boot_are_missed() -> None:
    passes("device-nodes", fleet_with())
    gpus = tuple(f"nvidia{gpu}" for gpu in range(8))
    fails("device-nodes", fleet_with(told=with_devices(*gpus, "nvidiactl")), "missing: /dev/nvidia-uvm")
    fails("device-nodes", fleet_with(told=with_devices(*gpus[:6], "nvidiactl", "nvidia-uvm")), "2 of the GPUs'")
    fails("device-nodes", fleet_with(told=with_devices()), "8 of the GPUs', /dev/nvidiactl, /dev/nvidia-uvm")
    passes(
        "device-nodes", fleet_with(node(gpus={"count": 0, "model": "-", "memory_mib": 1}, nvlink_islands=(), numa=()))
    )


def test_a_machine_that_was_not_understood_has_no_device_nodes() -> None:
    fails("device-nodes", fleet_with(told=facts(machine=machine(error="found 'wings'"))), "found 'wings'")


def test_docker_keeps_its_gpus_over_a_daemon_reload_only_with_links() -> None:
    passes("dev-char", fleet_with())
    fails("dev-char", fleet_with(DOCKER), "no 195:0, 195:1", "195:255", "create-dev-char-symlinks")
    passes("dev-char", fleet_with(DOCKER, facts(machine=machine(char_links=(*ALL, "255")))))


READABLE = "system_u:object_r:container_file_t:s0"


def enforcing(devices: bool = True, **labels: str) -> NodeFacts:
    """a1 with SELinux enforced; labels by the last part of the path."""
    told = {MODEL: labels.get("model", READABLE), "/srv/fix.py": labels.get("fix", READABLE)}
    told = {path: label for path, label in told.items() if label}
    return facts(machine=machine(selinux_enforced=True, selinux_devices=devices, labels=told))


MOUNTED = {"mounts": [{"source": "/srv/fix.py", "target": "/opt/fix.py"}]}


@pytest.mark.parametrize("flag", ["--security-opt=label=disable", "label=disable"])
def test_selinux_that_is_enforced_needs_leave_for_the_container(flag: str) -> None:
    passes("selinux", fleet_with())
    passes("selinux", fleet_with(told=facts(machine=machine(selinux_enforced=False))))
    fails("selinux", fleet_with(told=enforcing(devices=False)), "container_use_devices off", "label=disable")
    passes("selinux", fleet_with(node(runtime_flags=["--security-opt", flag]), enforcing(devices=False, model="x:y:z")))


@pytest.mark.parametrize("kind", ["container_file_t", "container_ro_file_t", "container_share_t"])
def test_selinux_lets_a_container_read_what_is_labelled_for_it(kind: str) -> None:
    passes("selinux", fleet_with(told=enforcing(model=f"unconfined_u:object_r:{kind}:s0:c1,c2"), **MOUNTED))


@pytest.mark.parametrize("label", ["unconfined_u:object_r:default_t:s0", "system_u:object_r:nfs_t:s0", "?", "wings"])
def test_a_label_that_no_container_may_read_is_named_with_its_path(label: str) -> None:
    fails(
        "selinux", fleet_with(told=enforcing(model=label)), f"want {MODEL} with a label", f"found {label}", "restorecon"
    )
    fails("selinux", fleet_with(told=enforcing(fix=label), **MOUNTED), "want /srv/fix.py with a label", label)


def test_a_label_that_was_not_told_is_not_readable() -> None:
    fails("selinux", fleet_with(told=enforcing(model="")), f"want the label of {MODEL}, found nothing")
    odd = facts(machine=machine(selinux_enforced=True, error="want what the machine is, found 'label wings'"))
    fails("selinux", fleet_with(told=odd), "label wings")
