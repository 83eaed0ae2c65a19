"""From a bare machine to one that passes the gates: the steps that this node still needs, decided from what it told.

A node that conforms needs none. Each step becomes one operation of pyinfra; none of them touches a running engine.
"""

import fnmatch
import hashlib
from collections.abc import Iterable
from typing import Literal

from fleet.declaration import NodeDeclaration
from fleet.frozen import Frozen
from fleet.nodes.bare import SUPPORTED, MachineFacts
from fleet.nodes.host import AptSource, HostDeclaration

LIMITS = "/etc/security/limits.d/90-vllm-fleet.conf"
SYSCTL = "/etc/sysctl.d/90-vllm-fleet.conf"
UNATTENDED = "/etc/apt/apt.conf.d/52vllm-fleet"
CDI = "/etc/cdi/nvidia.yaml"
CDI_UNIT = "/etc/systemd/system/vllm-fleet-cdi.service"
RUNTIME_PACKAGES = {"podman": "podman", "docker": "docker.io"}

Kind = Literal["file", "update", "install", "hold", "unit", "user", "folder", "command", "reboot"]


class Step(Frozen):
    """One thing to do. What a field means depends on the kind."""

    kind: Kind
    name: str
    """For people: what becomes so."""
    path: str = ""
    text: str = ""
    mode: str = "644"
    owner: str = "root"
    packages: tuple[str, ...] = ()
    """With `=VERSION` where one is declared."""
    command: tuple[str, ...] = ()


class Refusal(Frozen):
    """Why this node cannot be brought there: what was wanted, what was found, what helps."""

    want: str
    got: str
    remedy: str

    def __str__(self) -> str:
        return f"want {self.want}, found {self.got}; {self.remedy}"


class Bootstrap(Frozen):
    """What a node needs, what it cannot be given, and what an operator must know."""

    node: str
    steps: tuple[Step, ...] = ()
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()


