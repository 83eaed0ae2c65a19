"""Does the driver answer, and what has it complained of since the node booted?"""

import re

from fleet.gate import gate
from fleet.known import Undecidable, facts_of
from fleet.nodes.nvidia import Xid
from fleet.plan import NodeView, Plan
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


CUDA = {
    525: "12.0",
    530: "12.1",
    535: "12.2",
    545: "12.3",
    550: "12.4",
    555: "12.5",
    560: "12.6",
    565: "12.7",
    570: "12.8",
    575: "12.9",
    580: "13.0",
    590: "13.1",
    595: "13.2",
    610: "13.3",
}
"""Branch of a driver -> the CUDA version that came with it, as its nvidia-smi prints it."""
LEAST = {11: 450, 12: 525, 13: 580}
"""Major version of CUDA -> the oldest branch on which any of its minor versions runs (NVIDIA, CUDA Compatibility)."""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@gate(
    "cuda",
    reads="CUDA_VERSION of the image, nvidia-smi",
    severity="fail or warn",
    remedy="update the driver of {node}, or use an image for an older CUDA",
    needs_facts=True,
)
def cuda(plan: Plan) -> Finding | None:
    """The driver is new enough for the image's CUDA. Older within its major version (no new PTX): a warning.

    A data-centre GPU may also run it by an image's cuda-compat; waive it where that is known.
    """
    facts, image = facts_of(plan), plan.service.image
    held = next((one for one in facts.runtime.images if one.digest == image.digest), None)
    if held is None:
        raise Undecidable("the image's CUDA version", facts.runtime.error or "no such image on the node")
    branch = re.match(r"[0-9]{3,4}(?=\.)", facts.nvidia.driver or "")
    if held.cuda is None:
        return Finding(want="an image that says its CUDA version", got="no CUDA_VERSION in it", warning=True)
    if branch is None:
        raise Undecidable("the driver's version", facts.nvidia.driver or "nothing", "see nvidia-smi on {node}")
    major = _numbers(held.cuda)[0]
    if major not in LEAST:
        raise Undecidable(f"a CUDA version known here ({', '.join(map(str, LEAST))})", held.cuda)
    got = f"driver {facts.nvidia.driver}"
    if int(branch[0]) < LEAST[major]:
        return Finding(want=f"driver {LEAST[major]} or later for CUDA {held.cuda}", got=got)
    newest = max((_numbers(CUDA[known]) for known in CUDA if known <= int(branch[0])), default=(0,))
    if _numbers(held.cuda)[:2] <= newest:
        return None
    want = f"a driver that brings CUDA {held.cuda}"
    return Finding(want=want, got=f"{got}, which brings {'.'.join(map(str, newest))}", warning=True)


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
