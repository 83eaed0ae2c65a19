"""`fleet upgrade SERVICE --to VERSION`: what would change with another engine version. Writes nothing unless asked."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cli.machine import Json, fail

if TYPE_CHECKING:
    from fleet.declaration import Fleet, ServiceDeclaration
    from fleet.engines.upgrade import Upgrade


class NewImage(NamedTuple):
    """The image that the new version comes in, as far as it was named."""

    name: str
    digest: str


def upgrade(
    service: Annotated[str, typer.Argument(help="A service of group_data.")],
    to: Annotated[str, typer.Option("--to", help="The engine version, such as 0.33 or 0.33.0.")],
    node: Annotated[str | None, typer.Argument(help="Only this node; every node of the service by default.")] = None,
    image: Annotated[
        str | None, typer.Option("--image", help="The new image, name@sha256:...; needed for --write.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", help="Write what to declare to this new file, for group_data.")
    ] = None,
    fleet: Annotated[str | None, typer.Option("--fleet", envvar="FLEET", help="As of the other verbs.")] = None,
    data: Annotated[list[str] | None, typer.Option("--data", help="Override for this run: key=value.")] = None,
    as_json: Json = False,
) -> None:
    """List flags to change, patches, gates whose answer changes and predicted memory for another engine version.

    Exit 1: something must be changed or decided before the upgrade, or a node did not answer.
    """
    from cli.engine import catalog
    from cli.session import connected, placed
    from declare.invocation import for_command
    from declare.problem import DeclarationError
    from fleet.engines.upgrade import upgrade as compared

    new = catalog(to)
    named = _image(image)
    if write is not None and named is None:
        fail("--write: want --image NAME@sha256:..., the image that the new version comes in; found none")
    if write is not None and write.exists():
        fail(f"--write: want a file that is not there yet, found {write}")
    try:
        invocation = for_command(fleet if fleet is not None else os.environ.get("FLEET"), data or [], service)
    except DeclarationError as error:
        fail(str(error))
    nodes = placed(invocation.fleet, service, node)
    declared = {name: _declared(invocation.fleet, name, service) for name in nodes}
    old = {name: catalog(one.image.engine) for name, one in declared.items()}
    changed = _with_engine(invocation.fleet, nodes, service, new.version)
    with connected(invocation, nodes) as session:
        answers = session.look()
        before, after = session.judge(invocation.fleet, answers), session.judge(changed, answers)
    if before.unread:
        fail("; ".join(f"{name}: {reason}" for name, reason in before.unread.items()))
    found = [
        compared(
            before.plan(name, service),
            after.plan(name, service),
            (old[name], new),
            (before.verdicts, after.verdicts),
        )
        for name in nodes
    ]
    if write is not None and named is not None:
        _write(write, service, new.version, named, found)
    _tell(found, as_json)
    if any(one.stops for one in found):
        raise typer.Exit(1)


def _image(text: str | None) -> NewImage | None:
    """`name@sha256:...`; exits 1 where it is another thing."""
    from fleet.values import DIGEST

    if text is None:
        return None
    name, _, digest = text.partition("@")
    if not name or not DIGEST.fullmatch(digest):
        fail(f"--image: want NAME@sha256: and 64 hex digits, found {text!r}")
    return NewImage(name, digest)


def _declared(fleet: "Fleet", node: str, service: str) -> "ServiceDeclaration":
    return next(one for one in fleet.placement(node).services if one.name == service)


def _with_engine(fleet: "Fleet", nodes: list[str], service: str, version: str) -> "Fleet":
    """The fleet with another engine version for this service on these nodes, in the image that is declared.

    The new image need not be on the nodes yet: that it is not would be told by gates that say nothing of the version.
    """

    def moved(one: "ServiceDeclaration") -> "ServiceDeclaration":
        image = one.image.model_copy(update={"engine": version})
        return one.model_copy(update={"image": image}) if one.name == service else one

    placements = tuple(
        one.model_copy(update={"services": tuple(map(moved, one.services))}) if one.node.name in nodes else one
        for one in fleet.placements
    )
    return fleet.model_copy(update={"placements": placements})


def _tell(found: "list[Upgrade]", as_json: bool) -> None:
    if as_json:
        documents = [{**one.model_dump(mode="json"), "stops": one.stops} for one in found]
        typer.echo(json.dumps(documents[0] if len(documents) == 1 else documents, indent=1, ensure_ascii=False))
        return
    for one in found:
        typer.echo(f"{one.service} on {one.node}: vllm {one.old} -> {one.new}")
        _list("Flags and environment", [str(flag) for flag in one.flags])
        _list("Patches", [f"{p.name}: {p.kind}" + (f" ({p.message})" if p.message else "") for p in one.patches])
        gates = [f"{g.gate}: {g.before} -> {g.after}" + (f": {g.text}" if g.text else "") for g in one.gates]
        _list("Gates whose answer changes", gates)
        _list("Memory", [_memory(one)])
        end = "must be changed or decided first" if one.stops else "nothing stands against it"
        typer.echo(f"{one.service} on {one.node}: {end}; bring an image of {one.new} and declare it, then deploy")


def _list(title: str, lines: list[str]) -> None:
    typer.echo(f"  {title}:" + ("" if lines else " none"))
    for line in lines:
        typer.echo(f"    {line}")


def _memory(one: "Upgrade") -> str:
    told = one.memory
    if told.before is None or told.after is None:
        return f"not predicted: {told.unknown}"
    share = f" ({100 * (told.after - told.before) / told.before:+.1f} %)" if told.before else ""
    return f"pool {told.before:,} -> {told.after:,} KV tokens, predicted{share}"


def _write(path: Path, service: str, version: str, image: NewImage, found: "list[Upgrade]") -> None:
    """The image as YAML; flags and patches that do not go on are named in comments, for a person to decide."""
    import yaml

    lost = sorted({p.name for one in found for p in one.patches if p.kind in ("does not apply", "not needed")})
    told = sorted({str(flag).strip() for one in found for flag in one.flags if flag.stops})
    comments = [f"# {service}: engine {version}. Merge this into the group_data file that declares {service}."]
    comments += [f"# to change first: {line}" for line in told]
    comments += [f"# take out of patches: {name}" for name in lost]
    body = {"services": {service: {"image": {**image._asdict(), "engine": version}}}}
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write("\n".join(comments) + "\n" + yaml.safe_dump(body, sort_keys=False))
    except OSError as error:
        fail(f"--write: {path}: {error.strerror}")
    typer.echo(f"written: {path}", err=True)
