"""What must be brought to which node: items named by their content, what lies there already, what is refused."""

import hashlib
import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Literal

from fleet.delivery.manifest import Manifest, ManifestFile, differences
from fleet.frozen import Frozen
from fleet.nodes.node import Image, Installed
from fleet.releases.places import STATE

ARCHIVES = f"{STATE}/.delivery/archives"
"""Where images' archives lie on a node while a delivery runs."""
ARCHIVE_NAME = "image.tar"
MIB, GIB = 1 << 20, 1 << 30


def record_key(path: str) -> str:
    """The name under which a node remembers that this folder was compared with a manifest."""
    return hashlib.sha256(path.encode()).hexdigest()[:16]


class Origin(Frozen):
    """Where an item comes from when no node has it: at most one of these is set."""

    folder: str | None = None
    """On the machine that rolls out."""
    url: str | None = None
    peer: str | None = None
    peer_folder: str | None = None
    """Of the peer; None: the item's own path."""

    def __str__(self) -> str:
        if self.peer:
            return f"{self.peer}:{self.peer_folder}" if self.peer_folder else self.peer
        return self.folder or self.url or "a node that has it"


class Item(Frozen):
    """One folder with one content: a checkpoint, or a folder with the archive of an image."""

    name: str
    """For people: a service's name, or an image's."""
    path: str
    manifest: Manifest
    digest: str
    """Of the manifest; of an archive that of its image. It names the gathering and the node's record."""
    origin: Origin = Origin()
    image: str | None = None
    """The reference by digest that loading the archive must give; None for a checkpoint."""

    @property
    def record(self) -> str:
        """The name under which a node remembers what the folder holds."""
        return record_key(self.path)

    @property
    def key(self) -> str:
        """The item's name for machines."""
        return f"{self.record}-{self.digest[7:15]}"

    @property
    def staging(self) -> str:
        """The folder beside `path` where the content is gathered."""
        parent, name = posixpath.split(self.path)
        return f"{parent}/.{name}.{self.digest[7:19]}.delivery"


def bundles(manifest: Manifest, limit_bytes: int) -> tuple[tuple[ManifestFile, ...], ...]:
    """The files in groups that travel together: in order, each group up to the limit, or one larger file."""
    groups: list[list[ManifestFile]] = []
    size = 0
    for file in manifest.files:
        if not groups or size + file.bytes > limit_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.bytes
    return tuple(map(tuple, groups))


class FolderLook(Frozen):
    """What lies at an item's path on one node, and beside it. Sizes in bytes by relative path."""

    path: str
    kind: Literal["absent", "folder", "mount", "symlink", "other"] = "absent"
    verified: str | None = None
    """Digest of the manifest that the folder was compared with and is unchanged since."""
    free_bytes: int | None = None
    disk: int | None = None
    """Number of the device that it lies on, or would."""
    stuck: str | None = None
    """Why nothing can be written there."""
    there: dict[str, int] = {}
    odd: tuple[str, ...] = ()
    """Entries at the path that are neither files nor folders."""
    staged: dict[str, int] = {}
    """Files that arrived and were verified."""
    parts: dict[str, int] = {}
    beside: tuple[str, ...] = ()
    """Folders of ours beside it: gatherings, and what was replaced."""


class NodeLook(Frozen):
    """What one node told a delivery."""

    node: str
    now: int
    tools: frozenset[str] = frozenset()
    folders: tuple[FolderLook, ...] = ()
    services: tuple[Installed, ...] = ()
    running: dict[str, str] = {}
    """Path that a running engine reads -> its service."""
    images: tuple[Image, ...] = ()
    images_error: str | None = None
    lease: str | None = None

    def folder(self, path: str) -> FolderLook:
        """What lies at a path that was looked at."""
        return next((folder for folder in self.folders if folder.path == path), FolderLook(path=path))

    def reader(self, path: str) -> str | None:
        """The service whose running engine reads this folder, something in it, or a folder around it."""
        inside = (one for one in self.running if f"{one}/".startswith(f"{path}/") or f"{path}/".startswith(f"{one}/"))
        return next((self.running[one] for one in inside), None)

    def has_image(self, reference: str) -> bool:
        """Does the runtime hold the image under this name and digest?"""
        return any(image.reference == reference for image in self.images)


class Need(Frozen):
    """What one node needs of one item. `refused` says why it cannot have it."""

    node: str
    item: str
    """Its key."""
    action: Literal["none", "verify", "fetch"]
    bytes: int = 0
    """That must still arrive; of `verify` those that are read."""
    present: tuple[int, ...] = ()
    """Numbers of the bundles that arrived in an earlier run."""
    refused: str | None = None
    note: str = ""


def plain_path(path: str) -> bool:
    """Can a folder be gathered beside this path and renamed to it?"""
    return posixpath.normpath(path) == path and path.count("/") >= 2


