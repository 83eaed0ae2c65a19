"""How a catalog, and the difference of two, are shown."""

import json
from typing import Any

import typer

from cli.machine import fail
from fleet.argv.catalog import Catalog, FlagInfo
from fleet.engines.engine_difference import differences, keys_of, spoken


def show(catalog: Catalog, word: str | None, as_json: bool) -> None:
    """A catalog, or what of it has `word` in its name. Exit 1 where nothing has."""
    wanted = (word or "").replace("_", "-").lower()
    flags = [flag for flag in catalog.flags if wanted in " ".join((*flag.names, flag.dest.replace("_", "-")))]
    variables = {n: v for n, v in catalog.environment.items() if wanted in n.lower().replace("_", "-")}
    capabilities = {n: v for n, v in catalog.capabilities.items() if wanted in n.replace("_", "-")}
    keys = {n: s for n, s in keys_of(catalog).items() if word and wanted in n.replace("_", "-")}
    if not flags and not variables and not capabilities and not keys:
        fail(f"{catalog.version} has nothing with {word!r} in its name")
    if as_json:
        shown = {
            "version": catalog.version,
            "source": catalog.source,
            "flags": [_flag(catalog, flag) for flag in flags],
            "environment": {name: variable.model_dump() for name, variable in variables.items()},
            "capabilities": {name: one.model_dump() for name, one in capabilities.items()},
        }
        typer.echo(json.dumps(shown, indent=1, ensure_ascii=False))
        return
    typer.echo(f"vllm {catalog.version}: {catalog.source}")
    for flag in flags:
        typer.echo(_line(flag))
    for name, schema in keys.items():
        default = f"  default {schema['default']}" if "default" in schema else ""
        typer.echo(f"  {name}  {spoken(schema)}{default}")
    for name, one in capabilities.items():
        typer.echo(f"can {name}: {json.dumps(one.value, ensure_ascii=False)}  ({one.source})")
    for name, variable in variables.items():
        typer.echo(f"env {name}  {variable.type or '-'}  default {variable.default or '-'}")


def _flag(catalog: Catalog, flag: FlagInfo) -> dict[str, Any]:
    config = flag.config or flag.later
    keys = catalog.configs[config].fields if config else {}
    found = flag.model_dump(exclude={"field"}, exclude_defaults=True)
    return {**found, **({"keys": {name: spoken(schema) for name, schema in keys.items()}} if keys else {})}


def _line(flag: FlagInfo) -> str:
    takes = flag.type if flag.takes_value else "switch"
    also = f"  also {', '.join((*flag.aliases, *flag.negative))}" if flag.aliases or flag.negative else ""
    choices = f"  one of {'|'.join(map(str, flag.choices))}" if flag.choices else ""
    choices += f"  such as {'|'.join(map(str, flag.known))}" if flag.known else ""
    many = f"  nargs {flag.nargs}" if flag.nargs else ""
    old = "  deprecated" if flag.deprecated else ""
    return f"{flag.flag or 'MODEL'}  {takes}{many}{choices}  default {flag.shown_default}{also}{old}"


def diff(old: Catalog, new: Catalog, as_json: bool) -> None:
    """Every change from one to the other."""
    changes = differences(old, new)
    if as_json:
        shown = {
            "old": old.version,
            "new": new.version,
            "changes": [one.model_dump(mode="json") for one in changes],
        }
        typer.echo(json.dumps(shown, indent=1, ensure_ascii=False))
        return
    typer.echo(f"vllm {old.version} -> {new.version}: {len(changes)} changes")
    for change in changes:
        typer.echo(f"  {change}")
