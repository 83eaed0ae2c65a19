"""From this machine to a node: rsync over ssh, with the key and the known hosts that the inventory names."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Literal

from fleet.declaration import NodeDeclaration
from fleet.delivery.delivery import Item
from fleet.delivery.manifest import ManifestFile

SSH_FAILED = 255
FILE_ERROR = 11
OF_THE_NODE = (11, 13, 14, 20, 22, 127)


class PushError(RuntimeError):
    """The files did not arrive; `blame` says where the reason lies."""

    def __init__(self, text: str, blame: Literal["source", "target"]) -> None:
        super().__init__(text)
        self.blame = blame


def ssh_words(node: NodeDeclaration) -> list[str]:
    """`ssh` as rsync calls it: host keys are always checked, nothing is asked."""
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": "10",
        "ServerAliveInterval": "10",
        "ServerAliveCountMax": "2",
    }
    words = ["ssh", "-p", str(node.ssh.port)]
    if node.ssh.known_hosts:
        options |= {"UserKnownHostsFile": node.ssh.known_hosts, "GlobalKnownHostsFile": "/dev/null"}
    if node.ssh.key:
        words += ["-i", node.ssh.key]
        options["IdentitiesOnly"] = "yes"
    return words + [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def push(node: NodeDeclaration, item: Item, files: list[ManifestFile], rate_mib_s: float | None) -> None:
    """Bring some files into the item's parts on the node; a part from a cut is gone on with. Raises PushError."""
    source = item.origin.folder or ""
    user, address = node.ssh.user, f"[{node.address}]" if ":" in node.address else node.address
    words = ["rsync", "--inplace", "--append", "--times", "--timeout=60", "--secluded-args", "-e"]
    words += [shlex.join(ssh_words(node))]
    words += [f"--bwlimit={max(1, int(rate_mib_s * 1024))}"] if rate_mib_s else []
    words += ["--rsync-path=sudo -n rsync"] if user != "root" else []
    place, names = f"{user}@{address}:{item.staging}/parts/", None
    if Path(source).is_dir():
        words += ["--files-from=-", "--", f"{source}/", place]
        names = "".join(f"./{file.path}\n" for file in files).encode()
    else:
        words += ["--", source, place + files[0].path]
    try:
        done = subprocess.run(words, input=names or b"", capture_output=True, env={**os.environ, "LC_ALL": "C"})
    except FileNotFoundError:
        raise PushError(
            "want rsync and ssh on the machine that rolls out, found none; install rsync", "source"
        ) from None
    if done.returncode:
        raise _error(done.returncode, done.stderr.decode(errors="replace"))


def _error(code: int, said: str) -> PushError:
    lines = [line for line in said.splitlines() if line.strip()][:2]
    text = f"rsync ended with {code}: {' '.join(lines)[:300]}"
    if "No space left" in said or "quota" in said.lower():
        return PushError(f"the disk is full: {text}", "target")
    if code == FILE_ERROR and not lines:  # the node's rsync ended before its message was sent
        return PushError(
            f"{text}the node could not read or write a file and did not say why; perhaps its disk is full", "target"
        )
    if code == SSH_FAILED or code in OF_THE_NODE or "ssh:" in said or code in (10, 12, 30):
        return PushError(text, "target")
    return PushError(text, "source")
