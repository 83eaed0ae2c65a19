"""One step as an operation of pyinfra, for the host whose turn it is."""

import io
import shlex
from typing import Any

from pyinfra.operations import apt, files, server, systemd

from fleet.nodes.step import Step


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
            apt.update(name=step.name)
        case "install":
            apt.packages(
                name=step.name,
                packages=list(step.packages),
                no_recommends=True,
                _env={"NEEDRESTART_SUSPEND": "1"},  # it would restart engines, where a library of theirs is upgraded
            )
        case "hold":
            server.shell(name=step.name, commands=[shlex.join(("apt-mark", "hold", *step.packages))])
        case "user":
            server.user(name=step.name, user=step.path, system=True, shell="/usr/sbin/nologin", create_home=False)
        case "folder":
            owner = step.owner
            files.directory(name=step.name, path=step.path, mode=step.mode, user=owner, group=owner)
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
