"""Does a container get its GPUs?"""

from fleet.gate import gate
from fleet.known import Undecidable, facts_of, layout_of, machine_of
from fleet.plan import NodeView, Plan
from fleet.verdict import Finding


@gate(
    "cdi",
    reads="/etc/cdi, /run/cdi",
    remedy="write the specification anew on {node}: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    needs_facts=True,
)
def cdi(plan: Plan) -> Finding | None:
    """For podman a CDI specification names each GPU of the service by its index."""
    if plan.node.runtime != "podman":
        return None
    told = facts_of(plan).cdi
    if told.error is not None:
        raise Undecidable("CDI specifications", told.error)
    gpus = sorted(layout_of(plan).device_order)
    names = {name for spec in told.specs for name in spec.names}
    missing = [str(gpu) for gpu in gpus if str(gpu) not in names]
    if not missing:
        return None
    got = f"none of GPU {', '.join(missing)}" if told.specs else "no specification of nvidia.com/gpu"
    return Finding(want=f"nvidia.com/gpu={gpus[0]} to {gpus[-1]} in a CDI specification", got=got)


@gate(
    "cdi-fresh",
    reads="/etc/cdi, /run/cdi, nvidia-smi",
    remedy="write the specification anew on {node}: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    needs_facts=True,
)
def cdi_fresh(view: NodeView) -> list[Finding]:
    """CDI specifications name libraries of the driver that runs, and only device nodes that are there."""
    facts, findings = facts_of(view), []
    if view.node.runtime == "podman" and facts.cdi.error is not None:
        raise Undecidable("CDI specifications", facts.cdi.error)
    for spec in facts.cdi.specs:
        if spec.missing:
            got = f"no {', '.join(spec.missing[:4])}, which {spec.file} names"
            findings.append(Finding(want="device nodes of the specification", got=got))
        if spec.library is not None and facts.nvidia.driver is not None and spec.library != facts.nvidia.driver:
            want, got = f"libraries of driver {facts.nvidia.driver}", f"{spec.library} in {spec.file}"
            findings.append(Finding(want=want, got=got))
    return findings


@gate(
    "device-nodes",
    reads="/dev/nvidia*",
    remedy="make them on {node} (nvidia-modprobe -u -c=0) and let nvidia-persistenced do so at boot",
    needs_facts=True,
)
def device_nodes(view: NodeView) -> Finding | None:
    """The device nodes are there, one a GPU, nvidiactl and nvidia-uvm: after a boot somebody must make them."""
    if view.node.gpus.count == 0:
        return None
    devices = machine_of(view).devices
    gpus = [name for name in devices if name.removeprefix("nvidia").isdecimal()]
    missing = [f"/dev/{name}" for name in ("nvidiactl", "nvidia-uvm") if name not in devices]
    if len(gpus) < view.node.gpus.count:
        missing.insert(0, f"{view.node.gpus.count - len(gpus)} of the GPUs'")
    if not missing:
        return None
    return Finding(want=f"{view.node.gpus.count} GPUs, nvidiactl and nvidia-uvm", got=f"missing: {', '.join(missing)}")


@gate(
    "dev-char",
    reads="/dev/char/195:*",
    remedy="make the links on {node} (nvidia-ctk system create-dev-char-symlinks --create-all), also at boot",
    needs_facts=True,
)
def dev_char(view: NodeView) -> Finding | None:
    """For docker the GPUs have links in /dev/char: else a systemctl daemon-reload takes them away from a container.

    systemd then writes the device rules of the container anew and resolves them through these links (NVIDIA,
    nvidia-container-toolkit 48). podman runs in the cgroup of its unit, which has no such rules.
    """
    if view.node.runtime != "docker" or view.node.gpus.count == 0:
        return None
    links = machine_of(view).char_links
    wanted = [*map(str, range(view.node.gpus.count)), "255"]
    missing = [f"195:{minor}" for minor in wanted if minor not in links]
    return Finding(want="a link in /dev/char for each GPU", got=f"no {', '.join(missing)}") if missing else None


READABLE = ("container_file_t", "container_ro_file_t", "container_share_t", "svirt_sandbox_file_t")
"""Types of files that any container may read (container-selinux)."""


@gate(
    "selinux",
    reads="/sys/fs/selinux, labels of checkpoint and mounts",
    remedy="add --security-opt=label=disable to runtime_flags of {node}, or set container_use_devices there",
    needs_facts=True,
)
def selinux(plan: Plan) -> list[Finding]:
    """Where SELinux is enforced, the container may use devices and read its files, by their labels.

    It is started with volumes as they are: nothing is labelled anew, which could take hours on a checkpoint.
    """
    machine, flags = machine_of(plan), " ".join(plan.node.runtime_flags)
    if not machine.selinux_enforced or "label=disable" in flags or "label:disable" in flags:
        return []
    found = []
    if machine.selinux_devices is not True:
        got = "SELinux enforced, container_use_devices off"
        found.append(Finding(want="a container that may use devices", got=got))
    for path in (plan.service.model, *(mount.source for mount in plan.service.mounts)):
        label = machine.labels.get(path)
        if label is None:
            raise Undecidable(f"the label of {path}", "nothing", "see ls -Z on {node}")
        if label.count(":") >= 2 and label.split(":")[2] in READABLE:
            continue
        remedy = f"on {{node}}: semanage fcontext -a -t container_file_t '{path}(/.*)?' && restorecon -R {path}"
        found.append(Finding(want=f"{path} with a label that containers may read", got=label, remedy=remedy))
    return found
