"""The node's sums over the headers of its safetensors files -> Checkpoint, beside the config.json of each folder."""

import re

from facts.parse.frames import Section
from facts.parse.refusal import quoted
from fleet.model.checkpoint import Checkpoint, parse_lines
from fleet.model.shape import ModelError
from fleet.nodes.node import ModelFolder


def with_checkpoints(models: tuple[ModelFolder, ...], section: Section) -> tuple[ModelFolder, ...]:
    """The folders with what their headers say, or why that is not known."""
    told: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in section.text.splitlines():
        if line.startswith("checkpoint "):
            lines = told.setdefault(line.removeprefix("checkpoint "), [])
        elif line.strip():
            lines.append(line)
    found = []
    for model in models:
        checkpoint, why = _read(told.get(model.path), section)
        found.append(model.model_copy(update={"checkpoint": checkpoint, "checkpoint_error": why}))
    return tuple(found)


def _read(lines: list[str] | None, section: Section) -> tuple[Checkpoint | None, str | None]:
    if not lines:
        return None, section.failure or "the node did not look at this checkpoint"
    if lines[-1] != "exit 0":
        return None, quoted("\n".join(lines[:-1]) or lines[-1])
    files = re.fullmatch(r"files ([0-9]{1,6})", lines[-2]) if len(lines) > 1 else None
    if files is None:
        return None, f"want the number of files, found {quoted(lines[-2] if len(lines) > 1 else lines[-1])}"
    try:
        return parse_lines(lines[:-2], int(files[1])), None
    except ModelError as error:
        return None, str(error)
