"""The GPUs that a lab host shows: recordings of nvidia-smi, and the faults that can be put over them.

A recording is a folder under lab/recordings/: what each command prints, and declared.yaml, what an owner would
declare of such a node. A new kind of node is a new folder. lab/layer/usr/bin/nvidia-smi replays them.
"""

import json
import re
from collections.abc import Sequence
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
        raise host.LabError(f"fault: found {fault!r}; wanted one of " + "; ".join(text for _, text in FAULTS.values()))
    return fault


def faults(folder: Path) -> list[str]:
    """Faults that are set on the host with this state folder."""
    return (folder / "faults").read_text().split()


def recording(folder: Path) -> str:
    """The recording that this host replays."""
    return (folder / "recording").read_text().strip()


def set_state(folder: Path, kind: str | None = None, faults: Sequence[str] | None = None) -> None:
    """Give a host a recording, or faults (all of them at once), while it runs; None leaves what is there."""
    if kind is not None:
        count = declared(kind)["gpus"]["count"]
        host.write_atomically(folder / "nvidia.yaml", json.dumps(_cdi(count), indent=1) + "\n")
        host.write_atomically(folder / "recording", f"{kind}\n")
    if faults is not None:
        checked = dict.fromkeys(check_fault(fault) for fault in faults)
        host.write_atomically(folder / "faults", "".join(f"{fault}\n" for fault in checked))
    host.write_atomically(folder / "kernel.log", _kernel_log(recording(folder), _set_faults(folder)))


def _set_faults(folder: Path) -> list[str]:
    return faults(folder) if (folder / "faults").exists() else []


def _kernel_log(kind: str, faults: Sequence[str]) -> str:
    """What the kernel of such a node would have logged since its boot."""
    rows = [line.split(", ") for line in (RECORDINGS / kind / "gpus.csv").read_text().splitlines()]
    gpus = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    lines = [
        "[    0.000000] Linux version 6.12.0 (lab)",
        f"[   11.402119] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {gpus[0]['driver_version']}",
    ]
    for fault in faults:
        if xid := re.fullmatch(r"xid:(\d+)-(\d+)", fault):
            bus = gpus[int(xid[1]) % len(gpus)]["pci.bus_id"].lower()[4:].rpartition(".")[0]
            lines.append(f"[ 8211.000001] NVRM: Xid (PCI:{bus}): {xid[2]}, pid=1, name=lab, as it was set")
    return "".join(f"{line}\n" for line in lines)


def _cdi(count: int) -> dict[str, Any]:
    """A CDI specification like the one nvidia-ctk writes, without devices: there are none (JSON is YAML)."""
    names = [*map(str, range(count)), "all"]
    devices = [{"name": name, "containerEdits": {"env": [f"NVIDIA_VISIBLE_DEVICES={name}"]}} for name in names]
    return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": {}}