def wanted_files(host: HostDeclaration, keys: dict[str, str], support: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Path -> text of every whole file that a node must have, besides those that only some nodes need."""
    files = {path: text for path, (_, text) in support.items()}
    for name, source in host.apt.items():
        files[key_path(name, keys[name])] = keys[name]
        files[f"/etc/apt/sources.list.d/vllm-fleet-{name}.sources"] = source_text(source, key_path(name, keys[name]))
        if source.pin:
            files[f"/etc/apt/preferences.d/vllm-fleet-{name}"] = pin_text(source)
    files[LIMITS] = (
        f"* - nofile {host.nofile}\n* - memlock unlimited\nroot - nofile {host.nofile}\nroot - memlock unlimited\n"
    )
    if settings := sysctl_settings(host):
        files[SYSCTL] = "".join(f"{name} = {value}\n" for name, value in sorted(settings.items()))
    return files


def key_path(name: str, text: str) -> str:
    """apt tells an armoured key from a binary one by the ending."""
    return f"/etc/apt/keyrings/vllm-fleet-{name}.{'asc' if text.startswith('-----BEGIN') else 'gpg'}"


def source_text(source: AptSource, key: str) -> str:
    """The archive in the deb822 form, which apt of all supported systems reads."""
    components = f"Components: {' '.join(source.components)}\n" if source.components else ""
    return f"Types: deb\nURIs: {source.url}\nSuites: {source.suite}\n{components}Signed-By: {key}\n"


def pin_text(source: AptSource) -> str:
    """Only the pinned packages come from this archive, in the pinned version."""
    host = source.url.split("//", 1)[1].split("/", 1)[0].rsplit(":", 1)[0] if "//" in source.url else ""
    parts = [f'Package: *\nPin: origin "{host}"\nPin-Priority: -1\n'] if "*" not in source.pin else []
    parts += [
        f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n" for name, version in sorted(source.pin.items())
    ]
    return "\n".join(parts)


def sysctl_settings(host: HostDeclaration) -> dict[str, str]:
    """Every kernel setting that is declared, as the kernel prints it."""
    settings = {name.replace("/", "."): str(value) for name, value in host.sysctl.items()}
    return settings | ({"vm.nr_hugepages": str(host.hugepages_2mib)} if host.hugepages_2mib else {})


class _Plan:
    """Collects the steps of one node, in the order in which they must come."""

    def __init__(self, node: NodeDeclaration, host: HostDeclaration, facts: MachineFacts) -> None:
        self.node, self.host, self.facts = node, host, facts
        self.steps: list[Step] = []
        self.refused: list[Refusal] = []
        self.notes: list[str] = []

    def file(self, path: str, text: str, name: str, mode: str = "644") -> bool:
        """A whole file; true where it must be written."""
        there, digest = (
            self.facts.entries.get(path),
            hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest(),
        )
        if there is not None and (there.mode, there.owner, there.sha256) == (mode, "root:root", digest):
            return False
        self.steps.append(Step(kind="file", name=name, path=path, text=text, mode=mode))
        return True

    def command(self, name: str, *words: str) -> None:
        """Words that are run on the node."""
        self.steps.append(Step(kind="command", name=name, command=words))


def decide(
    node: NodeDeclaration,
    host: HostDeclaration,
    facts: MachineFacts,
    keys: dict[str, str],
    support: dict[str, tuple[str, str]],
    units: dict[str, str],
) -> Bootstrap:
    """What this node still needs. `keys`: source -> text of its key; `units`: our unit files by path."""
    plan = _Plan(node, host, facts)
    if (facts.os_id, facts.os_version) not in SUPPORTED or not facts.systemd:
        known = ", ".join(" ".join(one) for one in sorted(SUPPORTED))
        got = f"{facts.os}{'' if facts.systemd else ' without systemd'}"
        remedy = "install one of these, or bring the node there by hand and leave it out with --limit"
        return Bootstrap(node=node.name, refused=(Refusal(want=known, got=got, remedy=remedy),))
    _user_and_folders(plan)
    _sources(plan, keys)
    _packages(plan)
    _driver(plan)
    _gpus(plan, units)
    _limits(plan, wanted_files(host, keys, support))
    for path, (mode, text) in support.items():
        plan.file(path, text, f"Put {path} in place, with which the node undoes by itself", mode)
    if facts.enabled.get("vllm-fleet-boot") != "enabled":
        plan.steps.append(
            Step(kind="unit", name="Enable the undo at boot", packages=("vllm-fleet-boot.service",), mode="enable")
        )
    return Bootstrap(node=node.name, steps=tuple(plan.steps), refused=tuple(plan.refused), notes=tuple(plan.notes))


def _user_and_folders(plan: _Plan) -> None:
    user = plan.host.user
    if user is not None and user not in plan.facts.users:
        plan.steps.append(Step(kind="user", name=f"Make the system user {user}", path=user))
    for path in plan.host.folders:
        there = plan.facts.entries.get(path)
        if there is None or there.kind != "directory" or (user and not there.owner.startswith(f"{user}:")):
            plan.steps.append(Step(kind="folder", name=f"Make {path}", path=path, mode="755", owner=user or "root"))


def _sources(plan: _Plan, keys: dict[str, str]) -> None:
    changed = False
    for name, source in plan.host.apt.items():
        key = key_path(name, keys[name])
        changed |= plan.file(key, keys[name], f"Trust the key of the packages of {name}")
        path = f"/etc/apt/sources.list.d/vllm-fleet-{name}.sources"
        changed |= plan.file(path, source_text(source, key), f"Take packages from {name}")
        if source.pin:
            changed |= plan.file(
                f"/etc/apt/preferences.d/vllm-fleet-{name}", pin_text(source), f"Pin what comes from {name}"
            )
    if changed or _missing(plan):
        plan.steps.append(Step(kind="update", name="Read the package lists"))


def _missing(plan: _Plan) -> list[str]:
    """Packages to install: those whose work nothing on the node does yet, under whatever name."""
    facts, host = plan.facts, plan.host
    wanted = [name for name in host.packages if name not in facts.packages]
    wanted += [name for name in ("rsync", "curl") if name not in facts.programs]
    if plan.node.runtime not in facts.programs:
        wanted.append(host.runtime_package or RUNTIME_PACKAGES[plan.node.runtime])
    if plan.node.gpus.count and "nvidia-ctk" not in facts.programs:
        wanted.append(host.toolkit_package)
    if host.clock is not None and facts.clock is None and host.clock not in facts.packages:
        wanted.append(host.clock)
    return list(dict.fromkeys(wanted))


def _packages(plan: _Plan) -> None:
    if missing := _missing(plan):
        plan.steps.append(Step(kind="install", name=f"Install {', '.join(missing)}", packages=tuple(missing)))
    host, facts = plan.host, plan.facts
    if host.clock is not None and facts.clock is None:
        plan.steps.append(Step(kind="unit", name="Keep the clock", packages=(f"{host.clock}.service",)))
    if plan.node.runtime == "docker" and facts.units.get("docker") != "active":
        plan.steps.append(Step(kind="unit", name="Run docker", packages=("docker.service",)))


def _matches(found: str | None, want: str | None) -> bool:
    return want is None or (found is not None and fnmatch.fnmatchcase(found, want))


def _driver(plan: _Plan) -> None:
    """The driver is installed only where the owner says so and nothing runs; else it is told what is missing."""
    if not plan.node.gpus.count:
        return
    driver, facts = plan.host.driver, plan.facts
    right = facts.driver is not None and _matches(facts.driver, driver.version)
    got = facts.driver or facts.driver_error or ("no nvidia-smi" if "nvidia-smi" not in facts.programs else "no answer")
    want = f"the NVIDIA driver{f' {driver.version}' if driver.version else ''}"
    if not right and driver.package is None:
        plan.refused.append(Refusal(want=want, got=got, remedy="install it, or declare host.driver.package"))
    elif not right and facts.running:
        remedy = f"stop {', '.join(sorted(facts.running))} first; a driver is never changed under a running engine"
        plan.refused.append(Refusal(want=want, got=got, remedy=remedy))
    elif not right and driver.package in facts.packages:
        plan.notes.append(f"{driver.package} is installed, and the driver tells: {got}; it needs a reboot")
        plan.steps.append(Step(kind="reboot", name="Reboot for the driver"))
    elif not right and driver.package is not None:
        plan.steps.append(
            Step(kind="install", name=f"Install the driver: {driver.package}", packages=(driver.package,))
        )
        plan.notes.append("the driver that is installed now runs after a reboot")
        plan.steps.append(Step(kind="reboot", name="Reboot for the driver"))
    if right and facts.module and facts.module_on_disk and facts.module != facts.module_on_disk:
        plan.notes.append(f"the driver {facts.module} runs, {facts.module_on_disk} is installed: a reboot is due")
        plan.steps.append(Step(kind="reboot", name="Reboot for the driver"))
    elif right and facts.reboot:
        plan.notes.append(f"a reboot is due: {facts.reboot}")
        plan.steps.append(Step(kind="reboot", name="Reboot"))
    _held(plan)


def _held(plan: _Plan) -> None:
    """Nobody upgrades the driver by the way: neither apt nor unattended-upgrades."""
    driver, facts = plan.host.driver, plan.facts
    if not driver.hold:
        return
    ours = [name for name in (driver.package, driver.fabric_manager) if name]
    names = ours + [
        n for n in facts.packages if n.startswith(("nvidia-driver-", "nvidia-fabricmanager", "cuda-drivers"))
    ]
    there = sorted({name for name in names if name in facts.packages or name == driver.package})
    loose = [name for name in there if name not in facts.held and (name in facts.packages or not facts.running)]
    if loose:
        plan.steps.append(Step(kind="hold", name=f"Hold {', '.join(loose)}", packages=tuple(loose)))
    if "unattended-upgrades" in facts.packages:
        text = 'Unattended-Upgrade::Package-Blacklist { "nvidia-"; "libnvidia-"; "cuda-drivers"; };\n'
        plan.file(UNATTENDED, text, "Keep unattended upgrades away from the driver")


def _gpus(plan: _Plan, units: dict[str, str]) -> None:
    """What stands between the driver and a container: CDI, device links, persistence, the fabric manager."""
    facts, driver = plan.facts, plan.host.driver
    if not plan.node.gpus.count or facts.driver is None:
        return
    if plan.node.runtime == "podman":
        plan.file(CDI_UNIT, units[CDI_UNIT], "Refresh the CDI specification at boot, after a change of the driver")
        if facts.enabled.get("vllm-fleet-cdi") != "enabled":
            unit = ("vllm-fleet-cdi.service",)
            plan.steps.append(Step(kind="unit", name="Enable the CDI refresh at boot", packages=unit, mode="enable"))
        if facts.cdi is None or (facts.cdi_driver is not None and facts.cdi_driver != facts.driver):
            why = (
                "there is none" if facts.cdi is None else f"it is for {facts.cdi_driver}, the driver is {facts.driver}"
            )
            plan.command(f"Generate the CDI specification ({why})", "sh", "-c", _CDI_COMMAND)
    elif not facts.docker_knows_nvidia:
        plan.command("Let docker know the NVIDIA runtime", "nvidia-ctk", "runtime", "configure", "--runtime=docker")
        plan.steps.append(Step(kind="unit", name="Restart docker", packages=("docker.service",), mode="restart"))
    if facts.without_char_link:
        words = ("nvidia-ctk", "system", "create-dev-char-symlinks", "--create-all")
        plan.command(f"Make the links of /dev/char ({', '.join(facts.without_char_link)} had none)", *words)
    if driver.persistence and facts.persistence is False:
        if "nvidia-persistenced" in facts.enabled:
            plan.steps.append(
                Step(kind="unit", name="Keep the driver loaded", packages=("nvidia-persistenced.service",))
            )
        else:
            plan.command("Keep the driver loaded", "nvidia-smi", "-pm", "1")
    if facts.nvswitch and facts.units.get("nvidia-fabricmanager") != "active":
        if "nv-fabricmanager" not in facts.programs and driver.fabric_manager is None:
            remedy = "declare host.driver.fabric_manager, of the driver's own version"
            plan.refused.append(
                Refusal(want="the fabric manager on a machine with NVSwitch", got="none", remedy=remedy)
            )
            return
        if "nv-fabricmanager" not in facts.programs and driver.fabric_manager is not None:
            package = (driver.fabric_manager,)
            plan.steps.append(Step(kind="install", name="Install the fabric manager", packages=package))
        plan.steps.append(Step(kind="unit", name="Run the fabric manager", packages=("nvidia-fabricmanager.service",)))


_CDI_COMMAND = (
    f"mkdir -p /etc/cdi && nvidia-ctk cdi generate --format=yaml --output=/etc/cdi/.nvidia.yaml.new >/dev/null "
    f"&& mv -f /etc/cdi/.nvidia.yaml.new {CDI}"
)


def _limits(plan: _Plan, files: dict[str, str]) -> None:
    plan.file(LIMITS, files[LIMITS], "Set the limits of logins")
    if SYSCTL not in files:
        return
    changed = plan.file(SYSCTL, files[SYSCTL], "Set what the kernel is to be")
    others = {n: v for n, v in sysctl_settings(plan.host).items() if plan.facts.sysctl.get(n) != " ".join(v.split())}
    if changed or others:
        told = ", ".join(
            f"{name}: {plan.facts.sysctl.get(name, 'unknown')} -> {value}" for name, value in others.items()
        )
        plan.command(f"Load the kernel's settings{f' ({told})' if told else ''}", "sysctl", "--load", SYSCTL)


def managed_paths(host: HostDeclaration, files: Iterable[str]) -> tuple[str, ...]:
    """What the look must read: every whole file, and the folders."""
    return (*sorted({*files, UNATTENDED, CDI_UNIT}), *host.folders)
