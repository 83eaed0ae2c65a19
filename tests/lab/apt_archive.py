"""A small archive of packages, built and signed by the test and served on the lab's bridge."""

import gzip
import hashlib
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import partial
from pathlib import Path

from lab.lab import Lab
from lab.naming import bridge_address

NVIDIA_CTK = """#!/bin/sh
# Stands in for NVIDIA's tool: writes what the lab's hosts need as a CDI specification, with the driver's version in it.
case "$*" in
"cdi generate"*)
    for word; do case $word in --output=*) into=${word#*=} ;; esac; done
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
    from=/var/lib/vllm-fleet-lab/gpu/nvidia.yaml
    sed -E "/driver-version/d; s/libcuda\\.so\\.[0-9.]+/libcuda.so.$driver/" "$from" >"$into"
    echo "# driver-version: $driver" >>"$into"
    ;;
"system create-dev-char-symlinks"*) ;;
*) echo "nvidia-ctk (test): $*" >&2; exit 2 ;;
esac
"""


def build(folder: Path, name: str, version: str, files: dict[str, str], depends: str = "") -> Path:
    """A .deb with some executable files."""
    tree = folder / f"tree-{name}-{version}"
    control = tree / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    lines = [f"Package: {name}", f"Version: {version}", "Architecture: all", "Maintainer: test <test@localhost>"]
    lines += [f"Depends: {depends}"] if depends else []
    control.write_text("\n".join([*lines, f"Description: {name} of a test", ""]))
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
        (tree / path).chmod(0o755)
    package = folder / f"{name}_{version}_all.deb"
    command = ["dpkg-deb", "--root-owner-group", "--build", tree, package]
    subprocess.run(command, check=True, capture_output=True)
    return package


def index(folder: Path) -> None:
    """Packages and a Release, as a flat archive has them."""
    stanzas = []
    for package in sorted(folder.glob("*.deb")):
        fields = subprocess.run(["dpkg-deb", "--field", package], check=True, capture_output=True, text=True).stdout
        digest, size = hashlib.sha256(package.read_bytes()).hexdigest(), package.stat().st_size
        stanzas.append(f"{fields.strip()}\nFilename: ./{package.name}\nSize: {size}\nSHA256: {digest}\n")
    text = "\n".join(stanzas).encode()
    (folder / "Packages").write_bytes(text)
    (folder / "Packages.gz").write_bytes(gzip.compress(text))
    lines = ["Origin: test", "Label: test", "Suite: ./", f"Date: {formatdate(usegmt=True)}", "SHA256:"]
    for name in ("Packages", "Packages.gz"):
        data = (folder / name).read_bytes()
        lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}")
    (folder / "Release").write_text("\n".join([*lines, ""]))


class Signer:
    """A key of the test's own."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700)
        self.env = {**os.environ, "GNUPGHOME": str(home)}
        self._gpg("--batch", "--passphrase", "", "--quick-gen-key", "archive@localhost", "ed25519", "sign", "0")

    def _gpg(self, *words: str) -> bytes:
        return subprocess.run(["gpg", "--yes", *words], env=self.env, check=True, capture_output=True).stdout

    def public(self, path: Path) -> Path:
        """The key, armoured."""
        path.write_bytes(self._gpg("--armor", "--export", "archive@localhost"))
        return path

    def sign(self, folder: Path) -> None:
        """InRelease."""
        self._gpg("--clearsign", "--output", str(folder / "InRelease"), str(folder / "Release"))

    def close(self) -> None:
        """End the agent that gpg started for this key."""
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=self.env, check=True)


@contextmanager
def served(lab: Lab, folder: Path) -> Iterator[str]:
    """The folder over HTTP on the lab's bridge."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

    address = str(bridge_address(lab._subnet()))
    server = http.server.ThreadingHTTPServer((address, 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{address}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
