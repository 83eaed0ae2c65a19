"""The section `bare` -> MachineFacts."""

import base64
import re

from facts.parse.frames import ProbeError, Section, parse_frames
from facts.parse.services import parse_services
from facts.parse.stuck import stuck
from facts.script import ProbeScript
from fleet.nodes.archive import Archive, archives_in
from fleet.nodes.bare import Entry, MachineFacts

SECTIONS = ("services", "files", "units", "secrets", "bare")
_ENTRY = re.compile(
    r"([0-7]{1,4})_(\S+?:\S+?)_((?:regular|directory|symbolic|character|block|fifo|socket)[a-z_]*) (/.*)"
)
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+")


def parse_bare(text: str, script: ProbeScript) -> MachineFacts:
    """What the node told. ProbeError where it is not whole."""
    sections = parse_frames(text, script.nonce)
    section = sections.get("bare")
    if section is None or section.failure:
        raise ProbeError(f"bare: {section.failure if section else 'the node never came to it'}")
    services, error = parse_services(sections, [])
    if error:
        raise ProbeError(error)
    running = {one.name for one in services if one.unit and one.unit.active not in ("inactive", "failed")}
    return read_bare(section).model_copy(update={"running": frozenset(running)})


def read_bare(section: Section) -> MachineFacts:
    """The section alone, without what runs."""
    told: dict[str, list[str]] = {}
    for line in section.text.splitlines():
        word, _, value = line.partition(" ")
        told.setdefault(word, []).append(value)
    os = dict(line.split(" ", 1) for line in told.get("os", []) if " " in line)
    packages = dict(_package(line) for line in told.get("package", []) if line.count("|") == 2)
    driver, persistence, error = _smi(told.get("smi", []))
    sums = {path: digest for digest, _, path in (line.partition("  ") for line in told.get("content", []))}
    cdi = (told.get("cdi") or [""])[0].split()
    return MachineFacts(
        os_id=os.get("ID"),
        os_version=os.get("VERSION_ID"),
        systemd="systemd" in told,
        architecture=_first(told, "architecture") or "",
        packages=packages,
        held=frozenset(told.get("held", [])),
        programs=frozenset(told.get("program", [])),
        units=_units(told.get("unit", [])),
        enabled=_units(told.get("unitfile", [])),
        driver=driver,
        driver_error=error,
        persistence=persistence,
        module=_first(told, "module"),
        module_on_disk=_first(told, "disk"),
        cdi=cdi[0] if cdi else None,
        cdi_driver=cdi[1] if len(cdi) > 1 else None,
        nvswitch="nvswitch" in told,
        without_char_link=tuple(told.get("nochar", [])),
        docker_knows_nvidia="dockernvidia" in told,
        podman=next((match[0] for line in told.get("podman", []) if (match := _VERSION.search(line))), None),
        sysctl=dict(line.split(" ", 1) for line in told.get("sysctl", []) if " " in line),
        sysctl_later=tuple(map(_later, (line.split("\t") for line in told.get("later", []) if line.count("\t") == 2))),
        memory_bytes=_memory(_first(told, "memory")),
        users=dict(line.split(" ", 1) for line in told.get("user", []) if " " in line),
        entries=dict(_entry(match, sums) for line in told.get("entry", []) if (match := _ENTRY.fullmatch(line))),
        stuck=dict(stuck(line) for line in told.get("stuck", []) if line.count("\t") == 2),
        archives=tuple(one for line in told.get("archives", []) for one in _archives(line)),
        packaging=_first(told, "packaging"),
        gpu_processes=_processes(told),
        reboot=_first(told, "reboot"),
    )


def _first(told: dict[str, list[str]], word: str) -> str | None:
    return (told.get(word) or [None])[0] or None


def _later(words: list[str]) -> tuple[str, str, str]:
    file, name, value = words
    return file, name.strip().removeprefix("-").replace("/", "."), " ".join(value.split())


def _memory(told: str | None) -> int | None:
    match = re.fullmatch(r"MemTotal:\s+(\d+) kB", told or "")
    return int(match[1]) << 10 if match else None


def _archives(line: str) -> list[Archive]:
    data, _, file = line.partition(" ")
    try:
        return archives_in(file, base64.b64decode(data).decode(errors="replace"))
    except ValueError as error:
        raise ProbeError(f"{file}: {error}") from None


def _processes(told: dict[str, list[str]]) -> tuple[str, ...]:
    """Each process once, by nvidia-smi's name for it where it tells one."""
    by_pid: dict[str, str] = {}
    for line in (*told.get("gpuapp", []), *told.get("cudaapp", [])):
        by_pid.setdefault(line.partition(",")[0], line)
    return tuple(by_pid.values())


def _package(line: str) -> tuple[str, str]:
    _, name, version = line.split("|")
    return name, version


def _units(lines: list[str]) -> dict[str, str]:
    pairs = (line.split() for line in lines)
    return {pair[0].removesuffix(".service"): pair[1] for pair in pairs if len(pair) == 2}


def _entry(match: re.Match[str], sums: dict[str, str]) -> tuple[str, Entry]:
    mode, owner, kind, path = match.groups()
    return path, Entry(mode, owner, kind.replace("_", " "), sums.get(path))


def _smi(lines: list[str]) -> tuple[str | None, bool | None, str | None]:
    """Driver and persistence of all GPUs, or what nvidia-smi said in their place."""
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]
    good = [row for row in rows if len(row) == 2 and _VERSION.fullmatch(row[0])]
    if not rows:
        return None, None, None
    if len(good) != len(rows) or len({row[0] for row in good}) != 1:
        return None, None, "; ".join(line.strip() for line in lines)[:300]
    modes = {row[1] for row in good}
    return good[0][0], True if modes == {"Enabled"} else False if modes <= {"Enabled", "Disabled"} else None, None
