"""Group data for the nodes of any lab: this project's own, with the images of that lab."""

import os
from pathlib import Path

import yaml

from lab import host

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
