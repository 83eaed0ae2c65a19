"""`fleet status`: what runs where, and whether it is what was declared and proven."""

import datetime
import json
from typing import Any

import typer

from cli.session import connected, placed
from declare.invocation import Invocation
from fleet.nodes.node import Installed, NodeFacts
from operations.show import console, print_table

Row = dict[str, Any]


def _row(node: str, lies: Installed, note: str | None) -> Row:
    unit = lies.unit
    return {
        "node": node,
        "service": lies.name,
        "unit": f"{unit.active} ({unit.sub})" if unit else "no unit",
        "release": lies.current,
        "proven": "yes" if lies.proven and lies.proven == lies.current else f"no, last was {lies.proven or 'none'}",
        "previous": lies.previous,
        "restarts": unit.restarts if unit else None,
        "since": unit.active_since if unit else None,
        "pending": {"release": lies.pending.release, "until": _utc(lies.pending.deadline)} if lies.pending else None,
        "note": note,
    }


def _utc(seconds: int) -> str:
    """A time of the node's clock, as a person reads it."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _cell(value: Any) -> str:
    """A value of a row for the table."""
    if isinstance(value, dict):
        return f"{value['release']} until {value['until']}"
    return "-" if value is None else str(value)


def _rows(node: str, facts: NodeFacts, declared: frozenset[str]) -> list[Row]:
    """Services that lie on the node, and those that should."""
    there = {lies.name: lies for lies in facts.services if lies.name in declared or lies.current is not None}
    rows = []
    for name in sorted(there.keys() | declared):
        lies = there.get(name) or Installed(name=name)
        note = lies.error or ("not rolled out" if lies.current is None else None)
        rows.append(_row(node, lies, note if name in declared else "no longer declared"))
    return rows


def _good(row: Row) -> bool:
    return row["unit"].startswith("active") and row["proven"] == "yes" and row["note"] is None


def _lock(facts: NodeFacts) -> str | None:
    """Who holds the lock; a lease that ran out holds nothing."""
    lock = facts.lock
    return lock.holder if lock is not None and facts.now < lock.expires else None


def status(invocation: Invocation, service: str | None, node: str | None, as_json: bool) -> None:
    """Unit, release and proof of each service. Exit 1 where a node cannot be read, 2 where one is not as wanted."""
    with connected(invocation, placed(invocation.fleet, service, node)) as session:
        found = session.survey()
    rows: list[Row] = []
    locks: dict[str, str] = {}
    unread = dict(found.unread)
    for view in found.views:
        facts, name = view.facts, view.node.name
        if facts is None or facts.services_error is not None:
            unread[name] = (facts.services_error if facts else None) or "no answer"
            continue
        declared = frozenset(placed.name for placed in view.placement.services)
        rows += [row for row in _rows(name, facts, declared) if service in (None, row["service"])]
        if (held := _lock(facts)) is not None:
            locks[name] = held
    _show(rows, locks, unread, as_json)
    if unread:
        raise typer.Exit(1)
    if not all(map(_good, rows)):
        raise typer.Exit(2)


def _show(rows: list[Row], locks: dict[str, str], unread: dict[str, str], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"services": rows, "locks": locks, "unread": unread}, indent=1))
        return
    if rows:
        print_table(console(), "Services", list(rows[0]), [tuple(map(_cell, row.values())) for row in rows])
    else:
        console().print("No service is declared here, and none lies here.")
    for name, held in locks.items():
        typer.echo(f"{name} is locked by {held}")
    for name, reason in unread.items():
        typer.echo(f"{name}: {reason}")
