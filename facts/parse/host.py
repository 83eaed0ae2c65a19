"""The section `host`: what machine this is, and who holds its lock."""

import re
from typing import Any

from facts.parse.frames import ProbeError, Section
from facts.parse.numa import CpuListError, parse_cpu_list
from facts.parse.refusal import quoted
from fleet.nodes.node import Lock
from fleet.releases.places import STATE


def read_host(section: Section) -> dict[str, Any]:
    """The fields of NodeFacts about the machine itself. ProbeError without host name and clock, or with an odd lock."""
    told = dict(line.partition("=")[::2] for line in section.text.splitlines() if "=" in line)
    if not told.get("hostname") or not re.fullmatch(r"[0-9]{1,12}", told.get("now", "")):
        raise ProbeError(f"want the node's name and clock, found {quoted(section.text)}")
    try:
        cpus = told["cpus_online"] if parse_cpu_list(told.get("cpus_online", "")) else None
    except CpuListError:
        cpus = None
    memory = told.get("memory_kib", "")
    return {
        "hostname": told["hostname"],
        "now": int(told["now"]),
        "boot_id": told.get("boot_id"),
        "os": told["os"].strip("\"'") if "os" in told else None,
        "kernel": told.get("kernel"),
        "cpus_online": cpus,
        "memory_bytes": int(memory) * 1024 if re.fullmatch(r"[0-9]{1,15}", memory) else None,
        "lock": _lock(told.get("lock")),
    }


def _lock(value: str | None) -> Lock | None:
    if value is None:
        return None
    match = re.fullmatch(r"([^\t]+)\t([0-9]{1,12})\t([0-9]{1,12})\t([^\t]+)", value)
    if not match:
        raise ProbeError(
            f"{STATE}/lock: want `HOLDER SINCE EXPIRES RUN`, found {quoted(value)}; remove it if nobody rolls"
        )
    return Lock(holder=match[1], since=int(match[2]), expires=int(match[3]), run=match[4])
