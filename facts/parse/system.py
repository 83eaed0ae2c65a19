"""The section `system` -> Machine. A line that is not understood is its error; what it would have told stays None."""

import re
from collections import defaultdict

from facts.parse.frames import Section
from facts.parse.numa import CpuListError, parse_cpu_list
from facts.parse.refusal import quoted
from fleet.nodes.machine import IommuGroup, Limit, Machine, Updates

_LIMIT = re.compile(r"Max (open files|locked memory)\s+(unlimited|[0-9]{1,20})\s+(unlimited|[0-9]{1,20})(?:\s.*)?")
_SIZE = re.compile(r"([0-9]{1,15}) kB")
_NAME = re.compile(r"[A-Za-z0-9._:/-]{1,100}")
_IOMMU = re.compile(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]) ([0-9]{1,6}) ([A-Za-z-]{1,20})")
_LABEL = re.compile(r"(\?|[A-Za-z0-9_.:,-]{3,200}) (/.*)")
_APT = re.compile(r'APT::Periodic::Unattended-Upgrade\s+"?([0-9]{1,6}|always)"?\s*;.*')


def parse_system(section: Section) -> Machine:
    """What the machine told. A section that failed, or told no limits at all, is an error."""
    if section.failure:
        return Machine(error=section.failure)
    told: defaultdict[str, list[str]] = defaultdict(list)
    for line in section.text.splitlines():
        word, _, value = line.strip().partition(" ")
        if word:
            told[word].append(value)
    odd = [f"{word} {value}" for word in told if word not in _WORDS for value in told[word]]
    if "limit" not in told:
        odd.append(section.text or "nothing")
    reading = _Reading(odd)
    machine = _machine(told, reading)
    error = f"want what the machine is, found {quoted('; '.join(odd))}" if odd else None
    return machine.model_copy(update={"error": error})


class _Reading:
    """Values by their form; what has none of it is remembered."""

    def __init__(self, odd: list[str]) -> None:
        self.odd = odd

    def matched(self, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
        """The match, or None and one odd text more."""
        match = pattern.fullmatch(text)
        if match is None:
            self.odd.append(text)
        return match

    def number(self, values: list[str], base: int = 10) -> int | None:
        """The last of these as a number."""
        if not values:
            return None
        match = self.matched(re.compile(r"[0-9]{1,20}" if base == 10 else r"[0-9a-fA-F]{1,16}"), values[-1])
        return int(match[0], base) if match else None

    def names(self, values: list[str]) -> tuple[str, ...]:
        """Each plain word, in order."""
        return tuple(match[0] for value in values if (match := self.matched(_NAME, value)))

    def flag(self, values: list[str], yes: str, no: str) -> bool | None:
        """True or False for these two words."""
        if not values:
            return None
        if values[-1] not in (yes, no):
            self.odd.append(values[-1])
            return None
        return values[-1] == yes


_WORDS = frozenset(
    (
        *("container", "nr_open", "limit", "capabilities", "cpus_allowed", "memory", "governor", "clock", "resolves"),
        *(
            "reboot",
            "modules",
            "updates",
            "selinux",
            "label",
            "device",
            "char",
            "module",
            "nvswitch",
            "fabricmanager",
            "iommu",
        ),
    )
)


def _machine(told: defaultdict[str, list[str]], reading: _Reading) -> Machine:
    limits, memory = _limits(told["limit"], reading), _memory(told["memory"], reading)
    modules = told["module"]
    version = [value.removeprefix("nvidia ") for value in modules if value.startswith("nvidia ")]
    selinux = {word: [v.partition(" ")[2] for v in told["selinux"] if v.startswith(word)] for word in _SELINUX}
    packages = [value for value in told["reboot"] if value != "required"]
    folders = [value.rpartition("/")[2] for value in told["modules"] if value != "running"]
    return Machine(
        container=next(iter(reading.names(told["container"])), None),
        nr_open=reading.number(told["nr_open"]),
        open_files=limits.get("open files"),
        locked_memory=limits.get("locked memory"),
        capabilities=reading.number(told["capabilities"], base=16),
        cpus_allowed=_cpus(told["cpus_allowed"], reading),
        governors=_governors(told["governor"], reading),
        memory_available=memory.get("MemAvailable"),
        huge_pages=memory.get("HugePages_Total"),
        huge_pages_free=memory.get("HugePages_Free"),
        huge_page_bytes=memory.get("Hugepagesize"),
        clocks=reading.names(told["clock"]),
        resolves_itself=reading.flag(told["resolves"], "yes", "no"),
        reboot_required="required" in told["reboot"],
        reboot_packages=reading.names(packages),
        module_folders=reading.names(folders),
        running_modules="running" in told["modules"],
        updates=_updates(told["updates"], reading),
        selinux_enforced=reading.flag(selinux["enforce"], "1", "0"),
        selinux_devices=reading.flag([value[:1] for value in selinux["devices"]], "1", "0"),
        labels={match[2]: match[1] for value in told["label"] if (match := reading.matched(_LABEL, value)) is not None},
        devices=reading.names(told["device"]),
        char_links=reading.names(told["char"]),
        module_version=next(iter(reading.names(version)), None),
        peermem="nvidia_peermem" in modules,
        nvswitches=len(told["nvswitch"]),
        fabric_manager=bool(told["fabricmanager"]),
        iommu=tuple(
            IommuGroup(bus=match[1], group=match[2], type=match[3])
            for value in told["iommu"]
            if (match := reading.matched(_IOMMU, value))
        ),
    )


_SELINUX = ("enforce", "devices")


def _limits(lines: list[str], reading: _Reading) -> dict[str, Limit]:
    def number(text: str) -> int | None:
        return None if text == "unlimited" else int(text)

    matches = [match for line in lines if (match := reading.matched(_LIMIT, line))]
    return {match[1]: Limit(soft=number(match[2]), hard=number(match[3])) for match in matches}


def _memory(lines: list[str], reading: _Reading) -> dict[str, int]:
    """Name -> bytes; HugePages_* are counts."""
    found = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name.startswith("HugePages_"):
            number = reading.number([value])
        else:
            match = reading.matched(_SIZE, value)
            number = int(match[1]) * 1024 if match else None
        if number is not None:
            found[name] = number
    return found


def _cpus(values: list[str], reading: _Reading) -> str | None:
    try:
        return values[-1] if values and parse_cpu_list(values[-1]) else None
    except CpuListError as error:
        reading.odd.append(str(error))
        return None


def _governors(lines: list[str], reading: _Reading) -> dict[str, int]:
    matches = [match for line in lines if (match := reading.matched(re.compile(r"([a-z_]{1,40}) ([0-9]{1,6})"), line))]
    return {match[1]: int(match[2]) for match in matches}


def _updates(lines: list[str], reading: _Reading) -> Updates:
    timers, upgrades, spares = [], None, False
    for line in lines:
        word, _, value = line.partition(" ")
        if word == "timer":
            timers += reading.names([value])
        elif word == "spare":
            spares = True
        elif word == "apt" and (match := reading.matched(_APT, value)):
            upgrades = match[1] != "0"
    return Updates(timers=tuple(timers), upgrades=upgrades, spares_driver=spares)
