"""What a node's driver and kernel tell of its GPUs. None: it was not told."""

from fleet.frozen import Frozen


class Gpu(Frozen):
    """One GPU as `nvidia-smi --query-gpu` printed it. Sizes in MiB."""

    index: int
    name: str | None = None
    bus_id: str | None = None
    memory_mib: int | None = None
    memory_used_mib: int | None = None
    mig: str | None = None
    compute_cap: str | None = None
    told: dict[str, str] = {}
    """Further fields, by nvidia-smi's names, as it printed them: `persistence_mode`, `pcie.link.width.current`, ..."""
    problem: str | None = None
    """The text that stood where a value was wanted, for example `[GPU requires reset]`."""


class GpuProcess(Frozen):
    """A process that holds memory of a GPU. `unit`: its systemd unit, where that could be read."""

    bus_id: str
    pid: int
    name: str
    memory_mib: int | None = None
    unit: str | None = None


class Xid(Frozen):
    """One error of the driver in the kernel's log: which GPU (`0000:9b:00`), which code, the line word for word."""

    bus: str
    code: int
    text: str


class KernelLog(Frozen):
    """The driver's errors since boot, each GPU and code once. `whole`: the log still reaches back to the boot."""

    xids: tuple[Xid, ...] = ()
    whole: bool = True
    error: str | None = None


class Nvlinks(Frozen):
    """The NVLink ports of one GPU as `nvidia-smi nvlink -s` lists them. `said`: what it printed in place of ports."""

    gpu: int
    up: tuple[int, ...] = ()
    down: tuple[int, ...] = ()
    said: str | None = None


class Nvidia(Frozen):
    """All GPUs of a node. `error` holds every line that was not a GPU row, word for word."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    missing_fields: tuple[str, ...] = ()
    """What this driver's nvidia-smi does not know how to tell."""
    processes: tuple[GpuProcess, ...] = ()
    """Asked only where memory of a GPU is in use."""
    error: str | None = None
