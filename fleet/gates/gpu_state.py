"""Is each GPU in the state that an engine needs: no error pending, not cut into parts, not slowed down, not in use?

A GPU that prints an error in place of a value is for gpu-healthy; what it does tell is judged here.
"""

import re
from collections.abc import Iterator

from fleet.gate import gate
from fleet.known import Undecidable, facts_of, gpus_of, layout_of
from fleet.nodes.node import BUSY_MIB
from fleet.nodes.nvidia import Gpu, GpuProcess
from fleet.plan import NodeView, Plan
from fleet.releases.command import unit_name
from fleet.verdict import Finding

NOT_THERE = ("N/A", "[N/A]", "[Not Supported]", "")
"""This kind of GPU has no such thing."""
_RECOVERY_SINCE = 580
"""Drivers from here on certainly tell gpu_recovery_action."""


def _cells(view: NodeView, field: str) -> Iterator[tuple[Gpu, str]]:
    """Each GPU with what it tells of this field. Raises Undecidable where the driver does not know the field."""
    nvidia, gpus = facts_of(view).nvidia, gpus_of(view)
    if gpus and field in nvidia.missing_fields:
        raise Undecidable(f"{field} of each GPU", f"a driver ({nvidia.driver}) that has no such field")
    for gpu in gpus:
        cell = gpu.told.get(field)
        if cell is not None and cell not in NOT_THERE:
            yield gpu, cell
        elif cell is None and gpu.problem is None:
            raise Undecidable(f"{field} of GPU {gpu.index}", "nothing")


def _one_of(view: NodeView, field: str, good: tuple[str, ...], warning: bool = False) -> list[Finding]:
    """A finding for each GPU whose field says anything else."""
    return [
        Finding(want=f"{field} {' or '.join(good)}", got=f"{cell} on GPU {gpu.index}", warning=warning)
        for gpu, cell in _cells(view, field)
        if cell not in good
    ]


@gate("row-remap", reads="nvidia-smi", remedy="drain {node} and reset the GPU, or reboot", needs_facts=True)
def row_remap(view: NodeView) -> list[Finding]:
    """No GPU waits for a reset to replace a broken row or page of its memory; until then it may fail again."""
    return _one_of(view, "remapped_rows.pending", ("No",)) + _one_of(view, "retired_pages.pending", ("No",))


@gate("gpu-recovery", reads="nvidia-smi", remedy="do to the GPU of {node} what its driver asks for", needs_facts=True)
def gpu_recovery(view: NodeView) -> list[Finding]:
    """The driver asks for no reset, reboot or drain of a GPU (gpu_recovery_action)."""
    nvidia = facts_of(view).nvidia
    major = re.match(r"[0-9]{1,6}", nvidia.driver or "")
    if "gpu_recovery_action" in nvidia.missing_fields and major and int(major[0]) < _RECOVERY_SINCE:
        return []  # older than the field
    return _one_of(view, "gpu_recovery_action", ("None",))


@gate(
    "mig", reads="nvidia-smi", remedy="turn MIG off (nvidia-smi -mig 0) and reset the GPU on {node}", needs_facts=True
)
def mig(view: NodeView) -> list[Finding]:
    """No GPU is in MIG mode, nor will be after its next reset: an engine is given whole GPUs."""
    findings = []
    for gpu in gpus_of(view):
        if gpu.mig not in (None, "Disabled", *NOT_THERE):
            findings.append(Finding(want="MIG off", got=f"{gpu.mig} on GPU {gpu.index}"))
    return findings or _one_of(view, "mig.mode.pending", ("Disabled",))


@gate(
    "persistence",
    reads="nvidia-smi",
    severity="warn",
    remedy="enable nvidia-persistenced on {node} (or nvidia-smi -pm 1)",
    needs_facts=True,
)
def persistence(view: NodeView) -> list[Finding]:
    """Persistence mode is on: else the driver lets go of idle GPUs, and each start and each look waits for it."""
    return _one_of(view, "persistence_mode", ("Enabled",), warning=True)


@gate(
    "power-limit",
    reads="nvidia-smi",
    severity="warn",
    remedy="set the limit back (nvidia-smi -pl) on {node}, or find out who lowered it",
    needs_facts=True,
)
def power_limit(view: NodeView) -> list[Finding]:
    """No GPU's enforced power limit is below its default."""
    usual = {gpu.index: _watts(cell) for gpu, cell in _cells(view, "power.default_limit")}
    return [
        Finding(want=f"at least {least:g} W", got=f"{watts:g} W on GPU {gpu.index}", warning=True)
        for gpu, cell in _cells(view, "enforced.power.limit")
        if (least := usual.get(gpu.index)) is not None and (watts := _watts(cell)) < least
    ]


