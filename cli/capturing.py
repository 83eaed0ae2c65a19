"""What `fleet capture` does on the nodes and in the inventory."""

import datetime
import difflib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli.capture import default_folder
from cli.machine import fail
from cli.session import Session, connected
from declare.invocation import Invocation
from declare.refresh import refreshed
from facts.parse.frames import ProbeError
from facts.parse.probe import parse_probe
from facts.script import probe_script
from facts.scrub import recorded
from facts.shell import run
from fleet.declaration import NodeDeclaration, Placement
from fleet.nodes.hardware import HardwareError, changed, hardware
from fleet.nodes.node import NodeFacts
from fleet.values import NODE_NAME
from operations.survey import request_for

if TYPE_CHECKING:
    from pyinfra.api.host import Host

TIMEOUT_S = 60
_HEAD = """# Written by `fleet capture`. FLEET=this folder runs every verb on the nodes as they were recorded.
fleet: {fleet}
when: "{when}"
"""


@dataclass(frozen=True)
class Wish:
    """What was asked for, as typed."""

    to: Path | None
    nodes: tuple[str, ...]
    refresh: bool
    new: str | None
    like: str | None
    yes: bool


@dataclass(frozen=True)
class Captured:
    """One node's answer, and the text that is kept of it."""

    facts: NodeFacts
    text: str


def ask(session: Session, names: Iterable[str]) -> tuple[dict[str, Captured], dict[str, str]]:
    """Each node's whole answer, without secrets; and why there is none of the others."""
    import gevent.pool

    hosts, secrets = session.hosts, session.secret.all_values

    def one(name: str) -> tuple[str, Captured | str]:
        return name, _ask(hosts[name], session.invocation.fleet.placement(name), secrets)

    done = list(gevent.pool.Pool(256).imap_unordered(one, [name for name in names if name in hosts]))
    failed = {name: "no connection (the reason is printed above)" for name in names if name not in hosts}
    failed |= {name: told for name, told in done if isinstance(told, str)}
    return {name: told for name, told in sorted(done) if isinstance(told, Captured)}, failed


def _ask(host: "Host", placement: Placement, secrets: Iterable[str]) -> Captured | str:
    """No key goes with the request: then the node tells names of secrets, and no digest."""
    script = probe_script(request_for(placement, key="", deep=True, audit=True))
    output = run(host, ("bash", "-s"), stdin=script.text, timeout_s=TIMEOUT_S)
    if output.reason is not None:
        return output.reason
    try:
        return Captured(parse_probe(output.stdout, script), recorded(output.stdout, script.request, secrets))
    except ProbeError as error:
        return str(error)


def record(invocation: Invocation, wish: Wish, as_json: bool) -> None:
    """Write the capture, and compare or write NODE.yaml where asked. Exit 1 where a node did not answer."""
    if (wish.new is None) != (wish.like is None):
        fail("--new NAME=ADDRESS and --like NODE: want both or neither")
    if wish.new is not None:
        invocation, names = _with_new(invocation, wish)
    else:
        names = _chosen(invocation, wish.nodes)
    with connected(invocation, names) as session:
        answers, failed = ask(session, names)
    folder = None if wish.new is not None and wish.to is None else _write(invocation, wish, answers)
    files = _declare(invocation, wish, answers, failed, as_json) if wish.refresh or wish.new else {}
    told = {"folder": str(folder) if folder else None, "nodes": sorted(answers)}
    told |= {"failed": failed, "differs": sorted(files)}
    if as_json:
        typer.echo(json.dumps(told, indent=1))
    else:
        _show(told, wish)
    for name, reason in failed.items():
        typer.echo(f"{name}: {reason}", err=True)
    if failed:
        raise typer.Exit(1)
    if files and not wish.yes:
        raise typer.Exit(2)


