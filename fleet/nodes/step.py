"""One step of a bootstrap, a refusal, and how those of a node are collected."""

import hashlib
from typing import Literal

from fleet.declaration import NodeDeclaration
from fleet.frozen import Frozen
from fleet.nodes.bare import MachineFacts
from fleet.nodes.host import HostDeclaration

Kind = Literal["file", "update", "install", "hold", "unit", "user", "folder", "command", "reboot"]


class Step(Frozen):
    """One thing to do. What a field means depends on the kind."""

    kind: Kind
    name: str
    """For people: what becomes so."""
    path: str = ""
    text: str = ""
    mode: str = "644"
    owner: str = "root"
    group: str = "root"
    packages: tuple[str, ...] = ()
    """With `=VERSION` where one is declared. Of `update`: URLs of the archives that must answer."""
    command: tuple[str, ...] = ()


class Refusal(Frozen):
    """Why this node cannot be brought there: what was wanted, what was found, what helps."""

    want: str
    got: str
    remedy: str

    def __str__(self) -> str:
        return f"want {self.want}, found {self.got}; {self.remedy}"


class Bootstrap(Frozen):
    """What a node needs, what it cannot be given, and what an operator must know."""

    node: str
    steps: tuple[Step, ...] = ()
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()


class Needs:
    """Collects the steps of one node, in the order in which they must come."""

    def __init__(self, node: NodeDeclaration, host: HostDeclaration, facts: MachineFacts) -> None:
        self.node, self.host, self.facts = node, host, facts
        self.steps: list[Step] = []
        self.refused: list[Refusal] = []
        self.notes: list[str] = []

    def file(self, path: str, text: str, name: str, mode: str = "644") -> bool:
        """A whole file; true where it must be written."""
        there, digest = (
            self.facts.entries.get(path),
            hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest(),
        )
        if there is not None and (there.mode, there.owner, there.sha256) == (mode, "root:root", digest):
            return False
        if there is not None and not there.kind.startswith("regular"):
            remedy = "move it out of the way; a bootstrap replaces files only"
            self.refused.append(Refusal(want=f"a file at {path}", got=f"a {there.kind}", remedy=remedy))
            return False
        if self.stuck(f"a file at {path}", path):
            return False
        self.steps.append(Step(kind="file", name=name, path=path, text=text, mode=mode))
        return True

    def stuck(self, want: str, path: str) -> bool:
        """Nothing can be written there, which is told before anything changes."""
        if (why := self.facts.stuck.get(path)) is not None:
            self.refused.append(Refusal(want=want, got=why, remedy="put that right by hand"))
        return why is not None

    def command(self, name: str, *words: str) -> None:
        """Words that are run on the node."""
        self.steps.append(Step(kind="command", name=name, command=words))
