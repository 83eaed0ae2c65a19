"""From a bare machine to one that passes the gates: the steps that this node still needs, decided from what it told.

A node that conforms needs none. Each step becomes one operation of pyinfra; none of them touches a running engine.
"""

import fnmatch
import re
from collections.abc import Iterable

from fleet.declaration import NodeDeclaration
from fleet.nodes.archive import Archive
from fleet.nodes.bare import SUPPORTED, MachineFacts
from fleet.nodes.driver import CDI_UNIT, NEEDRESTART, UNATTENDED, driver, gpus
from fleet.nodes.host import AptSource, HostDeclaration
from fleet.nodes.step import Bootstrap, Needs, Refusal, Step

LIMITS = "/etc/security/limits.d/90-vllm-fleet.conf"
SYSCTL = "/etc/sysctl.d/90-vllm-fleet.conf"
RUNTIME_PACKAGES = {"podman": "podman", "docker": "docker.io"}
LEAST_PODMAN = (4, 1)
"""The first that knows `--device nvidia.com/gpu=N` (CDI; NVIDIA's container toolkit, "Support for CDI")."""
OLD_PODMAN = {("ubuntu", "22.04"): "3.4.4"}
"""Systems whose own podman is older."""


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
        f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n"
        for name, version in sorted(source.pin.items())
        if name != "*"
    ]
    return "\n".join(parts)


def sysctl_settings(host: HostDeclaration) -> dict[str, str]:
    """Every kernel setting that is declared, as the kernel prints it."""
    settings = {name.replace("/", "."): str(value) for name, value in host.sysctl.items()}
    return settings | ({"vm.nr_hugepages": str(host.hugepages_2mib)} if host.hugepages_2mib else {})


def decide(
    node: NodeDeclaration,
    host: HostDeclaration,
    facts: MachineFacts,
    keys: dict[str, str],
    support: dict[str, tuple[str, str]],
    units: dict[str, str],
) -> Bootstrap:
    """What this node still needs. `keys`: source -> text of its key; `units`: our unit files by path."""
    plan = Needs(node, host, facts)
    if (facts.os_id, facts.os_version) not in SUPPORTED or not facts.systemd:
        known = ", ".join(" ".join(one) for one in sorted(SUPPORTED))
        got = f"{facts.os}{'' if facts.systemd else ' without systemd'}"
        remedy = "install one of these, or bring the node there by hand and leave it out with --limit"
        missing = _missing(plan) + ([] if host.user in (None, *facts.users) else [f"the user {host.user}"])
        missing += [path for path in host.folders if path not in facts.entries]
        notes = (f"missing there: {', '.join(missing)}",) if missing else ()
        return Bootstrap(node=node.name, refused=(Refusal(want=known, got=got, remedy=remedy),), notes=notes)
    _user_and_folders(plan)
    _sources(plan, keys)
    _packages(plan)
    driver(plan)
    gpus(plan, units)
    _limits(plan, wanted_files(host, keys, support))
    for path, (mode, text) in support.items():
        plan.file(path, text, f"Put {path} in place, with which the node undoes by itself", mode)
    if facts.enabled.get("vllm-fleet-boot") != "enabled":
        plan.steps.append(
            Step(kind="unit", name="Enable the undo at boot", packages=("vllm-fleet-boot.service",), mode="enable")
        )
    return Bootstrap(node=node.name, steps=tuple(plan.steps), refused=tuple(plan.refused), notes=tuple(plan.notes))


def _user_and_folders(plan: Needs) -> None:
    user = plan.host.user
    if user is not None and user not in plan.facts.users:
        plan.steps.append(Step(kind="user", name=f"Make the system user {user}", path=user))
    for path in plan.host.folders:
        _folder(plan, path)


def _folder(plan: Needs, path: str) -> None:
    """A link to a folder is as good as the folder, where its owner is right."""
    there, user = plan.facts.entries.get(path), plan.host.user
    owned = there is not None and (user is None or there.owner.startswith(f"{user}:"))
    if there is None or (there.kind == "directory" and not owned):
        if plan.stuck(f"a folder at {path}", path):
            return
        group = plan.facts.users.get(user, user) if user else "root"  # a new user gets a group of its own name
        name = f"Make {path}" if there is None else f"Give {path} to {user}, which belongs to {there.owner}"
        mode = "755" if there is None else there.mode
        plan.steps.append(
            Step(kind="folder", name=name, path=path, mode=mode, owner=user or "root", group=group or "root")
        )
    elif not there.kind.startswith("directory") or not owned:
        want = f"a folder at {path}{f', owned by {user}' if user else ''}"
        got = f"a {there.kind.replace('directory', 'folder')} of {there.owner}"
        remedy = "put that right by hand, or declare another folder in host.folders"
        plan.refused.append(Refusal(want=want, got=got, remedy=remedy))


def _sources(plan: Needs, keys: dict[str, str]) -> None:
    changed = False
    for name, source in plan.host.apt.items():
        path = f"/etc/apt/sources.list.d/vllm-fleet-{name}.sources"
        others = [one for one in plan.facts.archives if one.same(source.url, source.suite, plan.facts.architecture)]
        if others:
            changed |= _as_it_is_named(plan, name, source, others, path)
        else:
            key = key_path(name, keys[name])
            changed |= plan.file(key, keys[name], f"Trust the key of the packages of {name}")
            changed |= plan.file(path, source_text(source, key), f"Take packages from {name}")
        if source.pin:
            changed |= plan.file(
                f"/etc/apt/preferences.d/vllm-fleet-{name}", pin_text(source), f"Pin what comes from {name}"
            )
    if changed or _missing(plan):
        urls = (one.url.rstrip("/").replace("$(ARCH)", plan.facts.architecture) for one in plan.host.apt.values())
        plan.steps.append(Step(kind="update", name="Read the package lists", packages=tuple(urls)))