def present(groups: Iterable[tuple[ManifestFile, ...]], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Numbers of the groups whose files are all there with their sizes."""
    return tuple(n for n, files in enumerate(groups) if all(sizes.get(file.path) == file.bytes for file in files))


def _no_path(item: Item) -> str | None:
    if not plain_path(item.path):
        return f"want the path of a folder in a folder, without .., // and a / at its end, found {item.path}"
    if item.image is None and f"{item.path}/".startswith(f"{STATE}/"):
        return f"want a folder outside of {STATE}, where only this project writes, found {item.path}"
    return None


def _no_place(folder: FolderLook) -> str | None:
    kinds = {"symlink": "a symlink", "mount": "a mount point", "other": "a file"}
    if folder.kind in kinds:
        return f"want a folder at {folder.path} that can be renamed, found {kinds[folder.kind]}"
    return None if folder.stuck is None else f"want a place for {folder.path}, found {folder.stuck}"


def need_of(item: Item, look: NodeLook, limit_bytes: int, keep_free: int, rehash: bool = False) -> Need:
    """What this node needs of this item, by what lies there. Nothing is read or written for the answer."""
    folder = look.folder(item.path)

    def answer(action: Literal["none", "verify", "fetch"], bytes: int = 0, **more: object) -> Need:
        return Need.model_validate({"node": look.node, "item": item.key, "action": action, "bytes": bytes, **more})

    if item.image is not None and look.has_image(item.image):
        return answer("none")
    if folder.verified == item.digest and not rehash:
        return answer("none")
    if (why := _no_path(item)) is not None:
        return answer("fetch", refused=why)
    wrong = differences(item.manifest, {path: (size, None) for path, size in folder.there.items()})
    wrong += [f"{path}: neither a file nor a folder" for path in folder.odd]
    total, reader = item.manifest.total_bytes, look.reader(item.path)
    if folder.verified not in (None, item.digest):
        wrong.insert(0, f"it is that of {folder.verified}")
    if folder.verified == item.digest or (folder.kind != "absent" and not wrong):
        return answer("verify", total, note="the sizes are right; its bytes are read and compared")
    if reader is not None:
        why = f"{item.path} is read by the running engine of {reader} and is not as its manifest says ({wrong[0]})"
        return answer("fetch", total, refused=f"{why}; deliver into another folder and change model")
    if (why := _no_place(folder)) is not None:
        return answer("fetch", total, refused=why)
    groups = bundles(item.manifest, limit_bytes)
    right = {file.path for file in item.manifest.files if folder.there.get(file.path) == file.bytes}
    missing = sum(
        max(0, file.bytes - folder.parts.get(file.path, 0))
        for file in item.manifest.files
        if folder.staged.get(file.path) != file.bytes and file.path not in right
    )
    note = f"{len(right)} files there have the right size and are read first" if right else ""
    if folder.free_bytes is None:
        return answer("fetch", missing, refused=f"the room at {item.path} is not known")
    room = room_of(item, missing) + keep_free
    if folder.free_bytes < room:
        want = f"{room / GIB:.2f} GiB free beside {item.path} ({missing / GIB:.2f} to arrive"
        want += f", {total / GIB:.2f} to load" if item.image is not None else ""
        found = f"{folder.free_bytes / GIB:.2f} GiB"
        return answer(
            "fetch", missing, refused=f"disk: want {want}, {keep_free / GIB:.2f} to stay free), found {found}"
        )
    return answer("fetch", missing, present=present(groups, folder.staged), note=note)


def room_of(item: Item, missing: int) -> int:
    """Bytes that an item takes on a node: what must arrive, and an image's archive once more while it is loaded."""
    return missing + (item.manifest.total_bytes if item.image is not None else 0)


def together(needs: Mapping[str, Need], items: Mapping[str, Item], look: NodeLook, keep_free: int) -> dict[str, Need]:
    """The needs of one node by item, refused where each has room for itself but not all that share its disk."""
    moving = {key: need for key, need in needs.items() if need.action == "fetch" and need.refused is None}
    room: Counter[int | None] = Counter()
    for key, need in moving.items():
        room[look.folder(items[key].path).disk] += room_of(items[key], need.bytes)
    answer = dict(needs)
    for key, need in moving.items():
        folder = look.folder(items[key].path)
        want = room[folder.disk] + keep_free
        if folder.disk is not None and folder.free_bytes is not None and folder.free_bytes < want:
            told = f"disk: want {want / GIB:.2f} GiB free for all that this node is to get on the disk of {folder.path}"
            why = f"{told} ({keep_free / GIB:.2f} to stay free), found {folder.free_bytes / GIB:.2f} GiB"
            answer[key] = need.model_copy(update={"refused": why})
    return answer


def colliding(wanted: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Services of one node whose checkpoints cannot both lie there, and why. `wanted`: service, path, digest."""
    problems = []
    for (one, path, digest), (other, place, content) in combinations(sorted(set(wanted)), 2):
        if path == place and digest != content:
            why = f"want one content at {place}, found another manifest for it in the service {one}"
            problems.append((one, other, why))
        elif path != place and (f"{place}/".startswith(f"{path}/") or f"{path}/".startswith(f"{place}/")):
            why = f"want a folder of its own, found {place}, and {path} of the service {one}"
            problems.append((one, other, why))
    return problems
