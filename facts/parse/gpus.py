"""`nvidia-smi --query-gpu --format=csv,noheader,nounits` -> Nvidia. What is no GPU row is kept, word for word."""

import re

from facts.parse.cgroups import unit_of
from fleet.nodes.nvidia import Gpu, GpuProcess, Nvidia

FIELDS = (
    "index",
    "name",
    "pci.bus_id",
    "memory.total",
    "memory.used",
    "driver_version",
    "mig.mode.current",
    "compute_cap",
    "temperature.gpu",
    "ecc.errors.uncorrected.volatile.total",
    "remapped_rows.failure",
    "remapped_rows.pending",
    "retired_pages.pending",
    "mig.mode.pending",
    "persistence_mode",
    "pstate",
    "enforced.power.limit",
    "power.default_limit",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "clocks_event_reasons.active",
    "fabric.state",
    "fabric.status",
    "gpu_recovery_action",
)
"""What is asked, in this order. A serial number is never asked for. A GPU that needs a reset still has a name and a
memory size, but no temperature. What is no field of `Gpu` goes to `Gpu.told`."""
_OWN = 11
"""So many at the start, which every driver has, are judged here; the others are for the gates."""

_NOT_TOLD = {"[N/A]", "N/A", "[Not Supported]", "[Not Found]", ""}
"""A field that this kind of GPU does not have. Any other bracket stands for trouble."""
_TROUBLE = re.compile(r"\[.*\]|ERR!|Unknown Error|GPU requires reset|GPU is lost", re.IGNORECASE)
_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU\s*(?:([0-9]{1,4}):\s*)?"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])"
)
_INDEX = re.compile(r"[0-9]{1,4}")
_NUMBER = re.compile(r"[0-9]{1,12}")
_DEPRECATED = {"[Requested functionality has been deprecated]"}
_CGROUP = re.compile(r"cgroup ([0-9]{1,10}) (.*)")
_PROCESS = re.compile(r"process ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]), ([0-9]{1,10}), (.*), ([^,]*)")
_MEANING = {
    2: ": an argument is invalid",
    3: ": not available on this GPU",
    4: ": no permission",
    6: ": no such object",
    8: ": external power cables are not attached",
    9: ": the driver is not loaded",
    10: ": an interrupt problem of a GPU",
    12: ": the NVML library couldn't be found or loaded",
    13: ": the NVML library is too old for this question",
    14: ": an infoROM is corrupted",
}
"""What an exit code of nvidia-smi stands for (its man page)."""
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]")


def parse_gpus(text: str, code: int | None = 0) -> Nvidia:
    """GPUs in index order. `code`: exit code of nvidia-smi, None where it did not end.

    A line `fields A,B,...` says which of FIELDS the rows after it have: an older driver was asked again. Lines
    `process ...` and `cgroup ...` tell of processes on the GPUs, see `_processes`.

    A GPU that answers with an error keeps its row with `problem`; where the row has no index, its place in the list
    tells it if the other rows leave no doubt. `error` is set whenever anything was not a GPU row, or the exit code
    was not 0.
    """
    rows, odd, fields, told_of_processes = _sorted_lines(text)
    gpus, doubts = _numbered(rows, fields)
    processes, not_told = _processes(told_of_processes)
    doubts += not_told
    gpus = _with_lost_ones(gpus, odd)
    drivers = {row[5] for row in rows if not _TROUBLE.fullmatch(row[5])} - _NOT_TOLD
    doubts += sorted({f"driver_version: {row[5]}" for row in rows if row[5] in _DEPRECATED})
    if len(drivers) > 1:
        doubts.append(f"GPUs tell different driver versions: {', '.join(sorted(drivers))}")
    if code is None:
        doubts.append("nvidia-smi did not end")
    elif code != 0:
        doubts.append(f"nvidia-smi ended with exit code {code}{_MEANING.get(code, '')}")
    elif not rows and not odd:
        doubts.append("nvidia-smi printed nothing")
    return Nvidia(
        gpus=tuple(gpus),
        driver=drivers.pop() if len(drivers) == 1 else None,
        missing_fields=tuple(field for field in FIELDS if field not in fields),
        processes=processes,
        error="\n".join([*odd, *doubts]) or None,
    )


def _sorted_lines(text: str) -> tuple[list[list[str]], list[str], tuple[str, ...], list[str]]:
    """GPU rows as cells, lines that are none, the columns, and what was told of processes."""
    rows: list[list[str]] = []
    odd: list[str] = []
    fields = FIELDS
    processes: list[str] = []
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "fields" and set(rest.split(",")) <= set(FIELDS) and tuple(rest.split(",")[:_OWN]) == FIELDS[:_OWN]:
            rows, odd, fields = [], [], tuple(rest.split(","))
            continue
        if word in ("process", "cgroup", "processes"):
            processes.append(line)
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(fields) and (_INDEX.fullmatch(cells[0]) or _TROUBLE.fullmatch(cells[0])):
            rows.append(cells)
        elif line.strip():
            odd.append(line.strip())
    return rows, odd, fields, processes


