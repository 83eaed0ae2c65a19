"""The GPUs that a lab host shows: recordings of nvidia-smi, and the faults that can be put over them.

A recording is a folder under lab/recordings/: what each command prints, and declared.yaml, what an owner would
declare of such a node. A new kind of node is a new folder. lab/layer/usr/bin/nvidia-smi replays them.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from lab import host

RECORDINGS = Path(__file__).parent / "recordings"

# Fault -> form of its argument ("" for none), and what it does, for the help text.
FAULTS = {
    "gpu-lost": (r"\d+", "gpu-lost:3: that GPU fell off the bus; nvidia-smi ends with 15"),
    "gpu-reset": (r"\d+", "gpu-reset:2: that GPU requires a reset; its live figures are errors"),
    "ecc": (r"\d+", "ecc:1: that GPU has uncorrected ECC errors and a failed row remap"),
    "mig": (r"\d+", "mig:0: that GPU is in MIG mode"),
    "remap-pending": (r"\d+", "remap-pending:1: that GPU needs a reset to remap a row"),
    "persistence-off": ("", "persistence-off: persistence mode is off"),
    "power-capped": (r"\d+", "power-capped:2: that GPU's power limit is below its default"),
    "throttled": (r"\d+", "throttled:2: that GPU is slowed down by its temperature"),
    "pcie-narrow": (r"\d+", "pcie-narrow:5: that GPU has 8 PCIe lanes of 16"),
    "foreign": (r"\d+", "foreign:2: a process that is not ours holds memory of that GPU"),
    "xid": (r"\d+-\d+", "xid:3-119: the kernel's log has that Xid of GPU 3"),
    "nvlink-missing": (r"\d+-\d+", "nvlink-missing:0-1: no NVLink between these two GPUs"),
    "nvlink-down": (r"\d+", "nvlink-down:3: one NVLink port of that GPU is down"),
    "memory": (r"\d+", "memory:4: only 4 GiB of memory are free"),
    "p2p-off": ("", "p2p-off: the driver allows no peer access"),
    "cdi-missing": ("", "cdi-missing: there is no CDI specification"),
    "cdi-without": (r"\d+", "cdi-without:3: the CDI specification does not name that GPU"),
    "cdi-stale": ("", "cdi-stale: the CDI specification is that of the driver before"),
    "fabric-down": ("", "fabric-down: the fabric manager does not run"),
    "driver-mismatch": ("", "driver-mismatch: library and kernel module differ; nvidia-smi ends with 18"),
    "driver-gone": ("", "driver-gone: no driver is loaded; nvidia-smi ends with 9"),
    "hang": ("", "hang: nvidia-smi never answers"),
}


def recordings() -> list[str]:
    """Names of all recordings."""
    return sorted(path.parent.name for path in RECORDINGS.glob("*/declared.yaml"))


def declared(kind: str) -> dict[str, Any]:
    """What the owner of such a node declares: groups, gpus, nvlink_islands, numa, runtime."""
    if kind not in recordings():
        raise host.LabError(f"recording: wanted one of {', '.join(recordings())}, found {kind!r}")
    found: dict[str, Any] = yaml.safe_load((RECORDINGS / kind / "declared.yaml").read_text())
    return found


def check_fault(fault: str) -> str:
    """The fault itself, or LabError with the forms that exist."""
    name, _, argument = fault.partition(":")
    form = FAULTS.get(name, (None, ""))[0]
    if form is None or not re.fullmatch(form, argument):
        forms = "".join(f"\n  {text}" for _, text in FAULTS.values())
        raise host.LabError(f"fault: want one of these, found {fault!r}{forms}")
    return fault


def _refuse_absent_gpus(faults: Iterable[str], kind: str) -> None:
    """A fault of a GPU that the recording has not would show nowhere. LabError."""
    count = int(declared(kind)["gpus"]["count"])
    for fault in faults:
        name, _, argument = fault.partition(":")
        named = argument.partition("-")[0] if name == "xid" else "" if name == "memory" else argument
        absent = [gpu for gpu in re.findall(r"\d+", named) if int(gpu) >= count]
        if absent:
            raise host.LabError(f"fault: want a GPU of {kind}, which has {count} (from 0), found {fault!r}")


def faults(folder: Path) -> list[str]:
    """Faults that are set on the host with this state folder."""
    return (folder / "faults").read_text().split()


def recording(folder: Path) -> str:
    """The recording that this host replays."""
    return (folder / "recording").read_text().strip()


def set_state(folder: Path, kind: str | None = None, faults: Sequence[str] | None = None) -> None:
    """Give a host a recording, or faults (all of them at once), while it runs; None leaves what is there."""
    if kind is not None:
        declared(kind)  # LabError for an unknown one
        host.write_atomically(folder / "recording", f"{kind}\n")
    if faults is not None:
        checked = dict.fromkeys(check_fault(fault) for fault in faults)
        _refuse_absent_gpus(checked, recording(folder))
        host.write_atomically(folder / "faults", "".join(f"{fault}\n" for fault in checked))
    now = _set_faults(folder)
    _write_memory(folder / "meminfo", now)
    host.write_atomically(folder / "kernel.log", _kernel_log(recording(folder), now))
    specification = folder / "nvidia.yaml"
    if "cdi-missing" in now:
        specification.unlink(missing_ok=True)
    else:
        host.write_atomically(specification, json.dumps(_cdi(recording(folder), now), indent=1) + "\n")


def _write_memory(path: Path, faults: Sequence[str]) -> None:
    """In place: the file is bound into the host, and a new one beside it would not be."""
    free = next((int(fault.partition(":")[2]) for fault in faults if fault.startswith("memory:")), MEMORY_GIB - 32)
    sizes = {"MemTotal": MEMORY_GIB, "MemFree": free, "MemAvailable": free}
    idle = {"Buffers": 0, "Cached": 0, "SwapTotal": 0, "SwapFree": 0, "Shmem": 0, "SReclaimable": 0}
    lines = [f"{name + ':':<16}{gib * 2**20:>12} kB\n" for name, gib in {**sizes, **idle}.items()]
    pages = [f"{name + ':':<16}{0:>12}\n" for name in ("HugePages_Total", "HugePages_Free", "HugePages_Rsvd")]
    with open(path, "r+") as file:
        file.write("".join([*lines, *pages, "Hugepagesize:          2048 kB\n"]))
        file.truncate()


def _set_faults(folder: Path) -> list[str]:
    return faults(folder) if (folder / "faults").exists() else []


def _recorded_gpus(kind: str) -> list[dict[str, str]]:
    rows = [line.split(", ") for line in (RECORDINGS / kind / "gpus.csv").read_text().splitlines()]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def _kernel_log(kind: str, faults: Sequence[str]) -> str:
    """What the kernel of such a node would have logged since its boot."""
    gpus = _recorded_gpus(kind)
    lines = [
        "[    0.000000] Linux version 6.12.0 (lab)",
        f"[   11.402119] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {gpus[0]['driver_version']}",
    ]
    for fault in faults:
        if xid := re.fullmatch(r"xid:(\d+)-(\d+)", fault):
            bus = gpus[int(xid[1]) % len(gpus)]["pci.bus_id"].lower()[4:].rpartition(".")[0]
            lines.append(f"[ 8211.000001] NVRM: Xid (PCI:{bus}): {xid[2]}, pid=1, name=lab, as it was set")
    return "".join(f"{line}\n" for line in lines)


MEMORY_GIB = 1024
"""Memory of every host, as /proc/meminfo shows it; none of it is there."""
SOCKETS = 2
"""NUMA nodes of every recorded kind: half of the GPUs next to each."""


def write_machine(folder: Path) -> None:
    """What the kernel shows of the host beside its GPUs: memory, and NUMA nodes with this machine's CPUs dealt out."""
    (folder / "meminfo").touch()
    cpus = sorted(os.sched_getaffinity(0))
    half = (len(cpus) + 1) // SOCKETS
    for node, share in enumerate((cpus[:half], cpus[half:])):
        place = folder / "numa" / f"node{node}"
        place.mkdir(parents=True)
        (place / "cpulist").write_text(f"{cpu_list(share)}\n")
    (folder / "numa" / "online").write_text(f"0-{SOCKETS - 1}\n")
    (folder / "affinity").write_text(f"{cpu_list(cpus[:half])} {cpu_list(cpus[half:]) or cpu_list(cpus)}\n")


def cpu_list(cpus: Sequence[int]) -> str:
    """CPU numbers as the kernel writes them: `0-3,8`."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _cdi(kind: str, faults: Sequence[str]) -> dict[str, Any]:
    """A CDI specification like the one nvidia-ctk writes (JSON is YAML). Its devices are /dev/null in the container."""
    without = {fault.partition(":")[2] for fault in faults if fault.startswith("cdi-without:")}
    gpus = _recorded_gpus(kind)
    names = [name for name in (*map(str, range(len(gpus))), "all") if name not in without]
    devices = [
        {"name": name, "containerEdits": {"env": [f"NVIDIA_VISIBLE_DEVICES={name}"], **_nodes(name)}} for name in names
    ]
    driver = "570.86.15" if "cdi-stale" in faults else gpus[0]["driver_version"]
    edits = {"env": [f"NVIDIA_LAB_LIBRARY=libcuda.so.{driver}"]}
    return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": edits}


def _nodes(name: str) -> dict[str, Any]:
    return {"deviceNodes": [{"path": f"/dev/nvidia{name}"}]} if name.isdecimal() else {}
