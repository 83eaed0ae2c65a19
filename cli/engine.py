"""`fleet engine list | show | diff | dump`: what each engine version accepts and can do."""

import json
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.machine import Json, fail, tell

app = typer.Typer(no_args_is_help=True)
Version = Annotated[str, typer.Argument(help="An engine version such as 0.30.0; 0.30 is the newest of it.")]


def catalog(version: str) -> Any:
    """The catalog of a version; exit 1 with the remedy where there is none."""
    from fleet.engines.catalogs import catalog_of, missing

    found = catalog_of(version)
    if found is None:
        fail(missing(version))
    return found


@app.command("list")
def list_versions(as_json: Json = False) -> None:
    """The versions that have a catalog, and where each is from."""
    from fleet.engines.catalogs import versions

    found = [{"version": version, "source": catalog(version).source} for version in versions()]
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    for one in found:
        typer.echo(f"{one['version']}  {one['source']}")


@app.command()
def show(
    version: Version,
    flag: Annotated[str | None, typer.Argument(help="Only what has this word in its name.")] = None,
    as_json: Json = False,
) -> None:
    """Every flag of `vllm serve`, environment variables and capabilities of a version."""
    from cli import engine_tables

    engine_tables.show(catalog(version), flag, as_json)


@app.command()
def diff(old: Version, new: Version, as_json: Json = False) -> None:
    """What changed between two versions: flags, choices, defaults, JSON keys, variables, capabilities."""
    from cli import engine_tables

    engine_tables.diff(catalog(old), catalog(new), as_json)


@app.command()
def dump(
    version: Annotated[str, typer.Argument(help="A full version, such as 0.30.0.")],
    out: Annotated[Path | None, typer.Option("--out", help="The file to write; by default where it is read.")] = None,
    as_json: Json = False,
) -> None:
    """Make the catalog of a version from its real parser. Installs vLLM built for CPU once (3.5 GB, Linux)."""
    from fleet.argv.rules import unknown_rules
    from lab import host
    from lab.engine import venv
    from lab.engine.interpreter import interpreter

    def progress(text: str) -> None:
        typer.echo(text, err=True)

    try:
        if (reason := venv.unfit()) is not None:
            raise host.LabError(reason)
        found = interpreter(version, progress)
        told = described(found.python, found.environment)
    except host.LabError as error:
        fail(f"no catalog of {version}: {error}")
    whole = {"version": told.pop("version"), "source": f"the real parser of {found.source}", **told}
    place = out or Path(__file__).resolve().parent.parent / "fleet" / "engines" / f"{version}.json"
    try:
        host.write_atomically(place, text_of(whole))
    except OSError as error:
        fail(f"no catalog of {version}: --out: want a file that can be written, found {place}: {error.strerror}")
    counts = {"flags": len(whole["flags"]), "environment": len(whole["environment"])}
    strange = unknown_rules(whole["rules"])
    if as_json:
        told = {"version": whole["version"], "source": whole["source"], "file": str(place), **counts}
        tell({**told, "unknown_checks": list(strange)})
    else:
        typer.echo(f"{place}: {counts['flags']} flags, {counts['environment']} variables")
    for name in strange:
        typer.echo(f"  {name}: this check is new or was changed; compare it with fleet/argv/rules.py", err=True)


def described(python: Path, environment: dict[str, str]) -> dict[str, Any]:
    """What the version's own interpreter tells. LabError with its last words where it cannot."""
    from lab import host

    script = Path(__file__).resolve().parent.parent / "lab" / "engine" / "dump.py"
    command = [str(python), str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-4:])
        raise host.LabError(f"its parser could not be read:\n{tail}")
    described: dict[str, Any] = json.loads(done.stdout)
    return described


def text_of(whole: dict[str, Any]) -> str:
    """JSON with one entry of each table a line, so that two versions can be compared by eye."""

    def table(value: Any) -> str:
        if isinstance(value, list):
            lines = [json.dumps(one, ensure_ascii=False) for one in value]
            return "[\n  " + ",\n  ".join(lines) + "\n ]" if lines else "[]"
        if isinstance(value, dict):
            lines = [f"{json.dumps(key)}: {json.dumps(one, ensure_ascii=False)}" for key, one in value.items()]
            return "{\n  " + ",\n  ".join(lines) + "\n }" if lines else "{}"
        return json.dumps(value, ensure_ascii=False)

    return "{\n" + ",\n".join(f" {json.dumps(key)}: {table(value)}" for key, value in whole.items()) + "\n}\n"
