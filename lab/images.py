"""The images that every lab host can run: built once, kept in a cache, shared read-only as an additional image store.

So an image takes no room on a host and no time at its boot, and 100 hosts have it under the same digest.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from lab import host, rootfs

NAME = "localhost/vllm-standin"
VERSIONS = ("0.30.0", "0.33.0")
REAL = "vllm-cpu"
"""The name in the digests of the image for a real engine."""
DIGESTS = "digests.json"

# In a mount namespace of its own, with the installed Debian read-only; podman needs /proc, /sys, locks and room.
LOAD = """
set -eu
root=$1 work=$2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/dev"
mkdir "$root/dev/shm"
mknod "$root/dev/null" c 1 3
for place in run tmp; do mount -t tmpfs tmpfs "$root/$place"; done
mkdir "$root/tmp/work"
mount --bind "$work" "$root/tmp/work"
mount --bind "$work/store" "$root/usr/lib/containers/store"
shift 2
for archive; do
    TMPDIR=/tmp PODMAN_IGNORE_CGROUPSV1_WARNING=1 chroot "$root" podman --root /usr/lib/containers/store \
        --runroot /run/podman --storage-driver overlay --events-backend none load --quiet --input "/tmp/work/$archive"
done
"""


def ensure(root: Path, progress: Callable[[str], None]) -> Path:
    """The folder with `store/` for podman and the images' digests; built where the cache has none."""
    folder = host.cache_root() / f"images-{_digest(root)}"
    if folder.is_dir():
        return folder
    with rootfs.building(folder, progress) as beside:
        if beside is not None:
            progress("building the stand-in engine's images (once)")
            _build(root, beside)
    return folder


def digests(folder: Path) -> dict[str, str]:
    """Digest of each image: of the stand-in by version, as in `localhost/vllm-standin@sha256:...`, and REAL's."""
    found: dict[str, str] = json.loads((folder / DIGESTS).read_text())
    return found


def _digest(root: Path) -> str:
    """Changes with the root file system, with the engine's source and with this file."""
    total = hashlib.sha256(root.name.encode())
    here = Path(__file__).parent
    for path in [Path(__file__), *sorted((here / "standin").rglob("*.py")), here / "engine/image.py"]:
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:12]


def _real(into: Path) -> str:
    """The image of the real engine: an empty tree, in which a host's folders are laid (see lab/engine/image.py)."""
    from lab.engine import image, venv
    from lab.standin.archive import archive

    tree = image.build(into / "tree-real", venv.DEFAULT)
    name, labels = f"{image.NAME}:{venv.DEFAULT}", image.labels(venv.DEFAULT)
    digest = archive(tree, into / f"{REAL}.tar", name, venv.DEFAULT, labels, image.PATH)
    shutil.rmtree(tree)
    return digest


def _build(root: Path, into: Path) -> None:
    from lab.standin.archive import archive
    from lab.standin.image import build

    (into / "store").mkdir()
    made = {}
    for version in VERSIONS:
        tree = build(root, into / f"tree-{version}", version)
        made[version] = archive(tree, into / f"{version}.tar", f"{NAME}:{version}", version)
        shutil.rmtree(tree)
    made[REAL] = _real(into)
    archives = [f"{name}.tar" for name in made]
    command = ["unshare", "--mount", "sh", "-c", LOAD, "load", str(root), str(into), *archives]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise host.LabError(f"podman load of the stand-in's images failed: {done.stderr.strip()}")
    for name in archives:
        (into / name).unlink()
    (into / DIGESTS).write_text(json.dumps(made, indent=2) + "\n")
