"""`nvidia-smi nvlink -s`: which NVLink ports of each GPU are up."""

import re

from facts.parse.frames import Section
from facts.parse.refusal import quoted
from fleet.nodes.nvidia import Nvlinks

_GPU = re.compile(r"GPU ([0-9]{1,4}): .+")
_PORT = re.compile(r"\s+Link ([0-9]{1,3}): (?:<(inactive)>|[0-9.]+ [GM]B/s)", re.IGNORECASE)
_NO_PORTS = re.compile(
    r"device does not have or support nvlink|all links are inactive|not supported for devices in mig mode",
    re.IGNORECASE,
)


def parse_nvlinks(section: Section) -> tuple[tuple[Nvlinks, ...], str | None]:
    """The ports of each GPU in the order printed, and the reason (then no GPU) where the text is not understood."""
    if section.failure:
        return (), f"nvidia-smi nvlink -s: {section.failure}"
    found: dict[int, Nvlinks] = {}
    current: int | None = None
    for line in section.text.splitlines():
        if not line.strip():
            continue
        if (match := _GPU.fullmatch(line.strip())) and int(match[1]) not in found:
            current = int(match[1])
            found[current] = Nvlinks(gpu=current)
        elif current is None or not (changed := _with_line(found[current], line)):
            return (), f"nvidia-smi nvlink -s: want GPUs with their links, found {quoted(line)}"
        else:
            found[current] = changed
    silent = [links.gpu for links in found.values() if not links.up and not links.down and links.said is None]
    if silent or not found:
        return (), f"nvidia-smi nvlink -s: nothing about the links of GPU {', '.join(map(str, silent)) or '0'}"
    return tuple(found.values()), None


def _with_line(links: Nvlinks, line: str) -> Nvlinks | None:
    if (match := _PORT.fullmatch(line.rstrip())) and int(match[1]) not in (*links.up, *links.down):
        side = "down" if match[2] else "up"
        return links.model_copy(update={side: (*getattr(links, side), int(match[1]))})
    return links.model_copy(update={"said": line.strip()}) if _NO_PORTS.search(line) else None
