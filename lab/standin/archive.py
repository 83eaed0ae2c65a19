"""Writes a folder as an OCI image archive, byte for byte the same from the same files.

`podman import` stamps the time into every image, so each node would have the image under another digest. Here every
time is 0, every owner is root and the order is by name; `podman load` then gives the same digest everywhere.
The layer is not compressed: it travels over a local bridge, and sixty nodes would have to inflate it.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from . import image

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def archive(
    tree: Path,
    into: Path,
    name: str,
    version: str,
    labels: dict[str, str] | None = None,
    path: str = image.PATH,
) -> str:
    """Writes `tree` as the OCI archive `into`, to be loaded as `name` (such as localhost/vllm-standin:0.30.0).

    Without `labels` it has those of the stand-in. Gives the digest of its manifest, `sha256:...`, which is what podman
    calls the image's digest.
    """
    layer = _layer(tree)
    blobs = {_digest(layer): layer}
    labels = image.labels(version) if labels is None else labels
    config = _json(_config(labels, path, _digest(layer)))
    blobs[_digest(config)] = config
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
            "annotations": labels,
        }
    )
    blobs[_digest(manifest)] = manifest
    index = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    index["annotations"] = {"org.opencontainers.image.ref.name": name}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [index]}),
        **{f"blobs/sha256/{digest[7:]}": data for digest, data in blobs.items()},
    }
    with tarfile.open(into, "w", format=tarfile.PAX_FORMAT) as out:
        for path, data in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return _digest(manifest)


def _layer(tree: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(tree.rglob("*")):
            member = tar.gettarinfo(path, str(path.relative_to(tree)))
            member.uid = member.gid = member.mtime = 0
            member.uname = member.gname = "root"
            if member.isreg():
                with path.open("rb") as file:
                    tar.addfile(member, file)
            else:
                tar.addfile(member)
    return out.getvalue()


def _config(labels: dict[str, str], path: str, layer: str) -> dict[str, object]:
    return {
        "created": "1970-01-01T00:00:00Z",
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "Entrypoint": ["vllm"],
            "Env": [f"PATH={path}", f"CUDA_VERSION={image.CUDA}"],
            "ExposedPorts": {"8000/tcp": {}},
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "lab.standin.archive"}],
    }


def _descriptor(kind: str, data: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(data), "size": len(data)}


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
