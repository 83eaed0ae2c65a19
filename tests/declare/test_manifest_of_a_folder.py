"""`fleet manifest DIR`: what is in the folder, and every entry that cannot be part of a checkpoint."""

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from declare.folder import measure
from declare.problem import DeclarationError
from fleet.delivery.manifest import read_manifest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    (made / "sub").mkdir(parents=True)
    (made / "config.json").write_text("{}")
    (made / "sub" / " odd ünï ").write_bytes(b"x" * 3_000_000)
    (made / "empty").touch()
    return made


def test_every_file_stands_with_its_size_and_hash(folder: Path) -> None:
    ran = CliRunner().invoke(app, ["manifest", str(folder)])
    assert ran.exit_code == 0
    made = read_manifest(ran.output)
    assert made == measure(folder)
    assert {(file.path, file.bytes, file.sha256) for file in made.files} == {
        (str(path.relative_to(folder)), path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_json_names_the_digest_and_is_read_back(folder: Path) -> None:
    ran = CliRunner().invoke(app, ["manifest", str(folder), "--json"])
    document = json.loads(ran.output)
    assert document["digest"] == measure(folder).digest
    assert read_manifest(ran.output) == measure(folder)


def test_it_is_written_whole_and_never_into_the_folder_that_it_describes(folder: Path, tmp_path: Path) -> None:
    into = tmp_path / "model.manifest"
    assert CliRunner().invoke(app, ["manifest", str(folder), "-o", str(into)]).exit_code == 0
    assert read_manifest(into.read_text()) == measure(folder)
    refused = CliRunner().invoke(app, ["manifest", str(folder), "-o", str(folder / "manifest")])
    assert refused.exit_code == 1
    assert "outside of" in refused.output
    assert not (folder / "manifest").exists()


def test_a_pipe_or_a_device_is_not_replaced_by_a_manifest(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = CliRunner().invoke(app, ["manifest", str(folder), "-o", str(tmp_path / "pipe")])
    assert ran.exit_code == 1
    assert "--output: want a file, found " in ran.output
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_disk_is_told_without_a_traceback(folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        words = [sys.executable, "-c", "from cli.main import main; main()", "manifest", str(folder)]
        ran = subprocess.run(words, cwd=PROJECT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr) == (
        1,
        "stdout: want all of the manifest written, found No space left on device\n",
    )


@pytest.mark.parametrize("kind", ["symlink", "pipe", "socket", "newline", "not UTF-8", "backslash"])
def test_what_cannot_be_part_of_a_checkpoint_is_named(folder: Path, kind: str) -> None:
    match kind:
        case "symlink":
            (folder / "odd").symlink_to(folder / "config.json")
        case "pipe":
            os.mkfifo(folder / "odd")
        case "socket":
            socket.socket(socket.AF_UNIX).bind(str(folder / "odd"))
        case "newline":
            (folder / "od\nd").touch()
        case "backslash":
            (folder / "od\\d").touch()
        case _:
            Path(os.fsdecode(os.fsencode(folder) + b"/od\xff")).touch()
    ran = CliRunner().invoke(app, ["manifest", str(folder)])
    assert ran.exit_code == 1
    said = {"newline": "'\\n'", "backslash": "'\\\\'"}.get(kind, kind)
    assert "od" in ran.output
    assert said in ran.output


@pytest.mark.parametrize(
    ("name", "found"),
    [("nowhere", "nothing"), ("a-file", "a file"), ("hollow", "none"), ("n" * 300, "nothing"), ("loop", "nothing")],
)
def test_a_folder_without_files_is_refused(tmp_path: Path, name: str, found: str) -> None:
    (tmp_path / "a-file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "hollow" / "sub").mkdir(parents=True)
    with pytest.raises(DeclarationError) as refused:
        measure(tmp_path / name)
    assert f"found {found}" in str(refused.value)


@pytest.mark.parametrize("name", ["n" * 300, "loop"])
def test_a_place_that_no_file_can_have_is_told(tmp_path: Path, folder: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    ran = CliRunner().invoke(app, ["manifest", str(folder), "-o", str(tmp_path / name)])
    assert ran.exit_code == 1
    assert "--output: want a file that can be written, found" in ran.output
