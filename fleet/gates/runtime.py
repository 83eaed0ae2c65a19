"""Is the container runtime there, and new enough for what a unit of ours uses of it?"""

import re

from fleet.gate import gate
from fleet.gates.links import deep_of
from fleet.known import Undecidable, facts_of
from fleet.plan import NodeView
from fleet.verdict import Finding

LEAST_RUNTIME = {"podman": (4, 1), "docker": (20, 10)}
"""podman knows CDI devices since 4.1.0 (nvidia-container-toolkit 63); docker has `run --pull never` since 20.10."""
LEAST_TOOLKIT, SAFE_TOOLKIT = (1, 12), (1, 17, 8)
"""nvidia-ctk writes CDI specifications since 1.12; up to 1.17.7 an image can take over the host (CVE-2025-23266)."""
_VERSION = re.compile(r"\b(\d{1,4}(?:\.\d{1,5}){1,3})\b")


@gate(
    "runtime-present",
    reads="the runtime's program and image store",
    remedy="install the container runtime on {node}, or correct runtime in its inventory",
    needs_facts=True,
)
def runtime_present(view: NodeView) -> Finding | None:
    """The declared container runtime is there and tells what it holds."""
    want, runtime = view.node.runtime, facts_of(view).runtime
    if runtime.error is not None:
        return Finding(want=want, got=runtime.error)
    return None if runtime.name == want else Finding(want=want, got=runtime.name)


def _version(view: NodeView, program: str) -> tuple[int, ...] | None:
    """What the program says of its version; None where it is not there. Raises Undecidable for anything else."""
    deep = deep_of(view)
    said = deep.versions.get(program)
    if said is None:
        if deep.versions_error is not None:
            raise Undecidable(f"the version of {program}", deep.versions_error)
        return None
    match = _VERSION.search(said)
    if match is None:
        raise Undecidable(f"the version of {program}", said)
    return tuple(map(int, match[1].split(".")))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@gate(
    "runtime-version",
    reads="podman --version or docker --version",
    remedy="install a newer one on {node}, or declare the other runtime",
    deep=True,
)
def runtime_version(view: NodeView) -> Finding | None:
    """The container runtime knows what a unit uses: podman 4.1 (CDI devices), docker 20.10 (never to pull)."""
    name = view.node.runtime
    found, least = _version(view, name), LEAST_RUNTIME[name]
    if found is None:
        raise Undecidable(f"the version of {name}", "no such program")
    return None if found >= least else Finding(want=f"{name} {_dotted(least)} or later", got=_dotted(found))


@gate(
    "toolkit-version",
    reads="nvidia-ctk --version",
    severity="fail or warn",
    remedy="install a newer nvidia-container-toolkit on {node}, then write its CDI specification anew",
    deep=True,
)
def toolkit_version(view: NodeView) -> Finding | None:
    """NVIDIA's container toolkit, where it is there, can write CDI specifications. Before 1.17.8: a warning.

    An image can take over the host through an older one (CVE-2025-23266).
    """
    found = _version(view, "nvidia-ctk") if view.node.gpus.count else None
    if found is None or found >= SAFE_TOOLKIT:
        return None
    least = SAFE_TOOLKIT if found >= LEAST_TOOLKIT else LEAST_TOOLKIT
    want = f"nvidia-container-toolkit {_dotted(least)} or later"
    return Finding(want=want, got=_dotted(found), warning=least is SAFE_TOOLKIT)
