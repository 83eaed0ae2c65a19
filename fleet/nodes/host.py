"""What a bare machine must become, as its owner declares it: the section `host` of group data."""

import posixpath
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from fleet.delivery.source import PlainPath
from fleet.frozen import Frozen
from fleet.values import formed

PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_VERSION = re.compile(r"[A-Za-z0-9.+:~*-]+")
_KEY = re.compile(r"[a-z0-9_./-]+")


def _one_line(text: str) -> str:
    if not re.fullmatch(r"[!-~][ -~]*", text):
        raise ValueError(f"want one line of printable characters, found {text[:60]!r}")
    return text


Package = Annotated[str, formed(PACKAGE, "the name of a package")]
Version = Annotated[str, formed(_VERSION, "a version such as 1.17.8-1 or 1.17.*")]
Line = Annotated[str, AfterValidator(_one_line)]
SourceName = Annotated[str, formed(re.compile(r"[a-z0-9][a-z0-9-]{0,40}"), "a name in small letters, digits and -")]
SysctlName = Annotated[
    str, formed(re.compile(r"[a-z0-9_]+([./][a-zA-Z0-9_-]+)+"), "a kernel setting such as vm.max_map_count")
]
UserName = Annotated[
    str, formed(re.compile(r"[a-z_][a-z0-9_-]{0,30}"), "a user's name in small letters, digits, _ and -")
]


def _public(url: str) -> str:
    if "@" in url.partition("//")[2].partition("/")[0]:
        raise ValueError(
            "want a URL without a user or password, for it stands in files that all read, found one with them"
        )
    return url


ArchiveUrl = Annotated[
    str,
    formed(re.compile(r"(https?|file)://?[!-~]+"), "the URL of an archive: http, https or file"),
    AfterValidator(_public),
]
_SYSTEM = frozenset(
    [
        "/",
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/home",
        "/lib",
        "/lib64",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/sys",
        "/tmp",
        "/usr",
        "/var",
    ]
)


def _own_folder(path: str) -> str:
    if f"/{posixpath.normpath(path).lstrip('/')}" in _SYSTEM:
        raise ValueError(f"want a folder of its own, which may be given to host.user, found {path} of the system")
    return path


OwnFolder = Annotated[PlainPath, AfterValidator(_own_folder)]


class AptSource(Frozen):
    """One archive of packages that the owner trusts, with the key that signs it."""

    url: ArchiveUrl
    suite: Line
    components: tuple[Line, ...] = ()
    """None where the suite ends in `/`, as a flat archive's does."""
    key: PlainPath
    """File of the machine that rolls out: armoured or binary."""
    pin: dict[Package | Literal["*"], Version] = {}
    """Version of each package that may come from here; where this is set, others do not, unless `*: *` stands there."""

    @model_validator(mode="after")
    def _flat_or_with_components(self) -> Self:
        if self.suite.endswith("/") == bool(self.components):
            raise ValueError("want components, or a suite that ends in / and no components, found neither or both")
        if self.pin.get("*", "*") != "*":
            raise ValueError("pin: want `*: *` where other packages may come from here too, found a version for all")
        return self


class DriverDeclaration(Frozen):
    """The NVIDIA driver. Without `package` it is only looked at: who installed it keeps it."""

    version: Version | None = None
    """What nvidia-smi must tell; `*` ends a prefix, such as 570.*"""
    package: Package | None = None
    """Installed where the driver is missing or another, never while an engine runs."""
    hold: bool = True
    """Nobody upgrades it by the way: the package is held, and unattended upgrades leave it alone."""
    persistence: bool = True
    fabric_manager: Package | None = None
    """Needed on machines with NVSwitch; the package whose version is the driver's."""


class HostDeclaration(Frozen):
    """What every node of the fleet, or of a group, must be."""

    apt: dict[SourceName, AptSource] = {}
    packages: tuple[Package, ...] = ()
    """Besides those that the rest of this declaration and the runtime need."""
    runtime_package: Package | None = None
    """Package of the container runtime: podman, or docker.io; None: named like the runtime of the node's system."""
    toolkit_package: Package = "nvidia-container-toolkit"
    driver: DriverDeclaration = DriverDeclaration()
    user: UserName | None = None
    """A system user that owns `folders`; None: root."""
    folders: tuple[OwnFolder, ...] = ("/srv/models",)
    sysctl: dict[SysctlName, Annotated[int, Field(strict=True)] | Line] = {}
    hugepages_2mib: Annotated[int, Field(ge=0, strict=True)] = 0
    nofile: Annotated[int, Field(ge=1024, strict=True)] = 1048576
    clock: Annotated[Package | None, BeforeValidator(lambda value: None if value == "none" else value)] = "chrony"
    """Installed where nothing keeps the clock; any other that runs is as good. `none`: it is not looked at."""

    @model_validator(mode="after")
    def _each_archive_and_pin_once(self) -> Self:
        places: dict[tuple[str, str], str] = {}
        pins: dict[str, str] = {}
        for name, source in self.apt.items():
            other = places.setdefault((source.url.rstrip("/"), source.suite), name)
            if other != name:
                raise ValueError(
                    f"apt: want each archive once, with all its components, found it as {other} and {name}"
                )
            for package, version in source.pin.items():
                if pins.setdefault(package, version) != version:
                    raise ValueError(f"apt: want one pin of {package}, found {pins[package]} and {version}")
        return self
