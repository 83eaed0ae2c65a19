"""Does the driver answer, and what has it complained of since the node booted?"""

import re

from fleet.gate import gate
from fleet.known import Undecidable, facts_of
from fleet.node import Xid
from fleet.plan import NodeView
from fleet.verdict import Finding

_ANSWERS = (
    (r"driver/library version mismatch", "the module that is loaded and the library differ", "reboot {node}"),
    (r"couldn't communicate", "no driver is loaded", "load the driver (modprobe nvidia) or reboot {node}"),
    (r"no devices were found", "the driver sees no GPU", "see dmesg on {node}; reboot it"),
    (r"insufficient permissions", "no permission for /dev/nvidia*", "see the device nodes of {node}"),
    (
        r"shared library couldn't be found|not found|no such file",
        "no driver is installed",
        "install the driver on {node}",
    ),
    (r"did not end", "nvidia-smi hangs, as it does on a GPU that is gone", "reboot {node}"),
)
"""What nvidia-smi says in place of an answer, what that means, what helps."""


@gate("driver", reads="nvidia-smi", remedy="see nvidia-smi on {node}", needs_facts=True)
def driver(view: NodeView) -> Finding | None:
    """The driver answers, and tells one version for all GPUs."""
    nvidia, want = facts_of(view).nvidia, "a driver that answers"
    if nvidia.driver is not None or (view.node.gpus.count == 0 and not nvidia.gpus):
        return None
    said = "; ".join((nvidia.error or "no version").splitlines())
    for pattern, meaning, remedy in _ANSWERS:
        if re.search(pattern, said, re.IGNORECASE):
            return Finding(want=want, got=meaning, because=said, remedy=remedy)
    return Finding(want=want, got=said)


APPLICATION = {
    13: "an exception in a program",
    31: "a program's access to memory that is not there",
    32: "a damaged command of a program",
    38: "firmware error of a program's work",
    43: "a program's channel was stopped",
    45: "work was cleaned up after an error",
    63: "a row of memory was marked for replacement",
    68: "video decoder exception",
    69: "an exception in a program",
    92: "many corrected memory errors",
    94: "a memory error that stayed within one program",
    109: "a program's context switch took too long",
    121: "a corrected error between CPU and GPU",
}
"""Xids after which a GPU goes on working (NVIDIA, Xid Errors). Any other one, known or not, blocks."""
BROKEN = {
    46: "the GPU stopped",
    48: "an uncorrectable memory error",
    62: "the GPU's own controller halted",
    64: "a row of memory could not be replaced",
    74: "an NVLink error",
    79: "the GPU has fallen off the bus",
    95: "a memory error that no program could contain",
    119: "the GPU's system processor does not answer",
    120: "the GPU's system processor failed",
    140: "unrecovered memory errors",
    143: "the GPU could not be initialised",
    154: "the driver asks for a reset or reboot",
}


@gate(
    "xid",
    reads="dmesg (a deep look: the journal too)",
    severity="fail or warn",
    remedy="reset the GPU or reboot {node}; waive it where the GPU was reset since",
    needs_facts=True,
)
def xid(view: NodeView) -> list[Finding]:
    """Since boot the driver logged no error (Xid) after which a GPU must be reset. Those of programs: a warning."""
    log = facts_of(view).kernel_log
    if view.node.gpus.count == 0 and not facts_of(view).nvidia.gpus:
        return []
    if log.error is not None:
        raise Undecidable("the kernel's log", log.error, "see dmesg on {node}")
    return [_told(one, view) for one in log.xids]


def _told(one: Xid, view: NodeView) -> Finding:
    of = next((g for g in facts_of(view).nvidia.gpus if (g.bus_id or "").lower().find(one.bus) >= 0), None)
    where = f"GPU {of.index}" if of else f"PCI {one.bus}"
    meaning = APPLICATION.get(one.code) or BROKEN.get(one.code) or "not known here"
    got = f"Xid {one.code} of {where}: {meaning}"
    return Finding(want="no Xid since boot", got=got, because=one.text, warning=one.code in APPLICATION)
