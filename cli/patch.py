"""`fleet patch`: which source changes there are, and whether they fit an engine that is not rolled out yet."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.machine import Json, fail

app = typer.Typer(help=__doc__, no_args_is_help=True)

FleetName = Annotated[
    str | None, typer.Option("--fleet", envvar="FLEET", help="Whose patches; those of this project come after them.")
]
LONGEST_S = 300


@app.command("list")
def list_(fleet: FleetName = None, as_json: Json = False) -> None:
    """List the patches of a site and of this project: for which versions, which files, why."""
    patches = _patches(fleet)
    if as_json:
        rows = [{**p.model_dump(mode="json"), "versions": p.versions, "digest": p.digest} for p in patches]
        typer.echo(json.dumps(rows, indent=1))
        return
    for patch in patches:
        typer.echo(f"{patch} for {', '.join(patch.versions)}\n  {patch.why}\n  tested: {patch.tested}")
        for file in patch.files:
            typer.echo(f"  {file.path}: {len(file.edits)} edit{'s' if len(file.edits) > 1 else ''}")


@app.command()
def check(
    image: Annotated[str, typer.Argument(help="An image, or offline: a folder with vllm/ in it, or a wheel.")],
    node: Annotated[
        str | None, typer.Option("--node", help="The image lies on this node; else on this machine.")
    ] = None,
    engine: Annotated[str | None, typer.Option("--engine", help="The version, where nothing there tells it.")] = None,
    name: Annotated[list[str] | None, typer.Option("--patch", help="Only this one.")] = None,
    fleet: FleetName = None,
    as_json: Json = False,
) -> None:
    """Say what would apply to an engine. Exit 0: all; 2: anchors fit, but the file is another one; 1: not."""
    from fleet.engines.engine_files import fits
    from fleet.engines.patch import PatchError

    patches = _patches(fleet)
    strangers = sorted(set(name or ()) - {patch.name for patch in patches})
    if strangers:
        fail(f"--patch: want one of {', '.join(sorted({p.name for p in patches}))}, found {', '.join(strangers)}")
    chosen = [patch for patch in patches if not name or patch.name in name]
    if not chosen:
        fail("no patch is there to be checked")
    try:
        found = _files(image, node, engine, sorted({file.path for patch in chosen for file in patch.files}), fleet)
    except (PatchError, ValueError, OSError) as error:
        fail(str(error))
    rows = fits(found, chosen)
    if as_json:
        document = {"image": image, "engine": found.version, "patches": [row.model_dump() for row in rows]}
        typer.echo(json.dumps(document, indent=1))
    else:
        typer.echo(f"engine {found.version}")
        for row in rows:
            typer.echo(f"{row.patch}: {row.answer}: {row.path}" + (f"\n  {row.why}" if row.why else ""))
            if row.answer == "anchors fit":
                typer.echo(f"  its sha256: {row.sha256}")
    if any(row.answer == "does not apply" for row in rows):
        raise typer.Exit(1)
    if not all(row.good for row in rows):
        raise typer.Exit(2)


def _patches(fleet: str | None) -> Any:
    from declare.invocation import PROJECT
    from declare.patches import read_patches
    from declare.problem import DeclarationError
    from declare.site import find_site

    try:
        folders = find_site(fleet, PROJECT).patches if fleet else (PROJECT / "patches",)
    except DeclarationError as error:
        fail(str(error))
    problems: list[str] = []
    found = read_patches(folders, problems)
    if problems:
        fail("\n".join(problems))
    return found


def _files(image: str, node: str | None, engine: str | None, wanted: list[str], fleet: str | None) -> Any:
    """The engine's files: of a folder or wheel here, of an image here, or of an image on a node."""
    from declare.engine_files import read_files

    if node is None and Path(image).exists():
        return read_files(Path(image), wanted, engine)
    if node is None:
        return _of_local_image(image, engine, wanted)
    return _of_node(image, node, engine, wanted, fleet)


def _of_local_image(image: str, engine: str | None, wanted: list[str]) -> Any:
    from facts.shell import Output
    from fleet.declaration import GpuDeclaration, NodeDeclaration
    from operations.engine_files import inspect_image

    runtime = next((name for name in ("podman", "docker") if shutil.which(name)), None)
    if runtime is None:
        fail(f"{image}: want a folder, a wheel, or an image and podman or docker here, found none; or give --node")
    gpus = GpuDeclaration(count=0, model="none", memory_mib=1)
    here = NodeDeclaration(name="here", address="localhost", gpus=gpus, runtime=runtime)  # type: ignore[arg-type]

    def ask(words: tuple[str, ...]) -> Output:
        try:
            done = subprocess.run(
                [str(shutil.which(runtime)), *words[1:]],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LONGEST_S,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return Output(reason=f"no answer within {LONGEST_S} s")
        last = [line for line in done.stderr.splitlines() if line.strip()][-2:]
        failed = " | ".join(last) or f"exit code {done.returncode}"
        return Output(stdout=done.stdout, reason=failed if done.returncode else None)

    return inspect_image(ask, here, image, wanted, engine)


def _of_node(image: str, node: str, engine: str | None, wanted: list[str], fleet: str | None) -> Any:
    from cli.main import _invocation
    from cli.session import connected, placed
    from facts.shell import run
    from operations.engine_files import inspect_image

    invocation = _invocation(fleet, None)
    placed(invocation.fleet, None, node)
    with connected(invocation, [node]) as session:
        host = session.hosts.get(node)
        if host is None:
            fail(f"{node}: want an SSH connection, found none; the reason is printed above")
        declared = invocation.fleet.placement(node).node
        return inspect_image(lambda words: run(host, words, timeout_s=LONGEST_S), declared, image, wanted, engine)
