"""Whether answers have become longer than those of a good run: a fault that hardly loops shows in how late they end."""

from fleet.frozen import Frozen
from fleet.proof.ranks import rank_sum, tends_larger
from fleet.proof.speed import percentile

CHANCE = 0.001
"""One-sided. Far below 5 %: lengths are looked at on every node of a rollout, and a sound one must not be refused."""
MATERIAL = 1.25
"""What is less than a quarter longer at the median is another way to say the same."""


class Lengths(Frozen):
    """Tokens of the answers of one run. `max_tokens` is what each was allowed: an answer that was cut has just that."""

    tokens: tuple[int, ...]
    max_tokens: int

    @property
    def median(self) -> int:
        return round(percentile(self.tokens, 50))


class Shift(Frozen):
    """Lengths of two runs beside each other. Tokens at the median; chances are those of the rank-sum test."""

    now: int
    before: int
    chance: float
    """That one distribution gives two runs that differ as much, in whatever direction."""
    chance_of_longer: float
    """That one distribution gives a later run that is as much longer."""

    @property
    def longer(self) -> bool:
        """Are the answers too much longer to go on?"""
        return self.chance_of_longer < CHANCE and self.now >= MATERIAL * self.before

    def __str__(self) -> str:
        return f"median length {self.now} tokens beside {self.before} before (p = {self.chance:.2g})"


def shift(now: Lengths, before: Lengths) -> Shift:
    """Compare two runs; where one was allowed fewer tokens, both are taken as if they had been cut there."""
    limit = min(now.max_tokens, before.max_tokens)
    new, old = (tuple(min(tokens, limit) for tokens in each.tokens) for each in (now, before))
    return Shift(
        now=round(percentile(new, 50)),
        before=round(percentile(old, 50)),
        chance=rank_sum(new, old),
        chance_of_longer=tends_larger(new, old),
    )


def lengths_of(details: object) -> Lengths | None:
    """Those that a degeneration run kept; None where it kept none that can be read."""
    if not isinstance(details, dict):
        return None
    tokens, limit = details.get("tokens"), details.get("max_tokens")
    if not isinstance(tokens, list | tuple) or not tokens or not _count(limit) or not all(map(_count, tokens)):
        return None
    return Lengths(tokens=tuple(tokens), max_tokens=limit)  # type: ignore[arg-type]


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
