"""What the machine that rolls out gives is looked at before anything moves: folders, archives, answers of a server."""

import io
import json
import os
import random
import tarfile
from pathlib import Path

import pytest

from declare.folder import measure
from fleet.delivery.manifest import ManifestFile
from operations.delivery.sources import SourceError, archive_file, check_folder, file_url, wrong_answers

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tmp_path / "model"
    made.mkdir()
    (made / "a").write_bytes(b"x" * 1000)
    (made / "b").write_bytes(b"y")
    return made


def test_a_folder_is_read_once_and_then_known_by_its_sizes_and_times(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, told = measure(folder), list[str]()
    check_folder(str(folder), manifest, told.append)
    monkeypatch.setattr("operations.delivery.sources._measured", lambda _: pytest.fail("it was read again"))
    check_folder(str(folder), manifest, told.append)
    assert told == [f"reads 0.00 GiB in {folder} once, to compare them with the manifest"]
    with pytest.raises(pytest.fail.Exception):
        (folder / "a").write_bytes(b"x" * 1000)
        check_folder(str(folder), manifest)


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"x" * 999 + b"z", "a: changed: want sha256"), (b"x" * 9, "a: truncated"), (None, "a: missing")],
)
def test_a_folder_that_is_not_as_its_manifest_says_is_told(folder: Path, content: bytes | None, told: str) -> None:
    manifest = measure(folder)
    if content is None:
        (folder / "a").unlink()
    else:
        (folder / "a").write_bytes(content)
    with pytest.raises(SourceError) as refused:
        check_folder(str(folder), manifest)
    assert told in str(refused.value)


def tar(path: Path, **files: object) -> str:
    with tarfile.open(path, "w") as out:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            member = tarfile.TarInfo(name.replace("_", "."))
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return str(path)


def test_an_archive_with_another_image_is_refused_before_it_travels(tmp_path: Path) -> None:
    path = tar(tmp_path / "image.tar", index_json={"manifests": [{"digest": DIGEST}]})
    file = archive_file(path, DIGEST, "image.tar")
    assert file == measure(tmp_path).files[0]
    with pytest.raises(SourceError, match=f"want the image {OTHER}, found {DIGEST}"):
        archive_file(path, OTHER, "image.tar")


@pytest.mark.parametrize("kind", ["nothing", "a folder", "a page", "an empty tar", "broken JSON"])
def test_what_is_no_archive_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "image.tar"
    match kind:
        case "a folder":
            path.mkdir()
        case "a page":
            path.write_text("<html></html>" * 100)
        case "an empty tar":
            tar(path, something=b"x")
        case "broken JSON":
            tar(path, index_json=b"{")
    with pytest.raises(SourceError) as refused:
        archive_file(str(path), DIGEST, "image.tar")
    assert f"{path}: want " in str(refused.value)


def damaged(path: Path, kind: str) -> None:
    """An archive whose damage is met where it is read, not where it is opened."""
    noise = random.Random(1).randbytes(1 << 20)
    match kind:
        case "cut gzip" | "broken gzip" | "cut xz":
            with tarfile.open(path, "w:xz" if kind == "cut xz" else "w:gz") as out:
                for name in ("a", "index.json"):
                    member = tarfile.TarInfo(name)
                    member.size = len(noise)
                    out.addfile(member, io.BytesIO(noise))
            data = path.read_bytes()
            half = len(data) // 2
            path.write_bytes(data[:half] if kind.startswith("cut") else data[:half] + b"\0" * 999 + data[half + 999 :])
        case "nested JSON":
            tar(path, index_json=b"[" * 200_000)
        case "a list":
            tar(path, index_json=[])
        case "a link to itself":
            with tarfile.open(path, "w") as out:
                member = tarfile.TarInfo("index.json")
                member.type, member.linkname = tarfile.SYMTYPE, "index.json"
                out.addfile(member)
        case "a folder within":
            with tarfile.open(path, "w") as out:
                member = tarfile.TarInfo("index.json")
                member.type = tarfile.DIRTYPE
                out.addfile(member)
        case "a pipe":
            os.mkfifo(path)


@pytest.mark.parametrize(
    "kind",
    [
        *("cut gzip", "broken gzip", "cut xz", "nested JSON", "a list", "a link to itself", "a folder within"),
        *("a pipe", "a long name"),
    ],
)
def test_a_damaged_archive_is_told_in_one_line_and_without_a_traceback(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("n" * 300 if kind == "a long name" else "image.tar")
    damaged(path, kind)
    with pytest.raises(SourceError) as refused:
        archive_file(str(path), DIGEST, "image.tar")
    assert str(refused.value).startswith(f"{path}: want ")
    assert "\n" not in str(refused.value)


FILES = [ManifestFile(path="a b", bytes=5, sha256="0" * 64), ManifestFile(path="c", bytes=7, sha256="0" * 64)]
URLS = [file_url("https://x/y/", file.path) for file in FILES]
GOOD = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\nHTTP/2 200\r\ncontent-length: 5\r\n\r\nanswer 0 200 text/plain\n"


def test_a_path_becomes_a_part_of_a_url() -> None:
    assert URLS[0] == "https://x/y/a%20b"


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nanswer 1 200 \n", None),
        ("HTTP/1.1 206 OK\r\nContent-Range: bytes 0-0/7\r\n\r\nanswer 1 206 x/y\n", None),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nanswer 1 200 text/html; charset=utf-8\n",
            "found a page (text/html",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer 1 200 x/y\n", "want 7 bytes, found 6"),
        ("HTTP/1.1 200 OK\r\n\r\nanswer 1 200 x/y\n", "want 7 bytes, found no size"),
        ("HTTP/1.1 404 No\r\nContent-Length: 7\r\n\r\nanswer 1 404 x/y\n", "want 200, found 404"),
        ("answer 1 000 \n", "found no connection"),
        ("answer 1 000 \tCould not resolve host: x\n", "found no connection (Could not resolve host: x)"),
        ("", "want an answer, found none"),
    ],
)
def test_what_a_server_answers_is_held_against_the_manifest(second: str, told: str | None) -> None:
    wrong = wrong_answers(GOOD + second, URLS, FILES)
    assert [line.partition(": ")[2] for line in wrong] == ([] if told is None else [wrong[0].partition(": ")[2]])
    if told is not None:
        assert told in wrong[0]
