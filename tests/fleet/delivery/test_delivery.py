"""What a node needs of an item is decided by what lies there; what must not be touched is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.delivery.delivery import (
    GIB,
    FolderLook,
    Item,
    Need,
    NodeLook,
    Origin,
    bundles,
    colliding,
    need_of,
    present,
    together,
)
from fleet.delivery.manifest import Manifest, ManifestFile, of_files

MANIFEST = of_files(ManifestFile(path=f"m{n}", bytes=100 + n, sha256=f"{n}" * 64) for n in range(4))
SIZES = {file.path: file.bytes for file in MANIFEST.files}
DIGEST = MANIFEST.digest
OTHER = "sha256:" + "f" * 64


def item(path: str = "/srv/models/glm", image: str | None = None) -> Item:
    return Item(name="glm", path=path, manifest=MANIFEST, digest=DIGEST, origin=Origin(folder="/data"), image=image)


def need(one: Item | None = None, running: dict[str, str] | None = None, rehash: bool = False, **folder: Any) -> Need:
    one = one or item()
    look = FolderLook(
        path=one.path, **{"kind": "folder" if folder.get("there") else "absent", "free_bytes": GIB} | folder
    )
    node = NodeLook(node="a1", now=1, folders=(look,), running=running or {})
    return need_of(one, node, limit_bytes=210, keep_free=1000, rehash=rehash)


def test_a_verified_folder_needs_nothing_until_all_is_to_be_read_again() -> None:
    assert need(kind="folder", verified=DIGEST).action == "none"
    again = need(kind="folder", verified=DIGEST, rehash=True)
    assert (again.action, again.bytes) == ("verify", MANIFEST.total_bytes)


def test_a_folder_with_the_right_sizes_is_read_before_anything_moves() -> None:
    assert need(there=SIZES).action == "verify"
    assert need(there=SIZES | {"stray": 1}).action == "fetch"
    assert need(there=SIZES, odd=("link",)).action == "fetch"
    assert need(there=SIZES, verified=OTHER).action == "fetch"


def test_only_what_is_missing_counts_and_needs_room() -> None:
    staged, parts = {"m0": 100}, {"m1": 50}
    asked = need(staged=staged, parts=parts)
    assert (asked.action, asked.bytes, asked.refused) == ("fetch", 51 + 102 + 103, None)
    assert need(there={"m3": 103}, staged=staged, parts=parts).bytes == 51 + 102


def test_bundles_that_arrived_are_not_asked_for_again() -> None:
    assert need(staged={"m0": 100, "m1": 101}).present == (0,)
    assert need(staged={"m0": 100, "m1": 7}).present == ()


@pytest.mark.parametrize("reads", ["/srv/models/glm", "/srv/models/glm/sub", "/srv/models", "/srv"])
def test_a_folder_that_a_running_engine_reads_is_never_replaced(reads: str) -> None:
    refused = need(there={"m0": 100}, running={reads: "old"})
    assert refused.refused is not None
    assert "read by the running engine of old" in refused.refused
    assert need(there=SIZES, running={reads: "old"}).action == "verify"


@pytest.mark.parametrize("reads", ["/srv/models/glm2", "/srv/models/gl", "/data"])
def test_a_folder_beside_it_does_not_matter(reads: str) -> None:
    assert need(there={"m0": 100}, running={reads: "old"}).refused is None


@pytest.mark.parametrize("kind", ["symlink", "mount", "other"])
def test_what_cannot_be_renamed_is_refused(kind: str) -> None:
    assert "that can be renamed" in str(need(kind=kind).refused)


@pytest.mark.parametrize("path", ["/glm", "/srv/../glm", "/srv/models/", "/srv//glm"])
def test_an_odd_path_is_refused(path: str) -> None:
    assert ", without .., // and a / at its end, found " in str(need(item(path)).refused)


def test_room_is_kept_for_what_runs_and_for_loading_an_image() -> None:
    total = MANIFEST.total_bytes
    assert need(free_bytes=total + 1000).refused is None
    assert "disk: want" in str(need(free_bytes=total + 999).refused)
    assert "to load" in str(need(item(image="x@sha256:1"), free_bytes=2 * total + 999).refused)
    assert need(item(image="x@sha256:1"), free_bytes=2 * total + 1000).refused is None
    assert "not known" in str(need(free_bytes=None).refused)


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=30).map(
        lambda sizes: of_files(
            ManifestFile(path=f"f{n:03}", bytes=size, sha256="0" * 64) for n, size in enumerate(sizes)
        )
    ),
    st.integers(1, 600),
)
def test_bundles_hold_every_file_once_and_pass_the_limit_only_with_one_file(manifest: Manifest, limit: int) -> None:
    groups = bundles(manifest, limit)
    assert tuple(file for group in groups for file in group) == manifest.files
    assert all(sum(file.bytes for file in group) <= limit or len(group) == 1 for group in groups)
    assert present(groups, {file.path: file.bytes for file in manifest.files}) == tuple(range(len(groups)))


@pytest.mark.parametrize(("disks", "refused"), [((1, 1), 2), ((1, 2), 0), ((None, None), 0)])
def test_what_shares_a_disk_must_have_room_on_it_together(disks: tuple[int | None, int | None], refused: int) -> None:
    total, keep = MANIFEST.total_bytes, 1000
    items = {one.key: one for one in (item("/srv/models/a"), item("/srv/models/b"))}
    folders = tuple(
        FolderLook(path=one.path, free_bytes=2 * total + keep - 1, disk=disk)
        for one, disk in zip(items.values(), disks, strict=True)
    )
    look = NodeLook(node="a1", now=1, folders=folders)
    needs = {key: need_of(one, look, limit_bytes=210, keep_free=keep) for key, one in items.items()}
    assert not any(one.refused for one in needs.values())
    found = together(needs, items, look, keep)
    assert (
        sum("for all that this node is to get on the disk of" in str(one.refused) for one in found.values()) == refused
    )
    roomy = look.model_copy(update={"folders": tuple(f.model_copy(update={"free_bytes": GIB}) for f in folders)})
    assert together(needs, items, roomy, keep) == needs


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (("b", "/srv/m/x", "sha256:2"), "want one content at /srv/m/x"),
        (("b", "/srv/m/x/draft", "sha256:2"), "want a folder of its own, found /srv/m/x/draft, and /srv/m/x of the"),
        (("b", "/srv/m", "sha256:1"), "want a folder of its own, found /srv/m, and /srv/m/x"),
        (("b", "/srv/m/x", "sha256:1"), None),
        (("b", "/srv/m/xy", "sha256:2"), None),
    ],
)
def test_two_checkpoints_that_would_replace_each_other_are_refused(
    other: tuple[str, str, str], why: str | None
) -> None:
    found = colliding([("a", "/srv/m/x", "sha256:1"), other])
    assert [(one, two) for one, two, _ in found] == ([("a", "b")] if why else [])
    assert all(why is not None and told.startswith(why) for _, _, told in found)


def test_a_place_that_cannot_be_written_or_is_kept_by_this_project_is_refused_before_anything_moves() -> None:
    assert (
        str(need(stuck="/srv, which is no folder").refused)
        == "want a place for /srv/models/glm, found /srv, which is no folder"
    )
    assert need(there=SIZES, stuck="/srv, which cannot be written").action == "verify"
    for path in ("/var/lib/vllm-fleet/m", "/var/lib/vllm-fleet/.delivery/archives"):
        assert "want a folder outside of /var/lib/vllm-fleet" in str(need(item(path)).refused)
    assert need(item("/var/lib/vllm-fleet-models/m")).refused is None
