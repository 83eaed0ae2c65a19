"""`fleet gates`: the catalogue as the code has it."""

import json

import typer

from fleet.gate import catalogue
from operations.show import console, result_table


def show(as_json: bool) -> None:
    """Print every gate: name, what it judges, what it asks, remedy."""
    rows = [
        {"gate": gate.name, "judges": gate.subject, "asks": gate.summary, "remedy": gate.remedy} for gate in catalogue()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    else:
        console().print(result_table(rows, f"{len(rows)} gates"))
