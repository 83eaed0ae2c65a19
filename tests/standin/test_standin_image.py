"""The image, built from this machine's own root filesystem where it is a Debian one."""

import json
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lab.standin import image
from lab.standin.archive import archive

HOST = Path("/")
DEBIAN = any(HOST.glob("usr/bin/python3.[0-9]*[0-9]")) and any(HOST.glob("usr/lib64/ld-linux-*"))
debian = pytest.mark.skipif(not DEBIAN, reason="wants a Debian machine with python3-minimal to build from")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image.build(HOST, tmp_path_factory.mktemp("image") / "tree", "0.33.0")


@debian
def test_it_is_small_and_says_what_it_is(tree: Path) -> None:
    assert sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file()) < 30e6
    assert 'PRETTY_NAME="vllm-standin 0.33.0: a stand-in for vLLM, not vLLM"' in (tree / "etc/os-release").read_text()
    assert (tree / "usr/local/bin/vllm").stat().st_mode & stat.S_IXUSR


@debian
@pytest.mark.skipif(os.geteuid() != 0, reason="wants root for chroot")
def test_the_engine_runs_on_what_the_image_has(tree: Path, model: Path) -> None:
    inside = ["/usr/sbin/chroot", str(tree), "vllm"]
    options = {"env": {"PATH": image.PATH}, "text": True, "stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    version = subprocess.run([*inside, "--version"], **options, timeout=20, check=True)
    assert (version.stdout, version.stderr) == ("0.33.0+standin\n", "")
    (tree / "tmp/config.json").write_bytes((model / "config.json").read_bytes())
    with subprocess.Popen([*inside, "serve", "/tmp", "--port", "0", "--host", "127.0.0.1"], **options) as engine:
        printed = ""
        while "Application startup complete." not in printed and engine.poll() is None:
            printed += engine.stderr.readline()
        engine.terminate()
        _, rest = engine.communicate(timeout=20)
    assert engine.returncode == 0, printed + rest
    assert "Traceback" not in printed + rest
    (tree / "tmp/config.json").unlink()


@debian
def test_a_folder_that_is_taken_is_refused(tree: Path) -> None:
    with pytest.raises(image.ImageError, match="wanted an empty or absent folder"):
        image.build(HOST, tree, "0.30.0")


def test_a_root_filesystem_without_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(image.ImageError, match="python3-minimal"):
        image.build(tmp_path, tmp_path / "into", "0.30.0")


def test_every_engine_file_is_in_the_image() -> None:
    controller_only = {"__main__", "image", "archive", "process"}
    folder = Path(image.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} - controller_only == set(image.ENGINE)


def test_the_engine_imports_nothing_from_outside() -> None:
    """No package, and nothing that python3-minimal lacks."""
    absent = "asyncio,http,hmac,sqlite3,ctypes,multiprocessing,concurrent,pydantic,httpx,lab.host"
    script = f"import sys, lab.standin.engine; print(set({absent.split(',')!r}) & set(sys.modules))"
    project = Path(image.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=project, check=True)
    assert done.stdout.strip() == "set()"


def test_changes_are_for_podman_import() -> None:
    assert image.changes("0.30.0") == [
        'ENTRYPOINT ["vllm"]',
        "ENV PATH=/usr/local/bin:/usr/bin:/bin",
        "ENV CUDA_VERSION=13.0.1",
        "EXPOSE 8000",
        "LABEL org.vllm-fleet.engine=0.30.0",
        "LABEL org.vllm-fleet.standin=true",
    ]


def _small_tree(folder: Path) -> Path:
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/vllm").write_text("#!/bin/sh\n")
    (folder / "usr/bin/vllm").chmod(0o755)
    (folder / "bin").symlink_to("usr/bin")
    return folder


def test_an_archive_is_the_same_wherever_and_whenever_it_is_made(tmp_path: Path) -> None:
    one, two = _small_tree(tmp_path / "one"), _small_tree(tmp_path / "two")
    os.utime(two / "usr/bin/vllm", (1, 1))
    name = "localhost/vllm-standin:0.30.0"
    digests = [archive(tree, tmp_path / f"{tree.name}.tar", name, "0.30.0") for tree in (one, two)]
    assert digests[0] == digests[1]
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    assert digests[0] != archive(one, tmp_path / "other.tar", name, "0.31.0")


def test_an_archive_holds_what_its_manifest_says(tmp_path: Path) -> None:
    digest = archive(_small_tree(tmp_path / "tree"), tmp_path / "image.tar", "localhost/vllm-standin:1", "0.30.0")
    with tarfile.open(tmp_path / "image.tar") as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    index = json.loads(files["index.json"])["manifests"][0]
    assert index["digest"] == digest
    assert index["annotations"] == {"org.opencontainers.image.ref.name": "localhost/vllm-standin:1"}
    manifest = json.loads(files[f"blobs/sha256/{digest[7:]}"])
    config = json.loads(files[f"blobs/sha256/{manifest['config']['digest'][7:]}"])
    assert config["config"]["Entrypoint"] == ["vllm"]
    assert config["config"]["Labels"]["org.vllm-fleet.engine"] == "0.30.0"
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
