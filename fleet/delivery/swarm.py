"""Who fetches what from whom, so that every node soon serves others: bundles spread like the copies of a rumour.

A bundle that one node has verified it can give to `serves` others, so with one bundle the holders multiply by
`serves + 1` in each round; with many, they travel in a pipeline and each leaves its origin about once. The planner only
decides: it is asked for a node's next transfer, and told what came of it. It reads no clock and draws no lots.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

MOST_TRIES = 2
"""Times that one node asks one source for one bundle."""
MOST_STRIKES = 3
"""Failed transfers in a row after which a source is asked no more."""


class Bundle(NamedTuple):
    """Some files of one item (a checkpoint, or an image's archive) that travel together."""

    item: str
    number: int


class Transfer(NamedTuple):
    """One bundle on its way."""

    source: str
    target: str
    bundle: Bundle


class Swarm:
    """All transfers of one run. `origins` hold all bundles of an item from the start: the controller, a URL."""

    def __init__(
        self,
        want: Mapping[str, Iterable[Bundle]],
        have: Mapping[str, Iterable[Bundle]],
        origins: Mapping[str, Iterable[Bundle]],
        serves: int,
        parallel: int,
    ) -> None:
        """`want` and `have` by node; a source gives `serves` transfers at a time, a node takes `parallel`."""
        self.serves, self.parallel = serves, parallel
        self.missing = {node: set(bundles) for node, bundles in want.items()}
        self.holders: dict[Bundle, set[str]] = defaultdict(set)
        for source, bundles in (*have.items(), *origins.items()):
            for bundle in bundles:
                self.holders[bundle].add(source)
        self.origins = frozenset(origins)
        self.active: set[Transfer] = set()
        self.dead: set[str] = set()
        self._order = {node: place for place, node in enumerate(sorted(self.missing))}
        self._numbers = {bundle: place for place, bundle in enumerate(sorted(set().union(*self.missing.values())))}
        self._giving: dict[str, int] = defaultdict(int)
        self._taking: dict[str, int] = defaultdict(int)
        self._copies = {bundle: len(self.holders[bundle] - self.origins) for bundle in self._numbers}
        self._tries: dict[Transfer, int] = defaultdict(int)
        self._strikes: dict[str, int] = defaultdict(int)

    def next(self, target: str) -> Transfer | None:
        """A transfer that this node is to begin now, which counts as begun; None where there is none at the moment."""
        if target in self.dead or self._taking[target] >= self.parallel:
            return None
        coming = {transfer.bundle for transfer in self.active if transfer.target == target}
        for bundle in sorted(self.missing[target] - coming, key=lambda one: self._rank(target, one)):
            source = self._source(target, bundle)
            if source is not None:
                transfer = Transfer(source, target, bundle)
                self.active.add(transfer)
                self._giving[source] += 1
                self._taking[target] += 1
                self._copies[bundle] += 1
                return transfer
        return None

    def _rank(self, target: str, bundle: Bundle) -> tuple[int, int]:
        """The rarest first; among equals each node begins at another place, so that they do not all want the same."""
        count = len(self._numbers)
        start = self._order[target] * count // max(len(self._order), 1)
        return self._copies[bundle], (self._numbers[bundle] - start) % count

    def _source(self, target: str, bundle: Bundle) -> str | None:
        """The node itself where it has it; nodes before origins, whose bytes are dear; the one that gives least."""
        able = [source for source in self._living(target, bundle) if self._giving[source] < self.serves]
        return min(
            able, key=lambda name: (name != target, name in self.origins, self._giving[name], name), default=None
        )

    def _living(self, target: str, bundle: Bundle) -> list[str]:
        return [
            source
            for source in self.holders[bundle]
            if source not in self.dead
            and self._strikes[source] < MOST_STRIKES
            and self._tries[Transfer(source, target, bundle)] < MOST_TRIES
        ]

    def done(self, transfer: Transfer) -> None:
        """The bundle arrived and is verified: from now on its new owner gives it on."""
        self._end(transfer)
        self._strikes[transfer.source] = 0
        self.missing[transfer.target].discard(transfer.bundle)
        self.holders[transfer.bundle].add(transfer.target)

    def hold(self, node: str, bundles: Iterable[Bundle]) -> None:
        """The node turned out to have these already, and gives them from now on."""
        for bundle in bundles:
            self.missing.get(node, set()).discard(bundle)
            self.holders[bundle].add(node)

    def offer(self, node: str, bundles: Iterable[Bundle]) -> None:
        """The node gives these from another place than the one where it still wants them, to itself as well."""
        for bundle in bundles:
            self.holders[bundle].add(node)

    def failed(self, transfer: Transfer) -> None:
        """The source did not give it. It is tried elsewhere; a source that fails again and again is asked no more."""
        self._end(transfer)
        self._copies[transfer.bundle] -= 1
        self._tries[transfer] += 1
        self._strikes[transfer.source] += 1

    def distrust(self, transfer: Transfer) -> None:
        """What arrived is not what the manifest says: this source does not have this bundle, whatever it said."""
        self._end(transfer)
        self._copies[transfer.bundle] -= 1
        self.holders[transfer.bundle].discard(transfer.source)

    def drop(self, node: str) -> None:
        """The node is gone or cannot go on: it takes and gives nothing more. What it gives at the moment may fail."""
        self.dead.add(node)
        for transfer in [one for one in self.active if one.target == node]:
            self._end(transfer)
            self._copies[transfer.bundle] -= 1

    def _end(self, transfer: Transfer) -> None:
        if transfer in self.active:
            self.active.remove(transfer)
            self._giving[transfer.source] -= 1
            self._taking[transfer.target] -= 1

    def finished(self, node: str) -> bool:
        """Has the node all that it wants?"""
        return not self.missing[node]

    def hopeless(self, node: str) -> frozenset[Bundle]:
        """Missing bundles that nobody can give this node any more, and that nobody is about to get who then could."""
        coming = {one.bundle for one in self.active}
        return frozenset(bundle for bundle in self.missing[node] - coming if not self._living(node, bundle))


def rounds(targets: int, sources: int, serves: int) -> int:
    """Rounds until `targets` nodes have one bundle that `sources` have: in each, holders multiply by `serves + 1`."""
    holders, count = sources, 0
    while holders < sources + targets:
        holders += holders * serves
        count += 1
    return count
