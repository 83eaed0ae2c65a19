"""Finding a fleet: the folder of its nodes, its group data, and what lies beside them.

    X/inventory/NAME/NODE.yaml      one file a node
    X/group_data/*.yaml             what runs where (or X/inventory/NAME/group_data/, for one fleet alone)
    X/patches/  X/probes/  X/evidence/*.json

X is the site's root. It may be this project's checkout or any other folder; nothing is ever written there.

A folder with a `capture.yaml` is a capture of a fleet: NODE.probe of each node, and which fleet it is of. As FLEET it
means that fleet as it is declared today, on nodes as they were recorded.
"""

import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from declare.located import Origin, shown
from declare.problem import LONGEST_SHOWN, DeclarationError, line, nearest
from declare.reader import read_yaml, text_of
from fleet.frozen import Frozen

DEFAULT_FLEET = "lab"
CAPTURE = "capture.yaml"
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
    recordings: Path | None = None
    """Folder of a capture: every node is read from there and never contacted."""

    @property
    def probes(self) -> tuple[Path, ...]:
        """Folders of probes, the site's first."""
        return self._folders("probes")

    @cached_property
    def probe_names(self) -> tuple[str, ...]:
        """Files with a function `probe` in those folders: the names that `policy.proof` may have.

        Raises DeclarationError where one cannot be read.
        """
        files = [path for folder in self.probes for path in folder.glob("*.py")]
        return tuple(sorted({path.stem for path in files if _PROBE.search(text_of(path))}))

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
    folder, recordings = _of_capture(_nodes_folder(DEFAULT_FLEET if fleet is None else fleet, project))
    own = folder / "group_data"
    root = folder.parent.parent if folder.parent.name == "inventory" else folder
    group_data = own if own.is_dir() else root / "group_data"
    for there in (own, group_data):  # taken for none it would leave every node without a service
        if os.path.lexists(there) and not there.is_dir():
            raise DeclarationError([line(Origin(file=there), "a folder of group data", "something else")])
    return Site(
        name=f"{folder.name} as recorded in {recordings.name}" if recordings else folder.name,
        recordings=recordings,
        nodes_folder=folder,
        group_data=group_data if group_data.is_dir() else None,
        root=folder if own.is_dir() else root,
        project=project,
    )


def _of_capture(folder: Path) -> tuple[Path, Path | None]:
    """The folder of the nodes that a capture is of, and the capture; a folder that is none, and None."""
    file = folder / CAPTURE
    if not file.is_file():
        return folder, None
    tree = read_yaml(file)
    entry = tree.get("fleet")
    if entry is None or not isinstance(entry.value, str):
        raise DeclarationError([line((entry or tree).origin, "fleet: the folder of the fleet's nodes", "none")])
    nodes = (folder / entry.value).resolve()
    if not nodes.is_dir() or (nodes / CAPTURE).exists():
        raise DeclarationError([line(entry.origin, "the folder of the fleet that was captured", f"no fleet {nodes}")])
    return nodes, folder


def _nodes_folder(fleet: str, project: Path) -> Path:
    if not fleet.strip():
        raise DeclarationError(["FLEET: want a folder under inventory/ or a path, found an empty text"])
    named = project / "inventory" / fleet
    try:
        folder = named if _is_bare_name(fleet) and named.is_dir() else Path(fleet).expanduser()
        kind = "" if folder.is_dir() else "the file " if folder.exists() else "no "
    except (OSError, RuntimeError) as error:  # a name too long, a folder above that is closed, no such user
        said = getattr(error, "strerror", None) or error
        raise DeclarationError([f"FLEET: want a folder, found {said}: {fleet[:LONGEST_SHOWN]!r}"]) from None
    if kind:
        raise DeclarationError([f"FLEET: want a folder, found {kind}{fleet!r}; {_instead(fleet, project)}"])
    folder = folder.resolve()
    if not os.access(folder, os.R_OK | os.X_OK):
        raise DeclarationError([f"FLEET: want a folder that can be read, found {shown(folder)} closed to this user"])
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
