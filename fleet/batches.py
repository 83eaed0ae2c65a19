"""In which order the nodes of a rollout take their turn."""

import math
from collections.abc import Iterable


def batch_sizes(policy: tuple[str, ...], nodes: int) -> list[int]:
    """Sizes: counts or percents of all nodes (rounded up); the last entry repeats until all had their turn."""
    sizes: list[int] = []
    while sum(sizes) < nodes:
        text = policy[min(len(sizes), len(policy) - 1)]
        size = math.ceil(nodes * int(text[:-1]) / 100) if text.endswith("%") else int(text)
        sizes.append(min(max(size, 1), nodes - sum(sizes)))
    return sizes


def batches(
    nodes: list[str],
    policy: tuple[str, ...],
    serving: dict[str, frozenset[str]],
    keep: frozenset[str],
    together: Iterable[frozenset[str]] = (),
) -> list[list[str]]:
    """Nodes in name order, cut into batches such that no batch holds every serving node of a service.

    `serving`: service -> nodes that serve it now with a proven release. `keep`: services whose last replica may not be
    taken. A node that would take the last one waits for a later batch; where a service has one node only, the gate
    `last-replica` has the word, not this function. `together`: nodes that run an engine together count as one.
    """
    waiting = units(nodes, together)
    result: list[list[str]] = []
    for size in batch_sizes(policy, len(waiting)):
        batch: list[str] = []
        taken = 0
        for unit in list(waiting):
            if taken < size and not _takes_the_last(unit, batch, serving, keep):
                batch += unit
                taken += 1
                waiting.remove(unit)
        result.append(sorted(batch))
    # What had to wait goes one by one at the end.
    return [batch for batch in result if batch] + waiting


def units(nodes: Iterable[str], together: Iterable[frozenset[str]]) -> list[list[str]]:
    """The nodes in name order, those that some engine joins, also by a third one, as one."""
    found = [{node} for node in sorted(nodes)]
    for names in together:
        joined = [unit for unit in found if unit & names]
        found = [unit for unit in found if not unit & names]
        found += [set().union(*joined)] if joined else []
    return sorted(sorted(unit) for unit in found)


def _takes_the_last(
    unit: list[str], batch: list[str], serving: dict[str, frozenset[str]], keep: frozenset[str]
) -> bool:
    own, after = set(unit), {*batch, *unit}
    return any(
        len(on) > 1 and on & own and on <= after and not on <= own for service, on in serving.items() if service in keep
    )
