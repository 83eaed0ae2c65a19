"""Will the machine go on as it is: clock, name, reboots, updates, modules?"""

from fleet.gate import gate
from fleet.known import Undecidable, facts_of, machine_of, told
from fleet.plan import NodeView
from fleet.verdict import Finding

MOST_SKEW_S = 30


@gate("clock", reads="the node's clock and the controller's", remedy="set the clock of {node}", needs_facts=True)
def clock(view: NodeView) -> Finding | None:
    """The node's clock agrees with the controller's within 30 s. A recorded node has no clock to compare."""
    if view.node.recording is not None:
        return None
    ahead = told(facts_of(view).clock_ahead_s, "the node's clock", "no comparison")
    if abs(ahead) <= MOST_SKEW_S:
        return None
    got = f"{abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}"
    return Finding(want=f"a clock within {MOST_SKEW_S} s of the controller's", got=got)


@gate(
    "clock-set",
    reads="/run/systemd/timesync, pid files of chrony, ntpd and ptp4l",
    severity="warn",
    remedy="let chrony or systemd-timesyncd set the clock of {node}",
    needs_facts=True,
)
def clock_set(view: NodeView) -> Finding | None:
    """Somebody sets the node's clock. A container has the clock of its host."""
    machine = machine_of(view)
    if machine.clocks or machine.container is not None:
        return None
    return Finding(want="a clock that is kept right", got="no daemon that does", warning=True)


@gate(
    "own-name",
    reads="/etc/hosts, getent",
    severity="warn",
    remedy="write the name of {node} into its /etc/hosts",
    needs_facts=True,
)
def own_name(view: NodeView) -> Finding | None:
    """The node resolves its own name, by which the ranks of an engine find each other (gloo)."""
    resolves = told(machine_of(view).resolves_itself, "whether the node resolves its own name")
    got = f"{facts_of(view).hostname} resolves to nothing"
    return None if resolves else Finding(want="a name that resolves", got=got, warning=True)


@gate(
    "peer-names",
    reads="/etc/hosts, getent; checkpoint and image.archive of the services, addresses of the nodes",
    remedy="let {node} resolve it (DNS, or its /etc/hosts), or declare addresses in its place",
    needs_facts=True,
)
def peer_names(view: NodeView) -> list[Finding]:
    """The node resolves every host name that it is sent to: sources of checkpoints and images, and other nodes."""
    facts = facts_of(view)
    for name in view.placement.names:
        if name not in facts.names:
            raise Undecidable(f"whether {name} resolves", facts.names_error or "nothing", "see getent ahosts on {node}")
    return [
        Finding(want=f"an address of {name}", got="it resolves to nothing")
        for name in view.placement.names
        if not facts.names[name]
    ]


@gate(
    "reboot-pending",
    reads="/run/reboot-required, /lib/modules",
    severity="warn",
    remedy="reboot {node} before it serves again",
    needs_facts=True,
)
def reboot_pending(view: NodeView) -> list[Finding]:
    """No reboot waits, and the modules of the kernel that runs are still there (else a driver cannot be loaded)."""
    machine, findings = machine_of(view), []
    if machine.reboot_required:
        names = ", ".join(machine.reboot_packages[:5]) or "a package that does not say its name"
        findings.append(Finding(want="no reboot pending", got=f"one for {names}", warning=True))
    if machine.module_folders and not machine.running_modules:
        got = f"only those of {', '.join(machine.module_folders[:3])}"
        findings.append(Finding(want=f"modules of kernel {facts_of(view).kernel}", got=got, warning=True))
    return findings


@gate(
    "driver-updates",
    reads="timers.target.wants, /etc/apt/apt.conf.d",
    severity="warn",
    remedy='name "nvidia" and "libnvidia" in Unattended-Upgrade::Package-Blacklist of {node}, or disable the timer',
    needs_facts=True,
)
def driver_updates(view: NodeView) -> Finding | None:
    """No timer replaces the driver's libraries under a running engine: then nothing starts until a reboot."""
    updates = machine_of(view).updates
    armed = [timer for timer in updates.timers if not timer.startswith("apt-") or updates.upgrades]
    if not armed or updates.spares_driver:
        return None
    return Finding(want="updates that leave the driver alone", got=f"{', '.join(armed)} may replace it", warning=True)


@gate("peermem", reads="/sys/module/nvidia_peermem", remedy="modprobe nvidia-peermem on {node}", needs_facts=True)
def peermem(view: NodeView) -> Finding | None:
    """Where GPUDirect RDMA is wanted (peermem of the inventory), its module is loaded."""
    if not view.node.peermem or machine_of(view).peermem:
        return None
    return Finding(want="module nvidia_peermem", got="it is not loaded")
