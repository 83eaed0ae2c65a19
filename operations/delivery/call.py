"""One verb of a delivery on one node: values quoted once into the head of the script, all of it over stdin."""

import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from facts.shell import READ_WHOLE, Output, run
from fleet.delivery.delivery import Item
from fleet.delivery.manifest import ManifestFile
from fleet.releases.places import STATE

if TYPE_CHECKING:
    from pyinfra.api.host import Host

LONGEST_S = 24 * 3600

Value = str | Iterable[str]


class NodeFailed(RuntimeError):
    """This node cannot go on; the others do."""


@cache
def _body() -> str:
    """The node's script: its parts, each with one matter, in the order of their numbers."""
    parts = sorted((Path(__file__).parent / "node").glob("*.sh"))
    return "".join(part.read_text(encoding="utf-8") for part in parts)


def call(host: "Host", verb: str, values: Mapping[str, Value], timeout_s: float = 120) -> Output:
    """Run one verb on a node."""
    return run(host, READ_WHOLE, stdin=script(verb, values), timeout_s=timeout_s)


def script(verb: str, values: Mapping[str, Value], state: str = STATE) -> str:
    """What a node reads to run one verb. A text becomes a variable, anything else an array."""
    lines = [f"state={shlex.quote(state)}"]
    for name, value in values.items():
        words = shlex.quote(value) if isinstance(value, str) else f"({shlex.join(value)})"
        lines.append(f"{name}={words}")
    return "\n".join([*lines, _body(), f"verb_{verb} </dev/null", ""])


def of_files(files: Iterable[ManifestFile]) -> dict[str, Value]:
    """Names, sums and sizes of some files, as the verbs take them."""
    files = list(files)
    return {
        "names": [file.path for file in files],
        "sums": [file.sha256 for file in files],
        "sizes": [str(file.bytes) for file in files],
    }


def of_item(item: Item) -> dict[str, Value]:
    """Where an item lies and is gathered, and exactly which files it has."""
    lines = sorted((f"f {file.bytes} {file.path}" for file in item.manifest.files), key=str.encode)
    return {
        "path": item.path,
        "staging": item.staging,
        "digest": item.digest,
        "key": item.record,
        "key_served": item.key,
        "expected": "\n".join(lines),
    }
