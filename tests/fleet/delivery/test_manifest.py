"""A manifest names every byte of a checkpoint; what could leave its folder, or lies about it, is no manifest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.delivery.manifest import (
    HEAD,
    Manifest,
    ManifestError,
    ManifestFile,
    differences,
    of_files,
    path_problem,
    read_manifest,
)

SHA = "a" * 64
PART = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
PATHS = st.lists(PART, min_size=1, max_size=3).map("/".join).filter(lambda path: path_problem(path) is None)
FILES = st.builds(
    ManifestFile,
    path=PATHS,
    bytes=st.integers(0, 1 << 40),
    sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
)


def _no_file_is_a_folder(files: list[ManifestFile]) -> bool:
    paths = {file.path for file in files}
    return not any(path.startswith(f"{other}/") for path in paths for other in paths)


MANIFESTS = (
    st.lists(FILES, min_size=1, max_size=6, unique_by=lambda file: file.path).filter(_no_file_is_a_folder).map(of_files)
)


@given(MANIFESTS)
def test_a_manifest_is_read_back_as_it_was_written(made: Manifest) -> None:
    assert read_manifest(made.text) == made
    assert read_manifest(json.dumps(made.document(), ensure_ascii=False)) == made


@given(MANIFESTS, st.data())
def test_each_change_of_a_folder_is_named_and_the_same_folder_is_not(made: Manifest, data: st.DataObject) -> None:
    found: dict[str, tuple[int, str | None]] = {file.path: (file.bytes, file.sha256) for file in made.files}
    assert differences(made, found) == []
    one = data.draw(st.sampled_from(made.files))
    other = ("0" if one.sha256[0] != "0" else "1") + one.sha256[1:]
    assert differences(made, found | {one.path: (one.bytes, other)})[0].startswith(f"{one.path}: changed")
    assert differences(made, found | {one.path: (one.bytes + 1, None)})[0].startswith(f"{one.path}: too long")
    assert differences(made, {path: told for path, told in found.items() if path != one.path}) == [
        f"{one.path}: missing"
    ]
    if one.bytes:
        assert differences(made, found | {one.path: (one.bytes - 1, None)})[0].startswith(f"{one.path}: truncated")


@given(MANIFESTS)
def test_another_content_has_another_digest(made: Manifest) -> None:
    first, *rest = made.files
    changed = first.model_copy(update={"bytes": first.bytes + 1})
    assert Manifest(files=(changed, *rest)).digest != made.digest


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("../etc/passwd", "a path with .."),
        ("a/../b", "a path with .."),
        ("/etc/passwd", "an absolute path"),
        ("a//b", "an empty part or a dot in the path"),
        ("./a", "an empty part or a dot in the path"),
        ("", "an empty part or a dot in the path"),
        ("a\nb", "a name with '\\n'"),
        ("a\\b", "a name with '\\\\'"),
        ("a\x7f", "a name with '\\x7f'"),
        ("\udcff", "a name that is not UTF-8"),
    ],
)
def test_a_path_that_could_leave_the_folder_or_break_a_list_is_refused(path: str, problem: str) -> None:
    assert path_problem(path) == problem
    with pytest.raises(ManifestError) as refused:
        read_manifest(json.dumps({"format": 1, "files": [{"path": path, "bytes": 1, "sha256": SHA}]}))
    assert problem in str(refused.value)


@pytest.mark.parametrize("path", ["a", "a/b-c.safetensors", " spaced name ", "-dash", "#hash", "ünï/コード", "..."])
def test_an_odd_but_plain_name_is_welcome(path: str) -> None:
    assert path_problem(path) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "1: want"),
        ("<html>not found</html>", "1: want"),
        (f"{HEAD}\n", "want at least one file, found none"),
        (f"{HEAD}\n{SHA} 5\n", "2: want SHA256"),
        (f"{HEAD}\n{SHA[:-1]} 5 a\n", "2: want SHA256"),
        (f"{HEAD}\n{'A' * 64} 5 a\n", "64 hex digits in small letters"),
        (f"{HEAD}\n{SHA} -5 a\n", "2: want SHA256"),
        (f"{HEAD}\n{SHA} 5 ../a\n", "2: want a relative path without ..,"),
        (f"{HEAD}\n{SHA} 5 a\n{SHA} 6 a\n", "want each path once"),
        (f"{HEAD}\n{SHA} 5 a\n{SHA} 6 a/b\n", "found a as a file and as the folder of a/b"),
        ("{", "broken JSON"),
        ('{"format": 2, "files": []}', "want format 1"),
        ('{"format": 1, "files": []}', "want at least one file"),
        (f'{{"format": 1, "files": [{{"path": "a", "bytes": "5", "sha256": "{SHA}"}}]}}', "files.0.bytes"),
        (f'{{"format": 1, "files": [{{"path": "a", "bytes": 1{"0" * 400}, "sha256": "{SHA}"}}]}}', "files.0.bytes"),
        (f'{{"format": 1, "bytes": 6, "files": [{{"path": "a", "bytes": 5, "sha256": "{SHA}"}}]}}', "bytes: want 5"),
        (f'{{"format": 1, "digest": "x", "files": [{{"path": "a", "bytes": 5, "sha256": "{SHA}"}}]}}', "digest: want"),
    ],
)
def test_a_text_that_is_no_manifest_is_refused_with_the_place(text: str, told: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read_manifest(text)
    assert told in str(refused.value)


def test_a_list_that_was_written_twice_into_one_file_is_refused_whatever_its_length() -> None:
    """Counting each path among all others would take a minute."""
    with pytest.raises(ManifestError) as refused:
        read_manifest(f"{HEAD}\n" + "".join(f"{SHA} 1 {n}\n" for n in range(20_000)) * 2)
    assert "want each path once" in str(refused.value)


@pytest.mark.parametrize(
    ("path", "fits"), [("n" * 255, True), ("é" * 128, False), ("a/" + "n" * 256, False), ("d/" * 2000 + "f", False)]
)
def test_a_name_that_no_disk_takes_is_refused(path: str, fits: bool) -> None:
    assert (path_problem(path) is None) == fits
