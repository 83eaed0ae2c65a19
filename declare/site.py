"""Finding a fleet: the folder of its nodes, its group data, and what lies beside them.

    X/inventory/NAME/NODE.yaml      one file a node
    X/group_data/*.yaml             what runs where (or X/inventory/NAME/group_data/, for one fleet alone)
    X/patches/  X/probes/  X/evidence/*.json

X is the site's root. It may be this project's checkout or any other folder; nothing is ever written there.
"""

import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from declare.located import shown
from declare.problem import DeclarationError, nearest
from fleet.frozen import Frozen

DEFAULT_FLEET = "lab"
_PROBE = re.compile(r"^def probe\(", re.MULTILINE)


class Site(Frozen):
    """Where a fleet and all that belongs to it lie. Paths are absolute."""

    name: str
    nodes_folder: Path
    group_data: Path | None
    """None where the fleet has no group data: then only the nodes' own files place services."""
    root: Path
    project: Path
    """The checkout of this project."""

    @property
    def probes(self) -> tuple[Path, ...]:
        """Folders of probes, the site's first."""
        return self._folders("probes")

    @cached_property
    def probe_names(self) -> tuple[str, ...]:
        """Files with a function `probe` in those folders: the names that `policy.proof` may have."""
        files = [path for folder in self.probes for path in folder.glob("*.py")]
        return tuple(sorted({path.stem for path in files if _PROBE.search(path.read_text(encoding="utf-8"))}))

    @property
    def patches(self) -> tuple[Path, ...]:
        """Folders of engine patches, the site's first."""
        return self._folders("patches")

    @property
    def evidence(self) -> tuple[Path, ...]:
        """Stored degeneration runs of this site. Another site's runs prove nothing here."""
        folder = self.root / "evidence"
        return tuple(sorted(folder.glob("*.json"))) if folder.is_dir() else ()

    def _folders(self, name: str) -> tuple[Path, ...]:
        candidates = dict.fromkeys((self.root / name, self.project / name))
        return tuple(folder for folder in candidates if folder.is_dir())


def find_site(fleet: str | None, project: Path) -> Site:
    """The site of a fleet: the name of a folder under the project's `inventory/`, or any path. None means `lab`.

    Raises DeclarationError where that folder does not exist; the message names the fleets that do.
    """
    project = project.resolve()
    folder = _nodes_folder(DEFAULT_FLEET if fleet is None else fleet, project)
    own = folder / "group_data"
    root = folder.parent.parent if folder.parent.name == "inventory" else folder
    group_data = own if own.is_dir() else root / "group_data"
    return Site(
        name=folder.name,
        nodes_folder=folder,
        group_data=group_data if group_data.is_dir() else None,
        root=folder if own.is_dir() else root,
        project=project,
    )


def _nodes_folder(fleet: str, project: Path) -> Path:
    if not fleet.strip():
        raise DeclarationError(["FLEET: want a folder under inventory/ or a path, found an empty text"])
    named = project / "inventory" / fleet
    folder = named if _is_bare_name(fleet) and named.is_dir() else Path(fleet).expanduser()
    if not folder.is_dir():
        raise DeclarationError([f"FLEET: want a folder, found no {fleet!r}; {_instead(fleet, project)}"])
    folder = folder.resolve()
    below = [path.name for path in sorted((folder / "inventory").glob("*/"))]
    if below and not any(folder.glob("*.yaml")):
        raise DeclarationError(
            [
                f"FLEET: want the folder of a fleet's nodes, found the root of a site; "
                f"name one of {', '.join(shown(folder / 'inventory' / name) for name in below)}"
            ]
        )
    return folder


def _is_bare_name(fleet: str) -> bool:
    return os.sep not in fleet and fleet not in (os.curdir, os.pardir)


def _instead(fleet: str, project: Path) -> str:
    there = sorted(_fleets(project))
    near = nearest(fleet, there)
    guess = f'did you mean "{near}"? ' if near else ""
    return f"{guess}inventory/ has {', '.join(there) or 'no fleet'}; a path may be given too"


def _fleets(project: Path) -> Iterator[str]:
    return (folder.name for folder in (project / "inventory").glob("*/") if any(folder.glob("*.yaml")))
