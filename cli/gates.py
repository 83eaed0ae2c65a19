"""`fleet gates`: the catalogue as the code has it."""

import json

import typer
from rich.markup import escape
from rich.table import Table

from fleet.gate import catalogue
from operations.show import console


def show(as_json: bool) -> None:
    """Print every gate: name, what it judges and reads, severity, when it passes, remedy."""
    rows = [
        {
            "name": gate.name,
            "judges": gate.subject,
            "reads": gate.reads,
            "severity": gate.severity,
            "passes_when": gate.summary,
            "remedy": gate.remedy,
        }
        for gate in catalogue()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    else:
        table = Table(
            *("gate", "judges", "reads", "severity", "passes when", "remedy"),
            title=f"{len(rows)} gates",
            title_justify="left",
            box=None,
        )
        for row in rows:
            table.add_row(*map(escape, row.values()))
        console().print(table)