def _processes(lines: list[str]) -> tuple[tuple[GpuProcess, ...], list[str]]:
    """`process BUS, PID, NAME, MIB` and `cgroup PID PATH` lines; `processes exit N` where nvidia-smi failed."""
    cgroups = {pid: path for line in lines if (match := _CGROUP.fullmatch(line)) for pid, path in [match.groups()]}
    found, doubts = [], []
    for line in lines:
        if match := _PROCESS.fullmatch(line):
            bus, pid, name, memory = match.groups()
            mib = int(memory) if _NUMBER.fullmatch(memory) else None
            unit = unit_of(cgroups.get(pid, ""), {})
            found.append(GpuProcess(bus_id=bus, pid=int(pid), name=name, memory_mib=mib, unit=unit))
        elif not line.startswith("cgroup "):
            doubts.append(f"nvidia-smi --query-compute-apps: {line.partition(' ')[2]}")
    return tuple(found), doubts


def _numbered(rows: list[list[str]], fields: tuple[str, ...]) -> tuple[list[Gpu], list[str]]:
    """The rows as GPUs. A row without an index gets its place, if every other row stands at its own index."""
    told = {place: int(row[0]) for place, row in enumerate(rows) if _INDEX.fullmatch(row[0])}
    doubts = []
    if len(set(told.values())) != len(told):
        doubts.append(f"GPU indices are not unique: {', '.join(map(str, told.values()))}")
    in_order = all(place == index for place, index in told.items())
    gpus = []
    for place, row in enumerate(rows):
        if place not in told and not in_order:
            doubts.append(f"a GPU row without an index: {', '.join(row)}")
        elif told.get(place, place) not in {gpu.index for gpu in gpus}:
            gpus.append(_gpu(told.get(place, place), row, fields))
    return gpus, doubts


def _gpu(index: int, row: list[str], fields: tuple[str, ...]) -> Gpu:
    _, name, bus_id, memory, used, _, mig, compute_cap, *_ = row
    problems = _problems(row)
    further = dict(zip(fields[_OWN - 2 :], row[_OWN - 2 :], strict=True))

    def told(cell: str) -> str | None:
        return None if cell in (*_NOT_TOLD, *problems) else cell

    return Gpu(
        index=index,
        name=told(name),
        bus_id=bus_id if _BUS.fullmatch(bus_id) else None,
        memory_mib=int(memory) if _NUMBER.fullmatch(memory) else None,
        memory_used_mib=int(used) if _NUMBER.fullmatch(used) else None,
        mig="N/A" if mig in _NOT_TOLD else told(mig),
        compute_cap=told(compute_cap),
        told={field: cell for field, cell in further.items() if cell not in problems},
        problem=problems[0] if problems else None,
    )


def _problems(row: list[str]) -> list[str]:
    """What stands where a value was wanted, and values that mean trouble."""
    problems = [cell for cell in row if cell not in _NOT_TOLD | _DEPRECATED and _TROUBLE.fullmatch(cell)]
    wanted = {"pci.bus_id": _BUS, "ecc.errors.uncorrected.volatile.total": re.compile("0")}
    wanted |= dict.fromkeys(("memory.total", "memory.used", "temperature.gpu"), re.compile("[0-9]+"))
    wanted |= {"remapped_rows.failure": re.compile("No")}
    for field, cell in zip(FIELDS[:_OWN], row, strict=False):
        if field in wanted and cell not in (*_NOT_TOLD, *problems) and not wanted[field].fullmatch(cell):
            problems.append(f"{field}: {cell}")
    return problems


def _with_lost_ones(gpus: list[Gpu], odd: list[str]) -> list[Gpu]:
    """Each message about a lost GPU, put to its GPU: by its index, else to the only row without a bus id."""
    by_index = {gpu.index: gpu for gpu in gpus}
    nameless = [gpu.index for gpu in gpus if gpu.problem and gpu.bus_id is None]
    handles = [(line, match) for line in odd if (match := _HANDLE.search(line))]
    for line, match in handles:
        index = int(match[1]) if match[1] else nameless[0] if len(handles) == len(nameless) == 1 else None
        if index is not None:
            known = by_index.get(index, Gpu(index=index))
            by_index[index] = known.model_copy(update={"bus_id": known.bus_id or match[2], "problem": line})
    return [by_index[index] for index in sorted(by_index)]
