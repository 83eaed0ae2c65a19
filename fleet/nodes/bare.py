"""A node's operating system as a bootstrap sees it. What was not told is None or absent, never a guess."""

from typing import NamedTuple

from fleet.frozen import Frozen
from fleet.nodes.archive import Archive

SUPPORTED = {("debian", "12"), ("debian", "13"), ("ubuntu", "22.04"), ("ubuntu", "24.04")}
CLOCKS = ("chrony", "chronyd", "ntp", "ntpd", "ntpsec", "openntpd", "systemd-timesyncd")
"""Units that keep the clock, each as good as the others."""


class Entry(NamedTuple):
    """A file or folder: mode in octal, `user:group`, kind, and for a file the SHA-256."""

    mode: str
    owner: str
    kind: str
    sha256: str | None


class MachineFacts(Frozen):
    """What the section `bare` told."""

    os_id: str | None = None
    os_version: str | None = None
    systemd: bool = False
    architecture: str = ""
    """As dpkg names it: amd64, arm64."""
    packages: dict[str, str] = {}
    """Installed ones, and their versions."""
    held: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    units: dict[str, str] = {}
    """Name without .service -> its active state."""
    enabled: dict[str, str] = {}
    """Name without .service -> enabled, disabled, static, masked, ..."""
    driver: str | None = None
    """As nvidia-smi tells it."""
    driver_error: str | None = None
    persistence: bool | None = None
    module: str | None = None
    """Version of the kernel module that is loaded."""
    module_on_disk: str | None = None
    cdi: str | None = None
    """Path of the CDI specification."""
    cdi_driver: str | None = None
    """The driver that it was made for."""
    nvswitch: bool = False
    without_char_link: tuple[str, ...] = ()
    docker_knows_nvidia: bool = False
    podman: str | None = None
    """Its version."""
    sysctl: dict[str, str] = {}
    sysctl_later: tuple[tuple[str, str, str], ...] = ()
    """File, setting and value of what is read at boot after what a bootstrap declares."""
    memory_bytes: int | None = None
    users: dict[str, str] = {}
    """Name -> its own group."""
    entries: dict[str, Entry] = {}
    stuck: dict[str, str] = {}
    """Path of what is managed -> why nothing can be written there."""
    archives: tuple[Archive, ...] = ()
    """Those that the machine takes packages from, without those that a bootstrap declared."""
    packaging: str | None = None
    """A program that works with packages at the moment, and that a bootstrap waits for."""
    reboot: str | None = None
    running: frozenset[str] = frozenset()
    """Services of ours whose engine runs."""
    gpu_processes: tuple[str, ...] = ()
    """`PID, NAME` of everything that has a GPU open, whoever started it."""

    @property
    def busy(self) -> tuple[str, ...]:
        """What a change of the driver or a reboot would end."""
        others = (f"process {one.replace(', ', ' (', 1)})" for one in self.gpu_processes)
        return tuple(sorted(self.running)) or tuple(others)

    @property
    def os(self) -> str:
        """`debian 13`."""
        return f"{self.os_id or 'unknown'} {self.os_version or ''}".strip()

    @property
    def clock(self) -> str | None:
        """The unit that keeps the clock now; None where none runs."""
        return next((name for name in CLOCKS if self.units.get(name) == "active"), None)