def _show(told: dict[str, object], wish: Wish) -> None:
    answers = told["nodes"]
    count = len(answers) if isinstance(answers, list) else 0
    if told["folder"]:
        nodes = f"{count} node{'s' if count != 1 else ''}"
        typer.echo(f"{told['folder']}: {nodes} recorded; run on them with FLEET={told['folder']}")
    if told["differs"] and not wish.yes:
        typer.echo("nothing was written to NODE.yaml; add --yes to do so")
    elif wish.refresh and not told["differs"]:
        typer.echo("every NODE.yaml says what its node has")


def _chosen(invocation: Invocation, nodes: tuple[str, ...]) -> list[str]:
    known = list(invocation.nodes)
    wrong = [name for name in nodes if name not in known]
    if wrong:
        fail(f"--node: want one of {', '.join(known)}, found {', '.join(wrong)}")
    return [name for name in known if not nodes or name in nodes]


def _with_new(invocation: Invocation, wish: Wish) -> tuple[Invocation, list[str]]:
    """The fleet with the new node, which has no service yet."""
    name, equals, address = str(wish.new).partition("=")
    fleet = invocation.fleet
    if not equals or not address or not NODE_NAME.fullmatch(name):
        fail(f"--new: want NAME=ADDRESS, found {wish.new!r}")
    if any(placement.node.name == name for placement in fleet.placements):
        fail(f"--new: want a node that has no NODE.yaml, found {name}; refresh it with --refresh --node {name}")
    pattern = next((p.node for p in fleet.placements if p.node.name == wish.like), None)
    if pattern is None:
        fail(f"--like: want one of {', '.join(invocation.nodes)}, found {wish.like!r}")
    node = NodeDeclaration.model_validate(
        {**pattern.model_dump(), "name": name, "address": address, "recording": None, "nvlink_islands": (), "numa": ()}
        | {"gpus": {"count": 0, "model": "-", "memory_mib": 1}}
    )
    placements = (*fleet.placements, Placement(node=node))
    return replace(invocation, fleet=fleet.model_copy(update={"placements": placements})), [name]


def _write(invocation: Invocation, wish: Wish, answers: dict[str, Captured]) -> Path:
    """The folder with capture.yaml and NODE.probe of each node; what it held of other nodes stays."""
    now = datetime.datetime.now(datetime.UTC)
    folder = (wish.to or default_folder(invocation.site.nodes_folder.name, now)).absolute()
    foreign = any(folder.glob("*.yaml")) and not (folder / "capture.yaml").exists()
    if foreign or (folder.exists() and not folder.is_dir()):
        fail(f"--to: want a folder that is new or a capture, found {folder}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fleet = os.path.relpath(invocation.site.nodes_folder, folder)
        (folder / "capture.yaml").write_text(_HEAD.format(fleet=json.dumps(fleet), when=f"{now:%Y-%m-%dT%H:%M:%SZ}"))
        for name, answer in answers.items():
            (folder / f"{name}.probe").write_text(answer.text)
    except OSError as error:
        fail(f"--to: want a folder that can be written, found {error}")
    return folder


def _declare(
    invocation: Invocation, wish: Wish, answers: dict[str, Captured], failed: dict[str, str], as_json: bool
) -> dict[str, Path]:
    """Show how each NODE.yaml would change, and change it with --yes. A node that does not tell its hardware failed."""
    files: dict[str, Path] = {}
    folder = invocation.site.nodes_folder
    for name, answer in answers.items():
        declared = invocation.fleet.placement(name).node
        try:
            found = hardware(answer.facts)
        except HardwareError as error:
            failed[name] = f"NODE.yaml is left as it is: {error}"
            continue
        path = folder / f"{name}.yaml"
        fields = found if wish.new else changed(declared, found)
        if not fields:
            continue
        old = "" if wish.new else path.read_text()
        pattern = (folder / f"{wish.like}.yaml").read_text() if wish.new else old
        text = refreshed(pattern, {"address": declared.address, **fields} if wish.new else fields)
        files[name] = path
        lines = difflib.unified_diff(
            old.splitlines(keepends=True), text.splitlines(keepends=True), str(path) if old else "/dev/null", str(path)
        )
        typer.echo("".join(lines), nl=False, err=as_json)
        if wish.yes:
            path.write_text(text)
    return files