def _watts(cell: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,4})?", cell):
        raise Undecidable("a power limit in watts", cell)
    return float(cell)


SLOW = {0x8: "HW slowdown", 0x40: "HW thermal slowdown", 0x80: "HW power brake"}
"""Bits of clocks_event_reasons.active: the hardware protects itself (NVML, nvmlClocksEventReason*)."""
CAPPED = {0x2: "application clocks set", 0x20: "SW thermal slowdown"}


@gate(
    "clocks",
    reads="nvidia-smi",
    severity="fail or warn",
    remedy="see cooling and power of {node}; nvidia-smi -rac takes set clocks back",
    needs_facts=True,
)
def clocks(view: NodeView) -> list[Finding]:
    """No GPU is slowed down by its hardware. By software (heat, clocks that somebody set): a warning."""
    findings = []
    for gpu, cell in _cells(view, "clocks_event_reasons.active"):
        if not re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", cell):
            raise Undecidable("reasons for the clocks as a hexadecimal number", f"{cell} on GPU {gpu.index}")
        bits = int(cell, 16)
        slow = [text for bit, text in SLOW.items() if bits & bit]
        soft = [text for bit, text in CAPPED.items() if bits & bit]
        if slow or soft:
            got = f"{', '.join(slow + soft)} on GPU {gpu.index}"
            findings.append(Finding(want="clocks as the load wants them", got=got, warning=not slow))
    return findings


@gate(
    "pcie-link",
    reads="nvidia-smi",
    severity="warn",
    remedy="reseat the GPU or its riser on {node}, and see its firmware settings",
    needs_facts=True,
)
def pcie_link(view: NodeView) -> list[Finding]:
    """Each GPU has the PCIe width that it can have, and the generation while it is not idle (P0 to P2)."""
    state = {gpu.index: cell for gpu, cell in _cells(view, "pstate")}
    findings = []
    for what, field in (("lanes", "pcie.link.width"), ("PCIe generation", "pcie.link.gen")):
        most = {gpu.index: _whole(cell, field) for gpu, cell in _cells(view, f"{field}.max")}
        for gpu, cell in _cells(view, f"{field}.current"):
            want, found = most.get(gpu.index), _whole(cell, field)
            idle = field == "pcie.link.gen" and state.get(gpu.index) not in ("P0", "P1", "P2")
            if want is not None and found < want and not idle:
                findings.append(Finding(want=f"{what} {want}", got=f"{found} on GPU {gpu.index}", warning=True))
    return findings


def _whole(cell: str, field: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", cell):
        raise Undecidable(f"{field} as a number", cell)
    return int(cell)


def _holder(process: GpuProcess) -> str:
    memory = f"{process.memory_mib} MiB" if process.memory_mib is not None else "memory of unknown size"
    return f"{memory} by {process.name}, pid {process.pid}, {process.unit or 'no unit'}"


@gate(
    "gpu-free", reads="nvidia-smi, /proc/PID/cgroup", remedy="stop it, or give {service} other GPUs", needs_facts=True
)
def gpu_free(plan: Plan) -> list[Finding]:
    """Nobody holds memory of the service's GPUs but its own unit."""
    nvidia, own = facts_of(plan).nvidia, unit_name(plan.service.name)
    used = set(layout_of(plan).device_order)
    findings = []
    for gpu in gpus_of(plan):
        if gpu.index not in used or gpu.problem is not None:
            continue
        if gpu.memory_used_mib is None:
            raise Undecidable(f"the memory in use of GPU {gpu.index}", "nothing")
        if gpu.memory_used_mib <= BUSY_MIB:
            continue
        holders = [process for process in nvidia.processes if process.bus_id == gpu.bus_id]
        strangers = [_holder(process) for process in holders if process.unit != own]
        if holders and not strangers:
            continue
        got = "; ".join(strangers) or f"{gpu.memory_used_mib} MiB held by nobody that nvidia-smi names"
        findings.append(Finding(want=f"GPU {gpu.index} free or held by {own}", got=got))
    return findings


@gate(
    "gpus-alike", reads="nvidia-smi", remedy="give {service} GPUs of one kind: gpus or device_order", needs_facts=True
)
def gpus_alike(plan: Plan) -> Finding | None:
    """All GPUs of one instance are of one model with one size of memory."""
    used = set(layout_of(plan).device_order)
    kinds: dict[str, list[str]] = {}
    for gpu in gpus_of(plan):
        if gpu.index in used and (gpu.name is not None or gpu.problem is None):  # else gpu-model says so
            kinds.setdefault(f"{gpu.name or 'no name'} {gpu.memory_mib or '?'} MiB", []).append(str(gpu.index))
    if len(kinds) < 2:
        return None
    return Finding(want="one kind of GPU", got="; ".join(f"{k} on GPU {', '.join(v)}" for k, v in kinds.items()))
