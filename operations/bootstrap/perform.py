"""One step as an operation of pyinfra, for the host whose turn it is."""

import io
import shlex
from typing import Any

from pyinfra.operations import apt, files, server, systemd

from fleet.nodes.step import Step

PATIENCE_S = 300
"""That another program may go on working with packages, as unattended-upgrades does on a machine that is new."""
_LOCKED = "*'get lock'* | *'lock was locked'* | *'Unable to lock'*"
_APT = f"""
set -f
for try in $(seq {PATIENCE_S // 5}); do
  if said=$("$@" 2>&1); then
    for url in $archives; do
      case $said in *"Failed to fetch ${{url%/}}"[/' ']*)
        printf 'want the package lists of %s, found:\\n%s\\n' "$url" "$said" >&2
        exit 1 ;;
      esac
    done
    printf '%s\\n' "$said"
    exit 0
  fi
  case $said in {_LOCKED}) sleep 5 ;; *) break ;; esac
done
printf '%s\\n' "$said" >&2
exit 1
"""


def _apt(*words: str, archives: tuple[str, ...] = ()) -> str:
    """A command of apt that waits for whoever has its locks: for those of the lists apt has no setting.

    `archives`: those that must answer. For apt-get it is a warning where one does not.
    """
    told = ("LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", f"archives={' '.join(archives)}")
    return shlex.join(("env", *told, "sh", "-c", _APT, "sh", *words))


def perform(step: Step) -> None:
    """Do it; what a field of the step means depends on its kind."""
    match step.kind:
        case "file":
            data = step.text.encode("utf-8", "surrogateescape")
            text: Any = io.StringIO(step.text) if data.isascii() else io.BytesIO(data)
            owned = {"mode": step.mode, "user": "root", "group": "root", "create_remote_dir": True}
            if step.mode == "755":  # a script that may run at this moment must not change under its reader
                files.put(name=step.name, src=text, dest=f"{step.path}.new", **owned)
                server.shell(
                    name=f"{step.name}: rename", commands=[shlex.join(("mv", "-fT", f"{step.path}.new", step.path))]
                )
            else:
                files.put(name=step.name, src=text, dest=step.path, **owned)
        case "update":
            server.shell(name=step.name, commands=[_apt("apt-get", "-y", "update", archives=step.packages)])
        case "install":
            apt.packages(
                name=step.name,
                packages=list(step.packages),
                no_recommends=True,
                extra_install_args=f"-o DPkg::Lock::Timeout={PATIENCE_S}",
                _env={"NEEDRESTART_SUSPEND": "1"},  # it would restart engines, where a library of theirs is upgraded
            )
        case "hold":
            server.shell(name=step.name, commands=[_apt("apt-mark", "hold", *step.packages)])
        case "user":
            server.user(name=step.name, user=step.path, system=True, shell="/usr/sbin/nologin", create_home=False)
        case "folder":
            files.directory(name=step.name, path=step.path, mode=step.mode, user=step.owner, group=step.group)
        case "command":
            server.shell(name=step.name, commands=[shlex.join(step.command)])
        case "unit":
            _unit(step)


def _unit(step: Step) -> None:
    (unit,) = step.packages
    match step.mode:
        case "enable":
            systemd.service(name=step.name, service=unit, running=None, enabled=True)
        case "restart":
            systemd.service(name=step.name, service=unit, restarted=True, enabled=True)
        case _:
            systemd.service(name=step.name, service=unit, running=True, enabled=True)
