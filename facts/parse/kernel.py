"""The driver's errors in the kernel's log: `NVRM: Xid (PCI:0000:9b:00): 119, ...` lines of dmesg and the journal."""

import re

from facts.parse.frames import Section
from facts.parse.refusal import quoted
from fleet.nodes.nvidia import KernelLog, Xid

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2})?)[^)]*\): ([0-9]{1,6})\b")
_PREFIX = re.compile(r"^(?:\[[^\]]*\]\s*|\S+ kernel: )")
_LONGEST = 300


def parse_kernel(section: Section) -> KernelLog:
    """Each GPU and code once, by the first line that told of it, in the order of the log.

    The section holds lines with `Xid` in them, and `cut` where the log no longer reaches back to the boot. A line with
    an Xid that is not of the known form is an error: it may be one that matters.
    """
    if section.failure:
        return KernelLog(whole=False, error=section.failure)
    xids: dict[tuple[str, int], Xid] = {}
    whole = True
    odd = []
    for line in section.text.splitlines():
        if line == "cut":
            whole = False
        elif match := _XID.search(line):
            bus, code = match[1].lower(), int(match[2])
            xids.setdefault((bus, code), Xid(bus=bus, code=code, text=_PREFIX.sub("", line.strip())[:_LONGEST]))
        elif line.strip():
            odd.append(line)
    error = f"want lines `NVRM: Xid (PCI:BUS): CODE`, found {quoted(odd[0])}" if odd else None
    return KernelLog(xids=tuple(xids.values()), whole=whole, error=error)
