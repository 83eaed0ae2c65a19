"""A node's folders under a temporary root, and the probe's real bash run on them. Needs bash, no root and no lab."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

from facts.script import ProbeScript, probe_script, sections_script
from fleet.nodes.request import ProbeRequest
from fleet.releases.command import NODE_SCRIPT, STATE

CURRENT, OLD = "0123456789abcdef", "fedcba9876543210"
DIGEST = "sha256:" + "ab" * 32


class FakeNode:
    """Folders that look like a node's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state"
        self.units = root / "units"
        self.store = root / "store"
        self.units.mkdir()
        (root / "storage.conf").write_text(f'# graphroot = "/wrong"\n[storage]\ngraphroot = "{self.store}"\n')

    def release(self, service: str, release: str, **files: str) -> Path:
        """A release folder with its files (dots of names written as underscores) and a plan."""
        folder = self.state / service / "releases" / release
        folder.mkdir(parents=True)
        for name, text in {"plan_json": "{}", **files}.items():
            (folder / name.replace("_", ".")).write_text(text)
        return folder

    def mark(self, service: str, **marks: str) -> None:
        """proven, previous, pending; current as a link."""
        for name, text in marks.items():
            if name == "current":
                (self.state / service / "current").symlink_to(f"releases/{text}")
            else:
                (self.state / service / name).write_text(text)

    def image(self, *names: str, digest: str = DIGEST, engine: str | None = None) -> None:
        """An image in the store, as containers/storage writes it."""
        folder = self.store / "overlay-images"
        listing = folder / "images.json"
        images = json.loads(listing.read_text()) if listing.exists() else []
        image = {"id": f"{len(images):064x}", "digest": digest, "names": list(names), "layer": "0", "metadata": "{}"}
        (folder / image["id"]).mkdir(parents=True)
        labels = {"org.vllm-fleet.engine": engine} if engine else {}
        config = {"config": {"Labels": labels, "Cmd": ["x"]}, "rootfs": {}}
        (folder / image["id"] / "=c2hhMjU2").write_text(json.dumps(config, separators=(",", ":")))
        listing.write_text(json.dumps([*images, image], separators=(",", ":")))

    def runtime(self, text: str) -> None:
        """What stands in for podman where the store does not tell: a shell text. Its storage was laid out before."""
        self.store.mkdir(exist_ok=True)
        (self.store / "db.sql").touch()
        program = self.root / "podman"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)

    def program(self, name: str, text: str) -> None:
        """A program that the node's PATH finds first: a shell text."""
        (self.root / "bin").mkdir(exist_ok=True)
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def ask(self, request: ProbeRequest, *sections: str) -> tuple[str, ProbeScript]:
        """The output of these sections, or of the whole probe, with this node's paths put back to a real node's."""
        script = sections_script(sections, request) if sections else probe_script(request)
        text = script.text
        paths = {
            "state": (self.state, STATE),
            "unit_folder": (self.units, "/etc/systemd/system"),
            "node_script": (self.root / "node", NODE_SCRIPT),
            "cdi_folder": (self.root / "cdi", "/etc/cdi"),
            "selinux_folder": (self.root / "selinux", "/sys/fs/selinux"),
            "storage_conf": (self.root / "storage.conf", "/etc/containers/storage.conf"),
            "runtime_program": (self.root / "podman", "/usr/bin/podman"),
        }
        for name, (here, _) in paths.items():
            line = f"{name}={shlex.quote(str(here))}"
            text = re.sub(rf"^{name}=.*$", lambda _, line=line: line, text, count=1, flags=re.MULTILINE)
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        output = subprocess.run(
            ["bash", "-s"], input=text.encode(), capture_output=True, timeout=60, check=True, env=environment
        )
        answer = output.stdout.decode()
        for here, real in paths.values():
            answer = answer.replace(str(here), real)
        return answer, script
