"""From a bare machine to a node: what each still needs is looked up, shown, and done by pyinfra's own operations."""

import io
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gevent.lock import RLock
from gevent.pool import Pool
from pyinfra.api.exceptions import DeployError
from pyinfra.operations import apt, files, server, systemd

from declare.host import read_keys
from declare.invocation import Invocation
from declare.problem import DeclarationError
from facts.parse.bare import SECTIONS, parse_bare
from facts.parse.frames import ProbeError
from facts.script import sections_script
from facts.shell import run
from fleet.declaration import Placement
from fleet.nodes.bare import MachineFacts
from fleet.nodes.bootstrap import CDI_UNIT, Bootstrap, Step, decide, managed_paths, sysctl_settings, wanted_files
from fleet.nodes.node import ProbeRequest
from operations.node_script import support_files
from operations.prepare import PROJECT, hosts_of
from operations.show import console

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

READ_WHOLE = """exec bash -c 'text=$(cat); eval "$text"'"""
_guard = RLock()
_begun: list["Bootstrapping | Exception"] = []


@dataclass
class Bootstrapping:
    """One run."""

    invocation: Invocation
    hosts: dict[str, "Host"]
    found: dict[str, Bootstrap] = field(default_factory=dict)
    running: dict[str, frozenset[str]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def steps(self, node: str) -> list[Step]:
        """What is done on this node now; a reboot comes later, one node at a time."""
        return [step for step in self.found[node].steps if step.kind != "reboot"]

    @property
    def rebooting(self) -> list[str]:
        """Nodes that are rebooted in this run, one after the other: only where the owner said so."""
        due = [name for name, found in sorted(self.found.items()) if any(s.kind == "reboot" for s in found.steps)]
        return [name for name in due if name in self.hosts] if self.invocation.overrides.reboot else []


def _look(host: "Host", placement: Placement) -> MachineFacts | str:
    keys = read_keys(placement.host)
    wanted = wanted_files(placement.host, keys, support_files())
    request = ProbeRequest(
        sysctls=tuple(sorted(sysctl_settings(placement.host))),
        users=(placement.host.user,) if placement.host.user else (),
        managed=managed_paths(placement.host, wanted),
    )
    script = sections_script(SECTIONS, request)
    output = run(host, READ_WHOLE, stdin=script.text, timeout_s=90)
    if output.reason:
        return output.reason
    try:
        return parse_bare(output.stdout, script)
    except ProbeError as error:
        return f"{error}{output.tail()}"


def look(run: Bootstrapping) -> None:
    """Every node at once: what it still needs."""
    units = {CDI_UNIT: (PROJECT / "templates/vllm-fleet-cdi.service").read_text(encoding="utf-8")}

    def one(name: str) -> None:
        placement = run.invocation.fleet.placement(name)
        facts = _look(run.hosts[name], placement)
        if isinstance(facts, str):
            run.unread[name] = facts
            return
        run.running[name] = facts.running
        keys = read_keys(placement.host)
        run.found[name] = decide(placement.node, placement.host, facts, keys, support_files(), units)

    Pool(256).map(one, sorted(run.hosts))


def begin(state: "State", invocation: Invocation) -> Bootstrapping:
    """The one run of this process: looked at and shown by the first host. DeployError where a node is refused."""
    with _guard:
        if not _begun:
            try:
                _begun.append(_prepare(state, invocation))
            except DeclarationError as error:
                _begun.append(DeployError(str(error)))
            except Exception as error:
                _begun.append(error)
        if isinstance(_begun[0], Exception):
            raise _begun[0]
        return _begun[0]


def _prepare(state: "State", invocation: Invocation) -> Bootstrapping:
    hosts, silent = hosts_of(state)
    run = Bootstrapping(invocation=invocation, hosts=hosts)
    look(run)
    run.unread |= {name: answer.reason or "no answer" for name, answer in silent.items()}
    out = console(invocation.json)
    for name, found in sorted(run.found.items()):
        out.print(f"[bold]{name}[/]: {len(found.steps)} steps" if found.steps else f"[bold]{name}[/]: as declared")
        for step in found.steps:
            told = (
                " (only with --data reboot=true)" if step.kind == "reboot" and not invocation.overrides.reboot else ""
            )
            out.print(f"    {step.name}{told}", markup=False, soft_wrap=True)
        for note in found.notes:
            out.print(f"    note: {note}", markup=False, soft_wrap=True)
        for refusal in found.refused:
            out.print(f"refused  {name}: {refusal}", style="bold red", markup=False, soft_wrap=True)
    for name, reason in sorted(run.unread.items()):
        out.print(f"silent  {name}: {reason}", style="bold red", markup=False, soft_wrap=True)
    _refuse(state, run)
    if not any(found.steps for found in run.found.values()):
        out.print("\n[green]Nothing to do[/]: every machine is as declared.")
    return run


def _refuse(state: "State", run: Bootstrapping) -> None:
    policy = run.invocation.fleet.rollout
    refused = {name: found.refused[0] for name, found in run.found.items() if found.refused}
    reboots = {
        name: f"a reboot is due, and {', '.join(sorted(run.running[name]))} runs there; stop it first"
        for name in run.rebooting
        if run.running.get(name)
    }
    if (refused or reboots) and policy.on_failed_gate == "stop":
        told = "; ".join(f"{name}: {why}" for name, why in [*refused.items(), *reboots.items()])
        raise DeployError(f"refused, nothing was changed: {told}")
    if run.unread and policy.on_unreachable == "stop":
        raise DeployError(f"refused, nothing was changed: no answer of {', '.join(sorted(run.unread))}")
    gone = {*refused, *reboots, *run.unread}
    for name in gone:
        run.hosts.pop(name, None)
    if not run.hosts:
        raise DeployError("refused: no node is left; nothing was changed")
    leaving = {host for host in state.active_hosts if host.name in gone}
    if leaving:
        state.fail_hosts(leaving)


def perform(step: Step) -> None:
    """One step as an operation of pyinfra, for the host whose turn it is."""
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
            apt.packages(name=step.name, packages=list(step.packages), no_recommends=True)
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
        case "reboot":
            server.reboot(name=step.name, delay=5, reboot_timeout=900)


def _unit(step: Step) -> None:
    (unit,) = step.packages
    match step.mode:
        case "enable":
            systemd.service(name=step.name, service=unit, running=None, enabled=True)
        case "restart":
            systemd.service(name=step.name, service=unit, restarted=True, enabled=True)
        case _:
            systemd.service(name=step.name, service=unit, running=True, enabled=True)


def check(state: "State", host: "Host", run: Bootstrapping) -> bool:
    """After all steps the machine must be as declared: what is left is told, and is a failure."""
    placement = run.invocation.fleet.placement(host.name)
    facts = _look(host, placement)
    if isinstance(facts, str):
        host.log(f"it could not be looked at again: {facts}")
        return False
    units = {CDI_UNIT: (PROJECT / "templates/vllm-fleet-cdi.service").read_text(encoding="utf-8")}
    left = decide(placement.node, placement.host, facts, read_keys(placement.host), support_files(), units)
    for refusal in left.refused:
        host.log(f"still: {refusal}")
    open_steps = [step for step in left.steps if step.kind != "reboot"]
    for step in open_steps:
        host.log(f"still to do after all steps: {step.name}")
    return not (open_steps or left.refused)
