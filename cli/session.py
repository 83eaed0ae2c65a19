"""A connection to a fleet outside of pyinfra's own command: the same inventory, the same probe, the same gates."""

# pyinfra's connections are greenlets: the patches must come before anything opens a socket.
from gevent import monkey

monkey.patch_all()

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from cli.machine import fail
from pyinfra import logger
from pyinfra.api.config import Config
from pyinfra.api.connect import connect_all, disconnect_all
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.inventory import Inventory
from pyinfra.api.output import set_echo
from pyinfra.api.state import State

from declare.invocation import Invocation
from declare.inventory import hosts as inventory_hosts
from declare.inventory import unusable_keys
from declare.quiet import name_no_code
from facts.gather import Answer, gather
from facts.shell import without_results
from fleet.declaration import Fleet
from operations import prepare
from operations.secrets import SecretError
from operations.survey import Secrets, Survey, request_for, resolve_secrets, survey

if TYPE_CHECKING:
    from pyinfra.api.host import Host


@dataclass(frozen=True)
class Session:
    """Connected nodes of one command."""

    state: State
    invocation: Invocation
    secret: Secrets

    @property
    def hosts(self) -> dict[str, "Host"]:
        """Reached hosts by node name."""
        return prepare.hosts_of(self.state)[0]

    def survey(self) -> Survey:
        """Look at every node of this session once, decide and judge."""
        return survey(self.invocation.fleet, self.look(), self.secret)

    def look(self) -> dict[str, Answer]:
        """What every node of this session tells now."""
        hosts, silent = prepare.hosts_of(self.state)
        fleet = self.invocation.fleet
        answers = gather(hosts.values(), lambda name: request_for(fleet.placement(name), self.secret.key))
        return {**answers, **silent}

    def judge(self, fleet: Fleet, answers: dict[str, Answer]) -> Survey:
        """Decide and judge another declaration by what the nodes told."""
        return survey(fleet, answers, self.secret)


def placed(fleet: Fleet, service: str | None, node: str | None) -> list[str]:
    """Nodes that a command is about. Exits 1 with what there is, where a name is unknown."""
    names = {placement.node.name for placement in fleet.placements}
    if node is not None and node not in names:
        fail(f"node: want one of {', '.join(sorted(names))}, found {node!r}")
    holds = {p.node.name: {s.name for s in p.services} for p in fleet.placements}
    known = sorted(set().union(*holds.values()))
    if service is not None and service not in known:
        fail(f"service: want one of {', '.join(known) or 'none declared'}, found {service!r}")
    chosen = [n for n in sorted(names) if (node in (None, n)) and (service is None or service in holds[n])]
    if not chosen:
        others = ", ".join(name for name in sorted(holds) if service in holds[name])
        fail(f"service {service}: want a node that it is declared for ({others}), found {node}")
    return chosen


def _let_pyinfra_speak() -> None:
    """Outside of its own command pyinfra says nothing: neither why a host is not reached nor what a command prints."""
    set_echo(without_results(typer.echo))
    name_no_code()
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())  # stderr
        logger.setLevel(logging.ERROR)


@contextmanager
def connected(invocation: Invocation, nodes: list[str]) -> Iterator[Session]:
    """A session with these nodes. Hosts that do not answer are told by the gate `reachable`."""
    everyone, _ = inventory_hosts(invocation.fleet)
    wanted = [entry for entry in everyone if entry[0].removeprefix("@recorded/") in nodes]
    if unusable := unusable_keys(invocation.fleet, nodes):
        fail("\n".join(unusable))
    _let_pyinfra_speak()
    inventory = Inventory((wanted, {}))
    state = State(inventory, Config(PARALLEL=256))
    try:
        secret = resolve_secrets(invocation.fleet)
        connect_all(state)
        yield Session(state=state, invocation=invocation, secret=secret)
    except SecretError as error:
        fail(str(error))
    except PyinfraError as error:
        fail(f"{error}: want an SSH connection to {', '.join(nodes)}; see the lines above")
    finally:
        if state.initialised:
            disconnect_all(state)