def _as_it_is_named(plan: Needs, name: str, source: AptSource, others: list[Archive], path: str) -> bool:
    """In a file of the machine's owner: beside it one that names another key would end all reading of apt."""
    files = ", ".join(dict.fromkeys(one.file for one in others))
    if lacking := set(source.components) - set().union(*(one.components for one in others)):
        want = f"{source.url} {source.suite} with {' '.join(source.components)}"
        remedy = f"add {' '.join(sorted(lacking))} there, or take that file away, and a bootstrap writes its own"
        plan.refused.append(Refusal(want=want, got=f"it without {' '.join(sorted(lacking))} in {files}", remedy=remedy))
    if path not in plan.facts.entries:
        return False
    plan.command(f"Leave {name} to {files}, which names it too", "rm", "-f", path)
    return True


def _missing(plan: Needs) -> list[str]:
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


def _podman_is_new_enough(plan: Needs) -> None:
    if plan.node.runtime != "podman" or not plan.node.gpus.count:
        return
    facts, host = plan.facts, plan.host
    want = f"podman {'.'.join(map(str, LEAST_PODMAN))} or newer, which can give a container its GPUs (CDI)"
    remedy = "declare an archive of a newer one in host.apt, or `runtime: docker` for the node"
    if "podman" in facts.programs:
        found = re.match(r"(\d+)\.(\d+)", facts.podman or "")
        if found is None or (int(found[1]), int(found[2])) < LEAST_PODMAN:
            plan.refused.append(Refusal(want=want, got=facts.podman or "one that tells no version", remedy=remedy))
    elif old := OLD_PODMAN.get((facts.os_id or "", facts.os_version or "")):
        package = host.runtime_package or RUNTIME_PACKAGES["podman"]
        others = [source.pin for source in host.apt.values()]
        if not any(not pin or package in pin or "*" in pin for pin in others):
            plan.refused.append(Refusal(want=want, got=f"{old} in the archive of {facts.os}", remedy=remedy))


def _pins(host: HostDeclaration) -> dict[str, str]:
    """Package -> the version that is declared for it, over all archives."""
    return {name: version for source in host.apt.values() for name, version in source.pin.items() if name != "*"}


def _packages(plan: Needs) -> None:
    _podman_is_new_enough(plan)
    host, facts, pins = plan.host, plan.facts, _pins(plan.host)
    if missing := _missing(plan):
        # With the version in words: a pin that no version matches would let apt take any other.
        words = tuple(f"{name}={pins[name]}" if name in pins else name for name in missing)
        plan.steps.append(Step(kind="install", name=f"Install {', '.join(words)}", packages=words))
    for name, version in sorted(pins.items()):
        there = facts.packages.get(name)
        if there is not None and not fnmatch.fnmatchcase(there, version):
            how = f"apt-get install '{name}={version}' on the node brings it, when nothing needs it for a moment"
            plan.notes.append(f"{name} {there} is installed, {version} is pinned; {how}")
    if host.clock is not None and facts.clock is None:
        plan.steps.append(Step(kind="unit", name="Keep the clock", packages=(f"{host.clock}.service",)))
    if plan.node.runtime == "docker" and facts.units.get("docker") != "active":
        plan.steps.append(Step(kind="unit", name="Run docker", packages=("docker.service",)))


def _limits(plan: Needs, files: dict[str, str]) -> None:
    plan.file(LIMITS, files[LIMITS], "Set the limits of logins")
    if SYSCTL not in files:
        return
    wanted = sysctl_settings(plan.host)
    last = {name: (file, value) for file, name, value in sorted(plan.facts.sysctl_later, key=_file_name)}
    for name, (file, value) in sorted(last.items()):
        if wanted.get(name, value) != value:
            again = f"{file} comes later and says {name} = {value}, which the next boot brings back; take that line out"
            plan.notes.append(again)
    _hugepages_fit(plan)
    changed = plan.file(SYSCTL, files[SYSCTL], "Set what the kernel is to be")
    others = {n: v for n, v in sysctl_settings(plan.host).items() if plan.facts.sysctl.get(n) != " ".join(v.split())}
    if changed or others:
        told = ", ".join(
            f"{name}: {plan.facts.sysctl.get(name, 'unknown')} -> {value}" for name, value in others.items()
        )
        plan.command(f"Load the kernel's settings{f' ({told})' if told else ''}", "sysctl", "--load", SYSCTL)


def _file_name(setting: tuple[str, str, str]) -> str:
    return setting[0].rpartition("/")[2]


def _hugepages_fit(plan: Needs) -> None:
    """The kernel takes what it gets, also what an engine needs in the next moment."""
    want, memory = plan.host.hugepages_2mib * (2 << 20), plan.facts.memory_bytes
    if memory is not None and want > memory:
        found = f"{memory / (1 << 30):.1f} GiB of memory"
        remedy = "declare fewer host.hugepages_2mib"
        plan.refused.append(Refusal(want=f"{want / (1 << 30):.1f} GiB as hugepages", got=found, remedy=remedy))


def managed_paths(host: HostDeclaration, files: Iterable[str]) -> tuple[str, ...]:
    """What the look must read: every whole file, and the folders."""
    return (*sorted({*files, UNATTENDED, NEEDRESTART, CDI_UNIT}), *host.folders)
