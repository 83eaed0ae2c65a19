"""Group data for the nodes of any lab: this project's own, with the images of that lab."""

import os
from pathlib import Path

import yaml

from lab import host
from lab.engine import hosts

SOURCE = Path(__file__).resolve().parent.parent / "group_data"


def write(folder: Path, state: Path) -> None:
    """`folder`/*.yaml as in this project's group_data; `state` is the folder that has the lab's image digests."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(SOURCE.glob("*.yaml")):
        data = yaml.safe_load(path.read_text())
        for image in data.get("images", {}).values():
            if "digest_file" in image:
                image["digest_file"] = os.path.relpath(state / Path(image["digest_file"]).name, folder)
        host.write_atomically(folder / path.name, yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110))


def write_real(folder: Path, python: Path, digest: str) -> None:
    """`folder`/all.yaml for a lab with a real engine: one service of a tiny model on every node."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.yaml"):
        old.unlink()
    tiny = hosts.service(digest, python)
    document = {"services": {"tiny": tiny}, "rollout": {"batches": [1, "100%"], "min_free_gib": 0.1}}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    host.write_atomically(folder / "all.yaml", text)
