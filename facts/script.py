"""The shell text that a node is asked with: the request's values, each quoted once, before constant files.

No value is ever put into a command line: the head assigns variables, and the body (`sections/`, `probe.sh`) is the
same for every node and every run.
"""

import secrets
import shlex
from functools import cache
from pathlib import Path

from facts.parse.gpus import FIELDS
from fleet.frozen import Frozen
from fleet.nodes.node import BUSY_MIB
from fleet.nodes.request import ProbeRequest
from fleet.releases.places import NODE_SCRIPT, RUNTIMES, STATE

DEADLINE_S = 20
"""Seconds until a node's probe ends what hangs; the frames that arrived still count."""

UNIT_FOLDER = "/etc/systemd/system"
STORAGE_CONF = "/etc/containers/storage.conf"
SELINUX_FOLDER = "/sys/fs/selinux"
CDI_FOLDER = "/etc/cdi"

HERE = Path(__file__).parent


class ProbeScript(Frozen):
    """What is sent to `bash -s`, and the random word that frames its answer."""

    text: str
    nonce: str
    request: ProbeRequest


def probe_script(request: ProbeRequest) -> ProbeScript:
    """The whole probe of a rollout."""
    return _script(request, "probe")


def sections_script(sections: tuple[str, ...], request: ProbeRequest) -> ProbeScript:
    """Some sections alone: `gpus`, `topology`, `numa`, ... as the files in sections/ are named."""
    return _script(request, f"some {shlex.join(sections)}")


def _script(request: ProbeRequest, call: str) -> ProbeScript:
    nonce = secrets.token_hex(8)
    text = f"{_head(request, nonce)}{_body()}{call} </dev/null\n"
    return ProbeScript(text=text, nonce=nonce, request=request)


def _head(request: ProbeRequest, nonce: str) -> str:
    words = {
        "nonce": nonce,
        "deadline_s": str(DEADLINE_S),
        "state": STATE,
        "node_script": NODE_SCRIPT,
        "unit_folder": UNIT_FOLDER,
        "storage_conf": STORAGE_CONF,
        "cdi_folder": CDI_FOLDER,
        "selinux_folder": SELINUX_FOLDER,
        "gpu_fields": ",".join(FIELDS),
        "runtime": request.runtime,
        "runtime_program": RUNTIMES[request.runtime],
        "secret_key": request.secret_key,
        "busy_mib": str(BUSY_MIB),
        "deep": "yes" if request.deep else "",
        "audit": "1" if request.audit else "",
    }
    lists = {
        "services": [service.name for service in request.services],
        "models": sorted({service.model for service in request.services}),
        "mounts": sorted({mount for service in request.services for mount in service.mounts}),
        "checkpoint_paths": [wanted.path for wanted in request.checkpoints],
        "checkpoint_digests": [wanted.digest for wanted in request.checkpoints],
        "checkpoint_keys": [wanted.key for wanted in request.checkpoints],
        "names": request.names,
        "peer_names": [peer.name for peer in request.peers],
        "peer_addresses": [peer.address for peer in request.peers],
        "peer_ports": [str(peer.port) for peer in request.peers],
        "sysctls": request.sysctls,
        "users": request.users,
        "managed": request.managed,
        "images": sorted({service.image for service in request.services}),
    }
    lines = [f"{name}={shlex.quote(word)}" for name, word in words.items()]
    lines += [f"{name}=({shlex.join(items)})" for name, items in lists.items()]
    return "\n".join(lines) + "\n"


@cache
def _body() -> str:
    """The constant files, without their comments: they are read here, not on each node."""
    files = sorted((HERE / "sections").glob("*.sh"), key=lambda path: (path.name != "frame.sh", path.name))
    lines = [line for path in (*files, HERE / "probe.sh") for line in path.read_text().splitlines()]
    return "".join(f"{line.lstrip()}\n" for line in lines if line.strip() and not line.lstrip().startswith("#"))
