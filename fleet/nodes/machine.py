"""What the machine under the GPUs is now: limits, CPUs, memory, clock, devices, what waits for a reboot.

`None` means that the node did not tell. Sizes in bytes.
"""

from fleet.frozen import Frozen

SYS_RESOURCE = 1 << 24
"""The bit of CAP_SYS_RESOURCE in a capability mask: systemd may raise any limit with it."""


class Limit(Frozen):
    """Soft and hard limit of PID 1, which units inherit and may raise up to the hard one. None: unlimited."""

    soft: int | None
    hard: int | None


class IommuGroup(Frozen):
    """A GPU's IOMMU group: GPUs behind one PCIe switch that are in different groups are kept apart by ACS."""

    bus: str
    group: str
    type: str
    """`identity` (passed through), `DMA`, `DMA-FQ` (translated), or what the kernel says."""


class Updates(Frozen):
    """What could replace the driver by itself: timers that are enabled, apt's switch, and packages to be left alone."""

    timers: tuple[str, ...] = ()
    upgrades: bool | None = None
    """APT::Periodic::Unattended-Upgrade; None where no file of apt says it."""
    spares_driver: bool = False
    """A list of apt names NVIDIA's packages among those to leave alone."""


class Machine(Frozen):
    """One node without its GPUs' own state. `error`: the part that was not understood, with its text."""

    container: str | None = None
    """The container manager where the node is none of its own (`systemd-nspawn`); None: a machine."""
    nr_open: int | None = None
    """The most open files that the kernel allows one process."""
    open_files: Limit | None = None
    locked_memory: Limit | None = None
    capabilities: int | None = None
    """Effective capabilities of PID 1 as a mask."""
    cpus_allowed: str | None = None
    """CPUs that PID 1 may use, a list as the kernel prints it."""
    governors: dict[str, int] = {}
    """CPU frequency governor -> CPUs; empty where the kernel does not scale their clock."""
    memory_available: int | None = None
    huge_pages: int | None = None
    huge_pages_free: int | None = None
    huge_page_bytes: int | None = None
    clocks: tuple[str, ...] = ()
    """Who sets the clock."""
    resolves_itself: bool | None = None
    """Does the node resolve its own name?"""
    reboot_required: bool = False
    reboot_packages: tuple[str, ...] = ()
    module_folders: tuple[str, ...] = ()
    """Kernels whose modules are installed; empty where modules are not kept on the node."""
    running_modules: bool = False
    """Are those of the running kernel among them?"""
    updates: Updates = Updates()
    selinux_enforced: bool | None = None
    """None: no SELinux."""
    selinux_devices: bool | None = None
    """The boolean container_use_devices."""
    labels: dict[str, str] = {}
    """Path of a checkpoint or mount -> its SELinux label; only where it is enforced."""
    devices: tuple[str, ...] = ()
    """Names of character devices under /dev that begin with `nvidia`."""
    char_links: tuple[str, ...] = ()
    """Minor numbers with a link in /dev/char for the driver's major number 195."""
    module_version: str | None = None
    """Version of the driver's module that is loaded."""
    peermem: bool = False
    nvswitches: int = 0
    fabric_manager: bool = False
    """Is a fabric manager alive?"""
    iommu: tuple[IommuGroup, ...] = ()
    error: str | None = None


class CdiSpec(Frozen):
    """One CDI specification of NVIDIA's GPUs."""

    file: str
    names: tuple[str, ...] = ()
    library: str | None = None
    """The driver's version in the names of the libraries that it brings in."""
    missing: tuple[str, ...] = ()
    """Device nodes that it names and that are not there."""


class Cdi(Frozen):
    """All specifications, and the reason where they could not be read."""

    specs: tuple[CdiSpec, ...] = ()
    error: str | None = None
