"""`fleet cmd SERVICE [NODE]`: the exact command and env that a unit would run. Starts nothing."""

import json
import shlex
from collections.abc import Container
from pathlib import Path
from typing import Any

import typer

from cli.machine import fail, refused_by
from cli.session import connected, placed
from declare.invocation import Invocation
from declare.problem import DeclarationError
from declare.reader import read_json
from fleet.declaration import LayoutDeclaration, NodeDeclaration, ServiceDeclaration
from fleet.layouts.layout import usable_gpus
from fleet.plan import Plan, decide
from fleet.releases.command import container_argv, engine_argv, engine_env
from operations.show import console, print_gates


def document(plan: Plan) -> dict[str, Any]:
    """The command of a plan for machines, and what `--check` compares. Secrets are masked."""
    return {
        "service": plan.service.name,
        "node": plan.node.name,
        "argv": list(engine_argv(plan)),
        "env": {**engine_env(plan), **dict.fromkeys(sorted(plan.service.secrets), "***")},
        "command": list(container_argv(plan)),
    }


def preview(invocation: Invocation, service: str, node: str | None, as_json: bool) -> None:
    """Ask the nodes, judge all gates, print each command. Exit 1 where a gate fails."""
    nodes = placed(invocation.fleet, service, node)
    with connected(invocation, nodes) as session:
        found = session.survey()
    about = [v for v in found.verdicts if v.service in (None, service)]
    print_gates(console(machine=True), about)
    if any(v.stops for v in about):
        refused_by(about)
    documents = [document(p) for p in found.plans if p.service.name == service]
    if as_json:
        typer.echo(json.dumps(documents[0] if len(documents) == 1 else documents, indent=1, ensure_ascii=False))
        return
    for each in documents:
        typer.echo(f"# {each['service']} on {each['node']}")
        for name, value in sorted(each["env"].items()):
            typer.echo(f"export {name}={value if value == '***' else shlex.quote(value)}")
        typer.echo(shlex.join(each["command"]) + "\n")


def check(invocation: Invocation, service: str, node: str | None, golden: Path, as_json: bool = False) -> None:
    """Compare the command with a recorded one, item by item and in order, without contact. Exit 2 on drift."""
    nodes = placed(invocation.fleet, service, node)
    if len(nodes) != 1:
        fail(f"--check compares one node: want a NODE, one of {', '.join(nodes)}")
    recorded = _golden(golden)
    placement = invocation.fleet.placement(nodes[0])
    declared = next(s for s in placement.services if s.name == service)
    if (open_question := _needs_the_node(placement.node, declared) or _repaired(recorded, declared)) is not None:
        fail(f"{service} on {nodes[0]}: --check asks no node, and {open_question}")
    plan = decide(placement, declared, None, invocation.fleet.evidence, invocation.fleet.patches)
    if plan.layout is None:
        fail(f"{service} on {nodes[0]}: {plan.layout_error}; set layout, for example --data tp=8 --data pp=1")
    now = document(plan)
    drift = [*_list_drift(recorded["argv"], now["argv"]), *_env_drift(recorded["env"], now["env"], declared.secrets)]
    if as_json:
        typer.echo(json.dumps({"service": service, "node": nodes[0], "drift": drift}, indent=1, ensure_ascii=False))
    else:
        typer.echo("".join(f"{line}\n" for line in drift), nl=False)
    same = f"{len(now['argv'])} words of argv and {len(now['env'])} env as in {golden}"
    told = f"{len(drift)} difference{'s' if len(drift) > 1 else ''} from {golden}" if drift else same
    if drift or not as_json:
        typer.echo(f"{service} on {nodes[0]}: {told}", err=bool(drift))
    if drift:
        raise typer.Exit(2)


def _repaired(recorded: dict[str, Any], service: ServiceDeclaration) -> str | None:
    """A pattern that was laid over a boundary follows from the checkpoint; where the owner declares one it is his."""
    name = "index_topk_pattern"
    if name in json.dumps(service.hf_overrides) or not any(name in str(word) for word in recorded["argv"]):
        return None
    return f"the {name} in it follows from the checkpoint there: declare it in hf_overrides, or boundary.repair: none"


def _links_matter(node: NodeDeclaration, service: ServiceDeclaration, layout: LayoutDeclaration) -> bool:
    """Is there a choice of groups between GPUs of which only the node's own topology tells how near they are?"""
    gpus = set(usable_gpus(node, service))
    joined = {gpu for island in node.nvlink_islands for gpu in island}
    one_group = layout.tp == len(gpus) or layout.tp * layout.pp * layout.dp == 1
    return not one_group and not gpus <= joined


def _needs_the_node(node: NodeDeclaration, service: ServiceDeclaration) -> str | None:
    """What only the node can tell and the command depends on, or None. A guess would be shown as drift, or hide it."""
    if service.layout == "auto":
        return f"layout: auto is decided by the model's config.json there: declare tp, pp and dp of {service.name}"
    if service.layout.device_order is None and _links_matter(node, service, service.layout):
        return "the links between its GPUs, which are not declared, order its ranks: declare layout.device_order"
    if service.nodes is not None:
        return f"by which address and interface the hosts of {service.name} reach one another only they can tell"
    if service.speculative == "auto":
        return "speculative: auto is decided by the model's config.json there: declare none or METHOD:K"
    if service.numa_bind is not False and node.gpus.count and not node.numa:
        return f"the NUMA nodes of its GPUs are not declared: declare numa of {node.name}, or numa_bind: false"
    return None


KINDS: dict[type, str] = {type(None): "null", bool: "true or false", list: "a list", dict: "an object"}


def _golden(path: Path) -> dict[str, Any]:
    """A recorded command: {"argv": [...], "env": {...}}. Exits 1 with the place where it is not one."""
    try:
        recorded = read_json(path, pipe=True).plain()
    except DeclarationError as error:
        fail(f"{error}; --check wants what `fleet cmd SERVICE NODE --json` prints")
    if not isinstance(recorded.get("env"), dict) or not isinstance(recorded.get("argv"), list):
        fail(f"{path}: want an object with argv (a list) and env (an object), found {str(recorded)[:80]!r}")
    words = [(f"argv[{place}]", word) for place, word in enumerate(recorded["argv"])]
    words += [(f"env.{name}", value) for name, value in recorded["env"].items()]
    for place, word in words:
        if not isinstance(word, str):
            fail(f"{path}: {place}: want text, found {KINDS.get(type(word), 'a number')}")
    return recorded  # type: ignore[no-any-return]


def _list_drift(old: list[Any], new: list[str]) -> list[str]:
    """Each position where argv differs; words that are only on one side are told as such."""
    lines = []
    for place in range(max(len(old), len(new))):
        was = repr(old[place]) if place < len(old) else "nothing"
        now = repr(new[place]) if place < len(new) else "nothing"
        if was != now:
            lines.append(f"argv[{place}]: want {was}, found {now}")
    return lines


def _env_drift(old: dict[str, Any], new: dict[str, str], secrets: Container[str]) -> list[str]:
    """Each variable that differs. A record that somebody else made may hold the values of secrets."""
    lines = []
    for name in sorted(old.keys() | new.keys()):
        was, now = (repr(env[name]) if name in env else "nothing" for env in (old, new))
        if was != now:
            shown = "a value that is not shown" if name in secrets and name in old else was
            lines.append(f"env {name}: want {shown}, found {now}")
    return lines
