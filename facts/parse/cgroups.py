"""From a process's cgroup to the unit that it belongs to."""

import re
from collections.abc import Mapping

_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")


def unit_of(cgroup: str, containers: Mapping[str, str]) -> str | None:
    """The innermost unit of a cgroup path. A container of docker belongs to the unit that bears its name."""
    if (found := _CONTAINER_ID.search(cgroup)) and found[0] in containers:
        return f"{containers[found[0]]}.service"
    units = [part for part in cgroup.split("/") if part.endswith((".service", ".scope", ".socket"))]
    return units[-1] if units else None
