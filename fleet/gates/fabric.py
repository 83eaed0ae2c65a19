"""Is the NVLink switch's fabric up, and does its manager live and fit the driver?"""

import re

from fleet.gate import gate
from fleet.gates.gpu_state import NOT_THERE
from fleet.gates.links import deep_of
from fleet.known import Undecidable, facts_of, gpus_of, machine_of
from fleet.plan import NodeView
from fleet.verdict import Finding


@gate(
    "fabric",
    reads="nvidia-smi (fabric.state)",
    remedy="start nvidia-fabricmanager on {node}, in the driver's version; CUDA fails with error 802 until it is ready",
    needs_facts=True,
)
def fabric(view: NodeView) -> list[Finding]:
    """Behind an NVLink switch the fabric is ready: GPUs that tell of one say Completed, Success."""
    nvidia, findings = facts_of(view).nvidia, []
    for gpu in gpus_of(view):
        state, status = gpu.told.get("fabric.state"), gpu.told.get("fabric.status")
        if state is None and gpu.problem is None and "fabric.state" not in nvidia.missing_fields:
            raise Undecidable(f"fabric.state of GPU {gpu.index}", "nothing")
        if state is None or state in (*NOT_THERE, "Not Supported"):
            continue
        if (state, status) != ("Completed", "Success"):
            findings.append(Finding(want="fabric Completed, Success", got=f"{state}, {status} on GPU {gpu.index}"))
    return findings


@gate(
    "fabric-manager",
    reads="/proc/driver/nvidia-nvswitch, /run/nvidia-fabricmanager",
    remedy="start it on {node} (systemctl enable --now nvidia-fabricmanager), in the driver's version",
    needs_facts=True,
)
def fabric_manager(view: NodeView) -> Finding | None:
    """A machine whose driver has NVSwitches runs a fabric manager. One whose switches another system has needs none.

    `fabric` says what the GPUs see of it; GPUs stay Completed for a while after it died, and no new one joins.
    """
    machine = machine_of(view)
    if machine.nvswitches == 0 or machine.fabric_manager:
        return None
    return Finding(want=f"a fabric manager for {machine.nvswitches} NVSwitches", got="none that is alive")


_VERSION = re.compile(r"\b([0-9]{3,4}(?:\.[0-9]{1,4}){1,3})\b")


@gate(
    "fabric-version",
    reads="nv-fabricmanager --version, nvidia-smi",
    remedy="install nvidia-fabricmanager of the driver's version on {node}; any other does not start",
    deep=True,
)
def fabric_version(view: NodeView) -> Finding | None:
    """On a machine with NVSwitches the fabric manager has the version of the driver, to the last digit."""
    if machine_of(view).nvswitches == 0:
        return None
    deep, want = deep_of(view), "the fabric manager's version"
    said = deep.versions.get("nv-fabricmanager")
    if said is None:
        raise Undecidable(want, deep.versions_error or "no program nv-fabricmanager")
    match, driver = _VERSION.search(said), facts_of(view).nvidia.driver
    if match is None or driver is None:
        raise Undecidable(f"{want} and the driver's", f"{said}; driver {driver or 'unknown'}")
    return None if match[1] == driver else Finding(want=f"version {driver}, as the driver", got=match[1])
