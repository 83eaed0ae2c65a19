"""Small images as archives: an honest one, and one that lies about what it holds."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from lab.standin.archive import archive

NAME = "localhost/tiny"


def tiny(folder: Path, content: str, tag: str = "1") -> tuple[str, Path]:
    """The digest of an image of one file, and its archive (OCI)."""
    tree = folder / f"tree-{content}"
    tree.mkdir(parents=True)
    (tree / "content").write_text(f"{content}\n")
    file = folder / f"{content}.tar"
    return archive(tree, file, f"{NAME}:{tag}", "0.30.0"), file


def liar(folder: Path) -> Path:
    """A docker-archive: it does not say which digest its image has, so that it can be declared under any."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        _add(tar, "content", b"another image\n")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]},
    }
    text = json.dumps(config).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [f"{NAME}:liar"], "Layers": ["layer.tar"]}]
    file = folder / "liar.tar"
    with tarfile.open(file, "w") as tar:
        for member, data in (("layer.tar", layer.getvalue()), (name, text), ("manifest.json", _json(manifest))):
            _add(tar, member, data)
    return file


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))
