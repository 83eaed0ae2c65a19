"""The section `cdi`: which GPUs the CDI specifications name, and whether they fit the driver."""

import re

from facts.parse.frames import Section
from facts.parse.refusal import quoted
from fleet.nodes.machine import Cdi, CdiSpec

_NAME = re.compile(r"[A-Za-z0-9._:-]{1,100}")


def parse_cdi(section: Section) -> Cdi:
    """Every specification about NVIDIA's GPUs. What is not understood, or cannot be read, is the error."""
    if section.failure:
        return Cdi(error=section.failure)
    specs: list[dict[str, list[str]]] = []
    files: list[str] = []
    odd = []
    for line in section.text.splitlines():
        word, _, value = line.partition(" ")
        if word == "spec" and value.startswith("/"):
            files.append(value)
            specs.append({"name": [], "library": [], "missing": []})
        elif specs and word in specs[-1] and (word == "missing" or _NAME.fullmatch(value)):
            specs[-1][word].append(value)
        elif line.strip():
            odd.append(line)
    return Cdi(
        specs=tuple(
            CdiSpec(
                file=file,
                names=tuple(told["name"]),
                library=told["library"][0] if told["library"] else None,
                missing=tuple(told["missing"]),
            )
            for file, told in zip(files, specs, strict=True)
        ),
        error=f"want CDI specifications, found {quoted('; '.join(odd))}" if odd else None,
    )
