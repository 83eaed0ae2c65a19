"""`fleet check-argv --engine VERSION -- vllm serve MODEL ...`: would that engine take it, and start?"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.machine import Json


def check_argv(
    argv: Annotated[list[str], typer.Argument(help="The command after --: vllm serve MODEL ...")],
    engine: Annotated[str, typer.Option("--engine", help="An engine version with a catalog: fleet engine list.")],
    as_json: Json = False,
) -> None:
    """Judge a `vllm serve` command line without vLLM. Exit 1 where the engine would refuse to start."""
    from cli.engine import catalog
    from fleet.argv.check import check_argv as check

    report = check(catalog(engine), argv, read_config)
    if as_json:
        findings = [one.model_dump(mode="json") for one in report.findings]
        shown = {"engine": report.engine, "accepts": report.accepts, "starts": report.starts, "findings": findings}
        typer.echo(json.dumps(shown, indent=1, ensure_ascii=False))
    else:
        for finding in report.findings:
            typer.echo(f"{finding.level:>8}  {finding}")
        end = "starts" if report.starts else "would not start" if report.accepts else "is refused by the parser"
        typer.echo(f"vllm {report.engine}: {end}")
    if not report.starts:
        raise typer.Exit(1)


def read_config(path: str) -> Mapping[str, Any]:
    """The settings of a `--config` file. Refused where it cannot be read, or is no mapping."""
    import yaml

    from fleet.argv.values import Refused

    try:
        found = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise Refused(f"the config file {path} cannot be read: {said}", "--config") from None
    if not isinstance(found, dict):
        raise Refused(f"want settings in {path}, one a line as `name: value`, found {type(found).__name__}", "--config")
    return {str(key): value for key, value in found.items()}
