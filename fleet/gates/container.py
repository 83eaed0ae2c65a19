"""Does a container get its memory, its limits and its files, and is nobody else in its place?"""

import json

from fleet.gate import gate
from fleet.known import Undecidable, facts_of, machine_of, told
from fleet.nodes.machine import SYS_RESOURCE, Limit, Machine
from fleet.nodes.node import Installed
from fleet.plan import NodeView, Plan
from fleet.releases.command import unit_name
from fleet.releases.release import PLAN
from fleet.verdict import Finding

GIB = 2**30


@gate("shm-size", reads="shm_gib, runtime_flags, /proc/meminfo", remedy="lower shm_gib of {service}", needs_facts=True)
def shm_size(plan: Plan) -> Finding | None:
    """The shared memory of the container is set once, by shm_gib, and fits the node's memory."""
    other = [flag for flag in plan.node.runtime_flags if flag.startswith(("--shm-size", "--ipc"))]
    if other:
        remedy = "take it out of runtime_flags of {node}"
        return Finding(want="shm_gib alone", got=f"{' '.join(other)} in runtime_flags", remedy=remedy)
    memory = told(facts_of(plan).memory_bytes, "the node's memory")
    if plan.service.shm_gib * GIB <= memory:
        return None
    return Finding(want=f"at most {memory / GIB:.0f} GiB, the node's memory", got=f"shm_gib: {plan.service.shm_gib}")


LEAST_FILES = 16384
"""A tensor-parallel engine was seen to die at 1024 open files (PyTorch 137695); NCCL and shards take many per rank."""


def _reaches(limit: Limit | None, machine: Machine, least: int | None) -> bool:
    """May a unit have that much? systemd raises a hard limit only with CAP_SYS_RESOURCE. `least` None: unlimited."""
    hard = told(limit, "limits of PID 1").hard
    if told(machine.capabilities, "capabilities of PID 1") & SYS_RESOURCE or hard is None:
        return True
    return least is not None and hard >= least


@gate(
    "limits",
    reads="/proc/1/limits, /proc/1/status, fs.nr_open",
    remedy="raise the limit on {node} (DefaultLimitNOFILE=, DefaultLimitMEMLOCK=, fs.nr_open)",
    needs_facts=True,
)
def limits(view: NodeView) -> list[Finding]:
    """A unit may open enough files. Where GPUDirect RDMA is wanted (peermem) it may also lock all memory.

    CUDA's own pinned memory is not counted as locked.
    """
    machine, findings = machine_of(view), []
    kernel = told(machine.nr_open, "fs.nr_open")
    most = machine.open_files.hard if machine.open_files else None
    if kernel < LEAST_FILES or not _reaches(machine.open_files, machine, LEAST_FILES):
        got = str(min(kernel, most or kernel))
        findings.append(Finding(want=f"at least {LEAST_FILES} open files", got=got))
    if view.node.peermem and not _reaches(machine.locked_memory, machine, None):
        got = f"at most {machine.locked_memory.hard if machine.locked_memory else 'unknown'} bytes"
        findings.append(Finding(want="unlimited locked memory for peermem", got=got))
    return findings


@gate(
    "mounts",
    reads="mounts of the service",
    remedy="make it on {node}, or correct mounts of {service}",
    needs_facts=True,
)
def mounts(plan: Plan) -> list[Finding]:
    """The source of each declared mount is on the node: the runtime would refuse to start, or make an empty folder."""
    there, findings = facts_of(plan).sources, []
    for mount in plan.service.mounts:
        if mount.source not in there:
            said = facts_of(plan).sources_error or "nothing"
            raise Undecidable(f"whether {mount.source} is there", said, "see {node}")
        if not there[mount.source]:
            findings.append(Finding(want=f"{mount.source} on the node", got="no such file or folder"))
    return findings


@gate(
    "undeclared-service",
    reads="/var/lib/vllm-fleet, systemctl show, plan.json",
    severity="fail or warn",
    remedy="take it away (--data prune=true), declare it, or stop it",
    needs_facts=True,
)
def undeclared_service(view: NodeView) -> list[Finding]:
    """No service that is no longer declared runs on GPUs of one that is. One that runs on others: a warning."""
    declared = {service.name for service in view.placement.services}
    facts, findings = facts_of(view), []
    if facts.services_error is not None:
        raise Undecidable("the services that lie on the node", facts.services_error)
    for lies in facts.services:
        if lies.name in declared or lies.unit is None or lies.unit.active in ("inactive", "failed"):
            continue
        taken, wanted = _gpus_of(lies), _wanted(view)
        shared = sorted(wanted if taken is None else wanted & taken)
        got = f"{unit_name(lies.name)} is {lies.unit.active}"
        text = f"{got} on GPU {', '.join(map(str, shared))}" if shared else got
        findings.append(Finding(want="only declared services", got=text, warning=not shared))
    return findings


def _wanted(view: NodeView) -> set[int]:
    """GPUs that the declared services may use."""
    everything = range(view.node.gpus.count)
    return {gpu for service in view.placement.services for gpu in service.gpus or everything}


def _gpus_of(lies: Installed) -> set[int] | None:
    """GPUs of the release that is current, from its plan.json; None where that does not tell: then it may be any."""
    text = next((own.text for own in lies.files if own.path.rpartition("/")[2] == PLAN), None)
    try:
        document = json.loads(text or "")
        return {int(gpu) for gpu in document["layout"]["device_order"]}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
