"""What deliveries left on a node and nothing needs: shown first, taken away only where `--data clean=true` says so."""

import base64
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gevent.pool import Pool
from pyinfra.api.exceptions import DeployError

from fleet.delivery.delivery import record_key
from fleet.delivery.leftover import Brought, Leftover, leftovers
from fleet.releases.places import RUNTIMES
from operations.delivery.call import NodeFailed, call
from operations.delivery.run import Delivery
from operations.delivery.turn import Turn
from operations.lock import LockError, Locks

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from rich.console import Console

GIB = 1 << 30


@dataclass(frozen=True)
class Doomed:
    """What goes of one node: what arrived or was replaced, and what was brought. `stays`: what does not, and why."""

    rests: tuple[str, ...] = ()
    """Gatherings of contents that the node does not lack, and folders that a delivery replaced."""
    folders: tuple[Leftover, ...] = ()
    images: tuple[Leftover, ...] = ()
    stays: tuple[Leftover, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that goes, as it is shown."""
        return (*self.rests, *(one.name for one in (*self.folders, *self.images)))


def doomed(run: Delivery, host: "Host") -> Doomed | str:
    """What goes of a node, or why that is not known."""
    rests = _rests(run, host.name)
    lines = _ask(run, host, rests)
    if isinstance(lines, str):
        return lines
    judged, users = _judged(run, host.name, lines), _users(lines)
    going = [one for one in judged if one.kept is None]
    return Doomed(
        rests=tuple(path for path in rests if path not in users),
        folders=tuple(one for one in going if one.bytes is not None),
        images=tuple(one for one in going if one.bytes is None),
        stays=(
            *(one for one in judged if one.kept is not None),
            *(Leftover(name=path, kept=f"{users[path]} uses it") for path in rests if path in users),
        ),
    )


def _rests(run: Delivery, node: str) -> list[str]:
    look, needs = run.found.looks[node], run.found.needs.get(node, ())
    wanted = {run.found.items[need.item].staging for need in needs if need.action != "none"}
    gone = set()
    for folder in look.folders:
        parent, name = posixpath.split(folder.path)
        for other in folder.beside:
            ours = other.startswith(f".{name}.replaced.") or (
                other.startswith(f".{name}.") and other.endswith(".delivery")
            )
            if ours and f"{parent}/{other}" not in wanted:
                gone.add(f"{parent}/{other}")
    return sorted(gone)


def _ask(run: Delivery, host: "Host", suspects: list[str]) -> str | list[str]:
    """The node's answer, line by line, or why there is none."""
    runtime = RUNTIMES[run.fleet.placement(host.name).node.runtime]
    declared = [service.model for service in run.fleet.placement(host.name).services]
    values = {"suspects": suspects, "runtime_program": runtime, "declared_paths": declared}
    told = call(host, "leftovers", values, timeout_s=120)
    return told.reason or told.stdout.splitlines()


def _users(lines: list[str]) -> dict[str, str]:
    return dict(line[5:].split("\t", 1) for line in lines if line.startswith("used=") and "\t" in line)


def _judged(run: Delivery, node: str, lines: list[str]) -> tuple[Leftover, ...]:
    users, brought, releases, links = _users(lines), [], {}, list[tuple[str, str]]()
    for line in lines:
        if match := re.fullmatch(r"brought=(\d+) (/.+)", line):
            brought.append(Brought(name=match[2], bytes=int(match[1]) << 10, user=users.get(match[2])))
        elif line.startswith("loaded="):
            brought.append(Brought(name=line[7:]))
        elif match := re.fullmatch(r"plan=(\S+) (\S*)", line):
            releases[match[1]] = base64.b64decode(match[2]).decode(errors="replace")
        elif match := re.fullmatch(r"leads=(\S+) (/.*)", line):
            links.append((match[1], match[2]))
    declared = _declared(run, node)
    for name, path in links:  # a link is as good as what it leads to
        if name == "declared":
            declared += f'\n"{path}"'
        else:
            releases[name] = f'{releases.get(name, "")}\n"{path}"'
    return leftovers(brought, declared, releases)


def _declared(run: Delivery, node: str) -> str:
    """Every service that is declared for a node, and what others are to have from it."""
    texts = [service.model_dump_json() for service in run.fleet.placement(node).services]
    for other in run.fleet.placements:
        for service in other.services:
            checkpoint = service.checkpoint
            if checkpoint is not None and checkpoint.peer == node:
                texts.append(f'"{checkpoint.folder or service.model}"')
    return "\n".join(texts)


def show(out: "Console", run: Delivery) -> None:
    """Say what goes and what stays, for all nodes; the same list for the report. DeployError where it is not known."""
    run.doomed = dict(Pool(256).map(lambda name: (name, doomed(run, run.hosts[name])), sorted(run.hosts)))
    for node, found in run.doomed.items():
        if isinstance(found, str):
            run.stop(f"{node}: what may be cleaned is not known: {found}")
            continue
        sizes = {one.name: f"  {one.bytes / GIB:.2f} GiB" for one in found.folders if one.bytes is not None}
        for name in found.names:
            run.cleaned.append(f"{node}:{name}")
            out.print(f"clean  {node}:{name}{sizes.get(name, '')}", markup=False, soft_wrap=True)
        for one in found.stays:
            out.print(f"stays  {node}:{one.name}: {one.kept}", markup=False, soft_wrap=True)
    if not run.cleaned:
        out.print("clean: nothing that deliveries left is there")
    if run.stopped:
        raise DeployError(run.stopped)


def clean(run: Delivery) -> None:
    """Take away what was shown, under the rollout's lock: no release may be staged meanwhile that needs it."""
    going = {name: run.hosts[name] for name, found in run.doomed.items() if isinstance(found, Doomed) and found.names}
    locks = Locks(going, run.id, run.stop)
    try:
        locks.acquire(run.fleet.rollout.lock_lease_s)
    except LockError as error:
        run.stop(str(error))
        return
    try:
        Pool(256).map(lambda name: _clean(run, going[name]), sorted(going))
    finally:
        locks.release()


def _clean(run: Delivery, host: "Host") -> None:
    now, shown = doomed(run, host), run.doomed[host.name]
    if isinstance(now, str) or isinstance(shown, str):
        run.stop(f"{host.name}: nothing was cleaned: {now}")
        return
    folders = [one.name for one in now.folders if one.name in shown.names]
    turn = Turn(run, host)
    try:
        turn.must("begin", stagings=[], secret="")
        turn.must(
            "clean",
            doomed=[path for path in now.rests if path in shown.names],
            folders=folders,
            folder_keys=[record_key(path) for path in folders],
            unneeded=[one.name for one in now.images if one.name in shown.names],
            runtime_program=RUNTIMES[run.fleet.placement(host.name).node.runtime],
        )
    except NodeFailed as error:
        run.stop(f"{host.name}: {error}")
    finally:
        turn.end()
