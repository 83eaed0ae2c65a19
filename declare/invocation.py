"""One run: the fleet it is about, and how it was asked for. Made once, when pyinfra loads the inventory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from declare.guard import has_terminal, refused_data, refused_options, selected
from declare.load import load_fleet
from declare.override import Overrides, as_typed, read_overrides
from declare.problem import DeclarationError
from declare.site import Site, find_site
from declare.spans import cut_spans
from fleet.declaration import Fleet

PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Invocation:
    """What one run is about. `nodes`: names of the nodes that `--limit` and `--exclude` leave, in name order."""

    site: Site
    fleet: Fleet
    overrides: Overrides
    nodes: tuple[str, ...]
    dry: bool = False
    diff: bool = False
    yes: bool = False
    json: bool = False

    @property
    def prune(self) -> bool:
        """Is what is no longer declared to be taken away?"""
        return self.overrides.prune


_current: Invocation | None = None


def current() -> Invocation:
    """The run that pyinfra's command loaded the inventory for. RuntimeError outside of it."""
    if _current is None:
        raise RuntimeError("want a run under `pyinfra inventory.py ...`, found none")
    return _current


def for_command(fleet: str | None, data: Iterable[str] = (), about: str | None = None) -> Invocation:
    """A run of our own commands, with `--data` as typed, `about` one service or all. Raises DeclarationError."""
    words = list(data)
    wrong = refused_data(words)
    if wrong:
        raise DeclarationError(wrong)
    return _invocation(fleet, words, about=about)


def enter(fleet: str | None, options: Mapping[str, Any]) -> Invocation:
    """The run that pyinfra's command line asks for, by click's names of its options; `current` from now on.

    Raises DeclarationError: the declaration cannot be used, or an option or a pattern is refused.
    """
    global _current
    wrong = refused_options(options, has_terminal()) if options else []
    if wrong:
        raise DeclarationError(wrong)
    _current = _invocation(fleet, options.get("data") or (), options)
    return _current


def _invocation(
    fleet: str | None, data: Iterable[str], options: Mapping[str, Any] | None = None, about: str | None = None
) -> Invocation:
    options = options or {}
    values = as_typed(data)
    site = find_site(fleet, PROJECT)
    loaded = load_fleet(site, values, about)
    overrides = read_overrides(values, [])
    nodes, wrong = _selected(loaded, options)
    wrong += overrides.about(about).unclear(own for name in nodes for own in loaded.placement(name).services)
    if _by_service(options):
        wrong += cut_spans(loaded.placements, nodes)
    if wrong:
        raise DeclarationError(wrong)
    return Invocation(
        site=site,
        fleet=loaded,
        overrides=overrides,
        nodes=tuple(nodes),
        dry=_only_looks(options),
        diff=bool(options.get("diff")),
        yes=bool(options.get("yes")),
        json=bool(options.get("json_output")),
    )


def _only_looks(options: Mapping[str, Any]) -> bool:
    """With `--json` pyinfra asks nobody, and without `-y` it changes nothing either."""
    return bool(options.get("dry") or (options.get("json_output") and not options.get("yes")))


MACHINES = ("bootstrap.py", "deliver.py", "fact", "exec", "debug-inventory")
"""Verbs that treat each machine by itself: for them half of an engine's nodes is no half of anything."""


def _by_service(options: Mapping[str, Any]) -> bool:
    operations = options.get("operations") or ("",)
    return str(operations[0]).rpartition("/")[2] not in MACHINES


def _selected(fleet: Fleet, options: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Nodes of this run, by the groups that pyinfra has: the owner's, `@recorded`, and all as the inventory's name."""
    nodes = [placement.node for placement in fleet.placements]
    groups: dict[str, list[str]] = {}
    for node in nodes:
        for group in (*node.groups, *(["@recorded"] if node.recording else [])):
            groups.setdefault(group, []).append(node.name)
    names = [node.name for node in nodes]
    groups.setdefault(Path(str(options.get("inventory") or "inventory.py")).stem, names)
    return selected(names, groups, options.get("limit") or (), options.get("exclude") or ())
