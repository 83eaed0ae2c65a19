"""A release as it lies on a node: its plan.json, and the key that its clients send.

What a node was given before may have another port, another name or another key than what is declared today.
"""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from facts.shell import run
from fleet.declaration import NodeDeclaration
from fleet.releases.command import STATE
from fleet.releases.release import ENV, PLAN, SECRETS
from fleet.releases.systemd import QuotingError, read_environment_file
from operations.steps import API_KEY, endpoint_of
from probes.evidence import Endpoint

if TYPE_CHECKING:
    from pyinfra.api.host import Host

_READ = f'cd -- "$1" && cat {PLAN} {ENV} && {{ [ ! -e {SECRETS} ] || cat {SECRETS}; }}'


class StoredError(RuntimeError):
    """The release cannot be read: which, and what was found. Never a value of it."""


@dataclass(frozen=True)
class Stored:
    """One release on one node."""

    node: NodeDeclaration
    document: dict[str, Any]
    """plan.json."""
    key: SecretStr | None = field(default=None, repr=False)

    @property
    def endpoint(self) -> Endpoint:
        """Where the engine of this release answers."""
        return endpoint_of(self.node, self.document, self.key)


def read_stored(host: "Host", node: NodeDeclaration, service: str, release: str) -> Stored:
    """Read a release of a service on its node. Raises StoredError."""
    folder = f"{STATE}/{service}/releases/{release}"
    output = run(host, ("sh", "-c", _READ, "sh", folder))
    if output.reason is not None:
        raise StoredError(f"{node.name}: want {folder}, found {output.reason}")
    try:
        document, end = json.JSONDecoder().raw_decode(output.stdout)
        values = read_environment_file(output.stdout[end:].lstrip("\n"))
    except (ValueError, QuotingError):
        raise StoredError(
            f"{node.name}: want {PLAN} and {ENV} in {folder} as they were written, found others"
        ) from None
    if not isinstance(document, dict):
        raise StoredError(f"{node.name}: want an object in {folder}/{PLAN}, found {type(document).__name__}")
    key = values.get(API_KEY)
    return Stored(node=node, document=document, key=SecretStr(key) if key else None)
